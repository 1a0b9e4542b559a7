from __future__ import annotations

import json
from pathlib import Path

import pytest

FILES = Path(__file__).resolve().parent.parent / "rollouts" / "files"
VERL = str(FILES / "verl" / "40.jsonl")


def test_convert_says_what_it_read_and_wrote(run):
    outcome = run("buffer", "convert", VERL, "out.jsonl")
    assert outcome.code == 0
    assert outcome.err == ""
    assert "40.jsonl (verl)" in outcome.out
    assert "out.jsonl (rolloutds)" in outcome.out
    assert "3 groups, 6 samples" in outcome.out
    assert len(Path("out.jsonl").read_text().splitlines()) == 3


def test_convert_for_programs(run):
    outcome = run("buffer", "convert", VERL, "out.txt", "--to=readable", "--format=json")
    report = json.loads(outcome.out)
    assert (report["kind"], report["format"]) == ("buffer_convert", "readable")
    assert (report["num_groups"], report["num_samples"]) == (3, 6)
    assert report["files"][0]["format_name"] == "verl"
    assert report["files"][0]["rollout_id"] == 40


def test_what_is_odd_is_said_on_stderr(run):
    outcome = run("buffer", "convert", str(FILES / "slime" / "12.pt"), "out.jsonl")
    assert "note: statuses that are not known, kept as they are: paused (1 samples)" in outcome.err
    assert "foo (1 samples)" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((VERL, "out.csv"), 2, "its ending says no format"),
        ((VERL, "there.jsonl"), 3, "exists already"),
        ((VERL, "out.jsonl", "--from=slime"), 2, "is JSON Lines"),
        ((VERL, "out.jsonl", "--from=nothing"), 2, "'skyrl'"),
        (("missing.jsonl", "out.jsonl"), 3, "no such file"),
        (("unknown.jsonl", "out.jsonl"), 3, "what was looked for"),
        (("plain.jsonl", "out.jsonl"), 3, "--n-samples-per-prompt"),
        ((VERL,), 2, "OUT"),
        ((), 2, "IN"),
    ],
)
def test_errors(run, arguments, code, message):
    Path("there.jsonl").write_text("")
    Path("unknown.jsonl").write_text('{"question": 1}\n')
    Path("plain.jsonl").write_text('{"prompt": "a", "response": "b"}\n')
    outcome = run("buffer", "convert", *arguments)
    assert outcome.code == code
    assert message in outcome.err
    assert outcome.out == ""


def test_the_group_size_comes_from_flag_or_config_and_not_from_the_sample_data(run):
    rows = '{"prompt": "a", "response": "b"}\n' * 4
    Path("plain.jsonl").write_text(rows)
    out = run("buffer", "convert", "plain.jsonl", "a.jsonl", "--n-samples-per-prompt=4").out
    assert "1 groups, 4 samples" in out
    Path("rolloutds.toml").write_text("n_samples_per_prompt = 2\n")
    assert "2 groups, 4 samples" in run("buffer", "convert", "plain.jsonl", "b.jsonl").out


def test_force_replaces(run):
    Path("out.jsonl").write_text("old")
    assert run("buffer", "convert", VERL, "out.jsonl", "--force", "--no-tokens").code == 0
    assert "tokens" not in json.loads(Path("out.jsonl").read_text().splitlines()[0])["samples"][0]


def test_a_torch_file_is_converted_without_torch(run_process):
    script = (
        "import sys; sys.modules['torch'] = None; from rolloutds.cli import main; "
        "sys.argv[1:] = sys.argv[1:]; main()"
    )
    import subprocess
    import sys

    source = str(FILES / "slime" / "12.pt")
    done = subprocess.run(
        [sys.executable, "-c", script, "buffer", "convert", source, "out.jsonl"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"__rolloutds__":"tensor"' in Path("out.jsonl").read_text()


def test_buffer_alone_shows_its_subcommands(run):
    outcome = run("buffer")
    assert outcome.code == 2
    assert "convert" in outcome.err
    assert run("buffer", "convert", "--help").code == 0


# --- looking ------------------------------------------------------------------------------

SAMPLE_DATA = Path(__file__).resolve().parents[2] / "sample_data"
GOOD = f"{SAMPLE_DATA / 'filters_good.py'}:mixed_first"
BAD = str(SAMPLE_DATA / "filters_bad.py")


def write_groups(path, *groups, **common):
    lines = []
    for number, rewards in enumerate(groups):
        samples = [
            {"group_index": number, "prompt": f"p{number}", "reward": reward, **common}
            for reward in rewards
        ]
        lines.append(json.dumps({"group_index": number, "samples": samples}))
    Path(path).write_text("\n".join(lines) + "\n")


def test_show_has_one_row_a_group_of_the_sample_buffer(run):
    outcome = run("buffer", "show")
    assert outcome.code == 0
    assert "no file named: using the sample buffer" in outcome.err
    lines = outcome.out.splitlines()
    assert lines[0].split()[:5] == ["group", "size", "by", "status", "rewards"]
    assert "shown  40 of 40 groups" in outcome.out
    assert "aborted 3" in outcome.out


def test_show_where_sort_and_limit(run):
    outcome = run(
        *("buffer", "show", "--where", "reward_std == 0 and num_aborted == 0"),
        *("--sort=-age", "--limit=3", "--format=json"),
    )
    report = json.loads(outcome.out)
    assert (report["kind"], report["num_groups"], report["num_shown"]) == ("buffer_show", 40, 3)
    ages = [group["age"] for group in report["groups"]]
    assert ages == sorted(ages, reverse=True)
    assert all(group["reward_std"] == 0 for group in report["groups"])
    assert report["groups"][0]["response_lengths"]


def test_show_a_group_in_full(run):
    outcome = run("buffer", "show", "--group", "9")
    assert outcome.code == 0
    assert "tokens differ    at response token 0: 329 (samples 0, 2)" in outcome.out
    assert "A shop packs 891 eggs" in outcome.out
    assert "sample 7" in outcome.out
    record = json.loads(run("buffer", "show", "--group", "9", "--format=json").out)
    assert len(record["samples"]) == 8


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("show", "--group=1"), 3, "no group 1, expected one of 6 to"),
        (("show", "--where=nothing > 1"), 2, "no column 'nothing'"),
        (("show", "--where=exit()"), 2, "--where"),
        (("show", "--sort=nothing"), 2, "the columns are position, group"),
        (("show", "--group=9", "--limit=1"), 2, "one or the other"),
        (("show", "missing.pt"), 3, "no such file"),
        (("stats", "missing.pt"), 3, "no such file"),
        (("stats", "empty.jsonl"), 3, "empty.jsonl"),
        (("replay", "--filter=nothing_here.fn"), 3, "nothing_here cannot be imported"),
        (("replay", "--set=x"), 2, "NAME=VALUE"),
        (("replay", "--time-limit=soon"), 2, "seconds"),
        (("replay", "--time-limit=0"), 2, "seconds above 0"),
        (("replay", "--num-samples=0"), 2, "at least 1"),
        (("replay", "--refill", "pairs.jsonl"), 3, "has 2 samples, expected 8"),
    ],
)
def test_what_is_wrong_is_said(run, arguments, code, message):
    Path("empty.jsonl").write_text("")
    write_groups("pairs.jsonl", [1, 0])
    outcome = run("buffer", *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert message in outcome.err


def test_text_from_files_cannot_act_on_the_terminal(run):
    write_groups("evil.jsonl", [1, 0], response="\x1b[2J::error::x", status="\x1b[31mred")
    for arguments in (["show"], ["show", "--group=0"], ["stats", "--by=response"]):
        outcome = run("buffer", arguments[0], "evil.jsonl", *arguments[1:])
        assert outcome.code == 0
        assert "\x1b" not in outcome.out + outcome.err


def test_rewards_that_are_objects_are_shown_key_by_key(run):
    write_groups("objects.jsonl", [{"right": 1, "form": 0}, {"right": 0, "form": 0}])
    shown = run("buffer", "show", "objects.jsonl")
    assert shown.code == 0
    assert "right 0.5, form 0" in shown.out
    assert "right, form (--reward-key picks one)" in shown.out
    stats = run("buffer", "stats", "objects.jsonl")
    assert stats.code == 0
    assert "rewards, right: mean 0.5" in stats.out
    assert "--reward-key picks one" in stats.out
    assert "mean 0.5" in run("buffer", "stats", "objects.jsonl", "--reward-key=right").out


def test_stats_draws_and_gives_programs_the_numbers(run):
    outcome = run("buffer", "stats", "--by", "metadata.source")
    assert outcome.code == 0
    assert "█" in outcome.out
    assert "zero spread  8 of 32 groups (25.0%)" in outcome.out
    assert "by metadata.source" in outcome.out
    report = json.loads(run("buffer", "stats", "--by=metadata.source", "--format=json").out)
    assert report["rewards"]["histogram"] == [
        {"low": 0.0, "high": 0.0, "num": 126},
        {"low": 1.0, "high": 1.0, "num": 118},
    ]
    assert report["parts"]["units"]["num_groups"] == 6
    assert (report["num_all_highest"], report["num_all_lowest"]) == (4, 4)


def test_stats_of_several_real_dumps_are_a_trend(run, shared_data):
    outcome = run("buffer", "stats", str(shared_data / "rollouts" / "*.pt"))
    assert "by rollout" in outcome.out
    files = json.loads(run("buffer", "stats", str(shared_data / "rollouts"), "--format=json").out)[
        "files"
    ]
    assert [file["rollout_id"] for file in files] == [0, 1, 2, 3]


def test_real_dumps_are_shown_and_replayed(run, shared_data):
    for number in range(4):
        path = str(shared_data / "rollouts" / f"{number}.pt")
        assert "32 of 32 groups\nrollout  " in run("buffer", "show", path).out
        outcome = run("buffer", "replay", path, "--filter", GOOD, "--num-samples=10")
        assert outcome.code == 0
        assert "32 of 32 groups, in 4 rounds" in outcome.out


# --- replaying ----------------------------------------------------------------------------


def test_replay_says_what_it_takes_for_granted(run):
    outcome = run("buffer", "replay")
    assert outcome.code == 0
    assert "32 groups are asked for a round" in outcome.err
    assert "n_samples_per_prompt is not set: 8, the commonest size" in outcome.err
    assert "no filter named (--filter): rolloutds.filters.pop_first" in outcome.err
    assert "findings  none" in outcome.out


def test_a_good_filter_and_a_bad_one_side_by_side(run):
    outcome = run(
        *("buffer", "replay", "--filter", GOOD, "--filter", f"{BAD}:best_first"),
        *("--num-samples=8", "--format=json"),
    )
    assert outcome.code == 0  # warnings
    good, bad = json.loads(outcome.out)["filters"]
    assert (good["findings"], good["num_served"], good["ended"]) == ([], 40, "empty")
    assert [finding["code"] for finding in bad["findings"]] == ["RPL008", "RPL008"]
    assert len(good["only_this_takes_in_round_1"]) == len(bad["only_this_takes_in_round_1"])
    assert (len(good["only_this_takes"]), bad["only_this_takes"]) == (32, [])
    assert (
        "side by side"
        in run("buffer", "replay", f"--filter={GOOD}", f"--filter={BAD}:shuffled").out
    )


def test_exit_codes(run):
    assert run("buffer", "replay", f"--filter={BAD}:best_first", "--fail-on=warning").code == 1
    assert run("buffer", "replay", f"--filter={BAD}:all_at_once", "--num-samples=8").code == 1
    assert run("buffer", "replay", f"--filter={BAD}:shuffled").code == 0


def test_the_current_folder_is_importable_and_args_are_set(run):
    Path("my_own_filters.py").write_text(
        "def take(args, rollout_id, buffer, num_samples):\n"
        "    print('said', args.floor, args.name, args.rollout_batch_size, rollout_id)\n"
        "    return [buffer.pop(0) for _ in range(min(num_samples, len(buffer)))]\n"
    )
    outcome = run(
        *("buffer", "replay", "--filter=my_own_filters.take", "--set=floor=0.5", "--set=name=a b"),
        *("--rollout-batch-size=20", "--rollout-id=3", "--format=json"),
    )
    assert outcome.code == 0
    report = json.loads(outcome.out)  # what the filter prints does not get into it
    assert [done["rollout_id"] for done in report["rounds"]] == [3, 4]
    assert report["num_samples"] == 20


def test_what_a_filter_prints_goes_to_stderr(run_process):
    Path("loud.py").write_text("def take(*args):\n    print('hello')\n    return []\n")
    outcome = run_process("buffer", "replay", "--filter=loud.py:take", "--format=json")
    assert json.loads(outcome.out)["filters"][0]["ended"] == "nothing new"
    assert "hello" in outcome.err


@pytest.mark.parametrize(
    "body",
    [
        "os.write(1, b'hello')",
        "os.system('echo hello')",
        "sys.__stdout__.write('hello')",
        "print('hello ' * 100_000)",
    ],
)
def test_nothing_that_a_filter_writes_gets_into_the_result(run_process, body):
    Path("loud.py").write_text(
        f"import os, sys\n{body}\ndef take(*args):\n    {body}\n    return []\n"
    )
    outcome = run_process("buffer", "replay", "--filter=loud.py:take", "--format=json")
    assert json.loads(outcome.out)["filters"][0]["ended"] == "nothing new"
    assert outcome.err.count("hello") >= 2


@pytest.mark.parametrize(
    "body",
    [
        "random.getstate = random.Random = time.perf_counter = time.monotonic = None",
        "os.fork()",
        "threading.Thread(target=time.sleep, args=(60,)).start()",
        "args.rollout_seed = args.rollout_seed + 1 if args.rollout_seed < 50 else 1 / 0",
        "import pickle; pickle.dumps = os.write = os.fstat = None",
        "print('x' * 100_000)",
    ],
)
def test_a_filter_may_do_odd_things_beside(run, body):
    Path("odd.py").write_text(
        "import os, random, threading, time\n"
        "def take(args, rollout_id, buffer, num_samples):\n"
        f"    {body}\n"
        "    taken, buffer[:] = buffer[:num_samples], buffer[num_samples:]\n"
        "    return taken\n"
    )
    call = ("buffer", "replay", "--filter=odd.py:take", "--num-samples=8", "--format=json")
    outcome = run(*call)
    assert outcome.code == 0, outcome.err
    (report,) = json.loads(outcome.out)["filters"]
    assert (report["ended"], report["findings"]) == ("empty", [])


@pytest.mark.parametrize(
    ("body", "code"), [("import sys; sys.exit(0)", 3), ("raise KeyboardInterrupt", 1)]
)
def test_a_module_that_ends_the_process_while_it_is_imported(run, body, code):
    Path("ends.py").write_text(body)
    outcome = run("buffer", "replay", "--filter=ends.py:take")
    assert outcome.code == code
    assert body[-8:-3] in outcome.err + outcome.out or "SystemExit" in outcome.err


def test_a_filter_that_is_a_coroutine_is_named_without_a_warning_of_python(run_process):
    Path("later.py").write_text("async def take(*args):\n    return []\n")
    outcome = run_process("buffer", "replay", "--filter=later.py:take", "--format=json")
    assert json.loads(outcome.out)["filters"][0]["findings"][0]["code"] == "RPL001"
    assert "never awaited" not in outcome.err


@pytest.mark.parametrize(
    ("flag", "code"),
    [
        ("--time-limit=1e30", 2),
        ("--set=x=" + "[" * 100_000, 0),
        ("--set=x=1e999", 0),
        ("--num-samples=" + "9" * 30, 0),
    ],
)
def test_odd_values_of_flags(run, flag, code):
    assert run("buffer", "replay", flag).code == code


def test_a_filter_named_in_a_config_that_was_only_found_is_not_imported(run):
    Path("evil.py").write_text("open('ran', 'w')\ndef take(*args):\n    return []\n")
    Path("rolloutds.toml").write_text("buffer_filter_path = 'evil.py:take'\n")
    outcome = run("buffer", "replay")
    assert "buffer_filter_path is left out" in outcome.err
    assert "filter rolloutds.filters.pop_first" in outcome.out
    assert not Path("ran").exists()
    assert "filter evil.py:take" in run("buffer", "replay", "--config=rolloutds.toml").out


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        (
            "while True:\n        try: time.sleep(9)\n        except BaseException: pass",
            "RPL007",
            "from outside",
        ),
        ("ctypes.PyDLL(None).sleep(60)", "RPL007", "stopped after 0.2 s"),
        ("time.sleep(60)", "RPL007", "stopped after 0.2 s"),
        ("os._exit(0)", "RPL006", "the filter ended the process in the call (exit code 0)"),
        ("os._exit(7)", "RPL006", "the filter ended the process in the call (exit code 7)"),
        ("os.kill(os.getpid(), 9)", "RPL006", "the process was killed in the call (SIGKILL: by"),
        ("os.kill(0, 9)", "RPL006", "the process was killed in the call (SIGKILL: by"),
        ("os.kill(os.getpid(), 15)", "RPL006", "the process was ended by SIGTERM in the call"),
        ("ctypes.string_at(0)", "RPL006", "the process was ended by SIGSEGV in the call"),
        ("raise RuntimeError('odd')", "RPL006", "raised RuntimeError: odd"),
        ("raise KeyboardInterrupt('own')", "RPL006", "raised KeyboardInterrupt: own"),
        ("raise SystemExit(0)", "RPL006", "raised SystemExit: 0"),
        ("class Own(BaseException): pass\n    raise Own('odd')", "RPL006", "raised Own: odd"),
        ("raise Silent()", "RPL006", "raised Silent: (its text cannot be made)"),
        ("input()", "RPL006", "raised EOFError"),
        ("os.closerange(3, 99)", "RPL006", "the filter closed files that are not its own"),
        (
            "os.closerange(3, 99)\n    while True:\n"
            "        try: time.sleep(9)\n        except BaseException: pass",
            "RPL006",
            "the filter closed files that are not its own",
        ),
        (
            "for n in range(3, 99):\n        try: os.dup2(2, n)\n        except OSError: pass\n"
            "    return []",
            "RPL006",
            "the filter closed files that are not its own",
        ),
        ("if os.fork(): os._exit(0)\n    time.sleep(60)", "RPL006", "in the call (exit code 0)"),
        ("import copy; return [[Odd(copy.copy(buffer[0][0]))] * 8]", "RPL005", "is not one of"),
    ],
)
def test_whatever_a_filter_does_the_command_goes_on(run, monkeypatch, body, code, says):
    monkeypatch.setattr("rolloutds.replay_child._GRACE_SECONDS", 0.3)
    Path("wild.py").write_text(
        "import ctypes, os, time\n"
        "class Reward(float): pass\n"
        "class Silent(Exception):\n"
        "    def __str__(self): raise self\n"
        "def Odd(sample): sample.reward = Reward(2); return sample\n"
        "def take(args, rollout_id, buffer, num_samples):\n"
        "    if len(buffer) == 40: return [buffer.pop(0)]\n"
        f"    {body}\n"
    )
    outcome = run("buffer", "replay", "--filter=wild.py:take", "--time-limit=0.2", "--format=json")
    assert outcome.code == 1
    report = json.loads(outcome.out)
    found = report["filters"][0]["findings"][0]
    assert found["code"] == code
    assert says in found["message"]
    assert report["rounds"][0]["num_taken"] == 1
    assert len(report["filters"][0]["never_served"]) == 39


def test_a_filter_that_writes_to_every_open_file_is_named(run_process):
    Path("spills.py").write_text(
        "import os, time\n"
        "def take(args, rollout_id, buffer, num_samples):\n"
        "    for number in range(3, 99):\n"
        "        try: os.write(number, b'{}' * 9)\n"
        "        except OSError: pass\n"
        "    time.sleep(60)\n"
    )
    outcome = run_process("buffer", "replay", "--filter=spills.py:take", "--format=json")
    (report,) = json.loads(outcome.out)["filters"]
    assert outcome.code == 1
    assert report["findings"][0]["code"] == "RPL006"
    assert "wrote to files that are not its own" in report["findings"][0]["message"]


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ("__eq__ = never", "RPL007", "never, run by comparing samples after the call, group 9"),
        ("__eq__ = stubborn", "RPL007", "stopped from outside when its samples were compared"),
        ("__eq__ = dies", "RPL006", "the filter ended the process when its samples were compared"),
    ],
)
def test_what_a_filter_leaves_in_samples_cannot_hang_a_replay(run, monkeypatch, body, code, says):
    monkeypatch.setattr("rolloutds.replay_child._GRACE_SECONDS", 0.3)
    Path("leaves.py").write_text(
        "import os, time\n"
        "def never(self, other):\n    while True: pass\n"
        "def stubborn(self, other):\n    while True:\n"
        "        try: time.sleep(9)\n        except BaseException: pass\n"
        "def dies(self, other): os._exit(5)\n"
        f"class Left:\n    {body}\n    __hash__ = None\n"
        "def take(args, rollout_id, buffer, num_samples):\n"
        "    buffer[1][2].metadata = Left()\n"
        "    return [buffer.pop(0), buffer.pop(0)]\n"
    )
    outcome = run(
        "buffer", "replay", "--filter=leaves.py:take", "--time-limit=0.2", "--format=json"
    )
    assert outcome.code == 1
    found = json.loads(outcome.out)["filters"][0]["findings"][0]
    assert found["code"] == code
    assert says in found["message"]


def test_filters_lists_all_with_what_they_read(run):
    from rolloutds.filters import FILTERS

    outcome = run("buffer", "filters", "--format=json")
    report = json.loads(outcome.out)
    assert [entry["name"] for entry in report["filters"]] == list(FILTERS)
    shown = run("buffer", "filters").out
    assert "\nhighest_reward_first " in shown
    assert "--buffer-filter-path rolloutds.filters.NAME" in shown


ODD_FIELDS = [
    {"reward": float("nan")},
    {"reward": 1e308},
    {"reward": -1e308},
    {"reward": float("-inf")},
    {"reward": 10**400},
    {"reward": {"a": 10**400, "b": None}},
    {"response_length": 10**400},
    {"response_length": -1},
    {"weight_versions": 5},
    {"weight_versions": [10**400]},
    {"weight_versions": {"1": 2}},
    {"weight_versions": float("nan")},
]


@pytest.mark.parametrize("odd", ODD_FIELDS, ids=repr)
def test_odd_values_in_a_file_are_shown_counted_and_replayed(run, odd):
    plain = {"prompt": "p", "reward": 1e308, "weight_versions": ["1"], "status": "completed"}
    samples = [plain | {"reward": -1e308}, plain | odd]
    Path("odd.jsonl").write_text(json.dumps({"group_index": 0, "samples": samples}) + "\n")
    for call in (
        ("show", "odd.jsonl"),
        ("show", "odd.jsonl", "--group=0"),
        ("show", "odd.jsonl", "--reward-key=a", "--where=reward_std >= 0 or age != 1"),
        ("stats", "odd.jsonl"),
        ("replay", "odd.jsonl", "--filter=rolloutds.filters.freshest_weights_first"),
    ):
        for ending in ((), ("--format=json",)):
            outcome = run("buffer", *call, *ending)
            assert outcome.code == 0, outcome.err


def test_a_rollout_id_that_is_no_number_is_an_error_of_ours(run):
    Path("odd.jsonl").write_text('{"samples": [{"prompt": "p", "rollout_id": [1]}]}\n')
    outcome = run("buffer", "show", "odd.jsonl")
    assert outcome.code == 3
    assert "rollout_id is a list" in outcome.err


def test_a_device_is_not_replaced_by_a_file(run):
    import os

    os.mkfifo("pipe.jsonl")
    outcome = run("buffer", "convert", VERL, "pipe.jsonl", "--force")
    assert outcome.code == 3
    assert "is a device or pipe" in outcome.err
    assert Path("pipe.jsonl").is_fifo()


def test_explain_knows_the_codes_of_a_replay(run):
    from rolloutds.replay_codes import REPLAY_CODES

    for code, kind in REPLAY_CODES.items():
        outcome = run("explain", code)
        assert outcome.code == 0
        assert kind.name in outcome.out
        assert run("explain", kind.name).out == outcome.out


def test_show_a_group_spells_truths_of_numpy_as_truths(run):
    truth = {"__rolloutds__": "ndarray", "dtype": "|b1", "shape": [], "is_scalar": True}
    yes, no = {**truth, "data": "AQ=="}, {**truth, "data": "AA=="}
    half = {**truth, "dtype": "<f4", "data": "AAAAPw=="}
    sample = {"prompt": "p", "reward": yes, "label": no, "metadata": {"a": [no, {"b": yes}, half]}}
    Path("a.jsonl").write_text(json.dumps({"group_index": 0, "samples": [sample]}) + "\n")
    (shown,) = json.loads(run("buffer", "show", "a.jsonl", "--group=0", "--format=json").out)[
        "samples"
    ]
    assert (shown["reward"], shown["label"]) == (True, False)
    assert shown["metadata"] == {"a": [False, {"b": True}, 0.5]}
    for value in (shown["reward"], shown["label"], shown["metadata"]["a"][1]["b"]):
        assert type(value) is bool
    text = run("buffer", "show", "a.jsonl", "--group=0").out
    assert '{"a": [false, {"b": true}, 0.5]}' in text
    assert "label            false" in text
