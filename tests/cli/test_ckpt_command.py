"""``rolloutds ckpt``: states of our own and of other systems, good, damaged and hostile."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from rolloutds.checkpoints.verify import CODES
from rolloutds.sample_files import sample_data_folder

SAMPLE = sample_data_folder()
FILES = Path(__file__).resolve().parent.parent / "checkpoints" / "files"
STATE = "rollout/global_dataset_state_dict_{}.pt"


@pytest.fixture
def sample_run(own_folder) -> Path:
    """A copy of the sample run."""
    return shutil.copytree(SAMPLE / "run", own_folder / "run")


@pytest.fixture
def source(own_folder):
    """Makes a source over some rows that saves in the folder ``save``."""
    pytest.importorskip("torch")
    from rolloutds import RolloutDataSourceWithBuffer

    def make(num_rows=10, **settings):
        if not (own_folder / "rows.jsonl").exists():
            write_rows(own_folder / "rows.jsonl", num_rows)
        defaults = {
            "prompt_data": str(own_folder / "rows.jsonl"),
            "rollout_global_dataset": True,
            "rollout_shuffle": True,
            "n_samples_per_prompt": 2,
            "save": str(own_folder / "save"),
        }
        return RolloutDataSourceWithBuffer(SimpleNamespace(**(defaults | settings)))

    return make


def write_rows(path: Path, num_rows: int, *, swapped: bool = False) -> Path:
    lines = [json.dumps({"input": f"question {i}"}) + "\n" for i in range(num_rows)]
    if swapped:
        lines[2], lines[7] = lines[7], lines[2]
    path.write_text("".join(lines))
    return path


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def write_pickle(path: Path, data: bytes) -> Path:
    """An archive as torch.save makes it, around any pickle."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    return path


def write_state(path: Path, **values) -> Path:
    state = {
        "sample_offset": 0,
        "epoch_id": 0,
        "sample_group_index": 0,
        "sample_index": 0,
        "metadata": {},
    }
    return write_pickle(path, pickle.dumps(state | values, protocol=2))


def codes(outcome) -> list[str]:
    data = json.loads(outcome.out)
    return [finding["code"] for finding in data["findings"]]


# --- show ---------------------------------------------------------------------------------


def test_show_says_where_the_run_stands_in_words_first(run, sample_run):
    outcome = run("ckpt", "show", str(sample_run))
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == (
        "epoch 3, 4% through, next rollout 20, 646 groups served, buffer 4 groups, 2 in flight"
    )
    for text in ("rolloutds", "of 212", "saved", "640 completed", "sample_offset"):
        assert text in outcome.out


def test_show_as_json_has_the_reference_s_five_keys_under_state(run, sample_run):
    data = json.loads(run("ckpt", "show", str(sample_run), "--format", "json").out)
    assert data["kind"] == "ckpt_show"
    assert data["state"] == {
        "sample_offset": 10,
        "epoch_id": 3,
        "sample_group_index": 646,
        "sample_index": 5168,
        "metadata": {"run": "sample"},
    }
    assert data["dialect"] == "rolloutds"
    assert (data["rollout_id"], data["next_rollout_id"]) == (19, 20)
    assert (data["num_rows"], data["percent"]) == (212, 4)
    assert (data["num_buffered"], data["num_in_flight"], data["num_completed"]) == (4, 2, 640)
    assert data["words"].startswith("epoch 3, 4% through")
    assert data["findings"] == []


def test_without_a_path_the_config_s_folder_is_shown_else_the_sample_run(run, own_folder):
    outcome = run("ckpt", "show")
    assert outcome.code == 0
    assert "next rollout 20" in outcome.out
    assert "sample run" in outcome.err

    shutil.copytree(SAMPLE / "run", own_folder / "mine")
    (own_folder / "mine" / STATE.format(19)).unlink()
    (own_folder / "rolloutds.toml").write_text('save = "mine"\n')
    outcome = run("ckpt", "show")
    assert "next rollout 16" in outcome.out
    assert "sample" not in outcome.err

    (own_folder / "rolloutds.toml").write_text('save = "elsewhere"\nload = "mine"\n')
    assert "next rollout 16" in run("ckpt", "show").out


def test_an_id_picks_a_file_of_the_folder(run, sample_run):
    assert "next rollout 8," in run("ckpt", "show", str(sample_run), "--id", "7").out
    outcome = run("ckpt", "show", str(sample_run), "--id", "8")
    assert outcome.code == 3
    assert "3, 7, 11, 15, 19" in outcome.err
    assert "--id 7 is the nearest" in outcome.err
    assert run("ckpt", "show", str(sample_run / STATE.format(3)), "--id", "3").code == 2


def test_next_serves_in_flight_then_the_buffer_then_the_dataset(run, sample_run):
    arguments = ("--next", "9", "--prompt-data", str(SAMPLE / "prompts.jsonl"))
    outcome = run("ckpt", "show", str(sample_run), *arguments, "--format", "json")
    data = json.loads(outcome.out)
    assert [g["origin"] for g in data["next_groups"]] == (
        ["in flight"] * 2 + ["buffer"] * 4 + ["dataset"] * 3
    )
    assert [g["sample_group_index"] for g in data["next_groups"]] == [
        *(644, 645),
        *(640, 641, 642, 643),
        *(646, 647, 648),
    ]
    assert data["next"] == [group["row_id"] for group in data["next_groups"]]
    assert [g["sample_offset"] for g in data["next_groups"][-3:]] == [10, 11, 12]
    assert "taken from the saved state" in outcome.err  # shuffle and keys, which nobody set


@pytest.mark.parametrize("drawn", [0, 3, 10, 17])
def test_next_is_what_a_resumed_source_serves(run, own_folder, source, drawn):
    made = source(track_in_flight=True)
    groups = made.get_samples(drawn)
    made.add_samples(groups[:2])
    made.save(0)
    resumed = source(track_in_flight=True, load=str(own_folder / "save"))
    resumed.load(0)
    expected = [group[0].row_id for group in resumed.get_samples(25)]
    outcome = run(
        *("ckpt", "show", "save", "--next", "25", "--prompt-data", "rows.jsonl"),
        *("--format", "json"),
    )
    assert json.loads(outcome.out)["next"] == expected


def test_next_without_data_says_what_is_missing(run, sample_run):
    outcome = run("ckpt", "show", str(sample_run), "--next", "3")
    assert outcome.code == 2
    assert "--prompt-data" in outcome.err


def test_next_on_other_data_is_refused_and_the_state_is_shown_all_the_same(run, sample_run):
    arguments = ("--next", "3", "--prompt-data", str(SAMPLE / "tools.jsonl"))
    outcome = run("ckpt", "show", str(sample_run), *arguments)
    assert outcome.code == 3
    assert "does not fit" in outcome.err
    assert "CKPT010" in outcome.out


def test_what_is_odd_is_said(run, own_folder):
    write_state(own_folder / "s.pt", sample_offset=9, epoch_id=2, sample_group_index=20)
    outcome = run("ckpt", "show", "s.pt", "--format", "json")
    assert outcome.code == 0
    assert codes(outcome) == ["CKPT022", "CKPT012"]
    write_rows(own_folder / "rows.jsonl", 5)
    outcome = run("ckpt", "show", "s.pt", "--prompt-data", "rows.jsonl", "--format", "json")
    assert codes(outcome) == ["CKPT020", "CKPT013", "CKPT022", "CKPT012"]


def test_raw_shows_everything(run, sample_run):
    outcome = run("ckpt", "show", str(sample_run), "--raw")
    assert "format_version: 1" in outcome.out
    data = json.loads(run("ckpt", "show", str(sample_run), "--raw", "--format", "json").out)
    assert data["raw"]["rolloutds"]["format_version"] == 1


# --- damaged, foreign, hostile ------------------------------------------------------------


def test_a_damaged_newest_file_is_said_and_the_last_good_one_shown(run, sample_run):
    newest = cut(sample_run / STATE.format(19))
    outcome = run("ckpt", "show", str(sample_run))
    assert outcome.code == 3
    assert str(newest) in outcome.err
    assert "the last good one is id 15" in outcome.err
    assert "next rollout 16" in outcome.out

    outcome = run("ckpt", "show", str(newest))
    assert outcome.code == 3
    assert outcome.out == ""
    assert "the last good one before it is id 15" in outcome.err

    outcome = run("ckpt", "list", str(sample_run), "--format", "json")
    assert outcome.code == 0
    data = json.loads(outcome.out)
    assert [file["state"] for file in data["files"]] == ["ok"] * 4 + ["damaged"]
    assert data["start_rollout_id"] == 16
    assert run("ckpt", "verify", str(sample_run), "--prompt-data", "x.jsonl").code == 3


def test_a_folder_of_damaged_files_only(run, sample_run):
    for path in (sample_run / "rollout").iterdir():
        cut(path)
    outcome = run("ckpt", "show", str(sample_run))
    assert outcome.code == 3
    assert "none of the 5 files" in outcome.err
    outcome = run("ckpt", "list", str(sample_run))
    assert outcome.code == 3
    assert outcome.out.splitlines()[-1] == "no file can be resumed from"


def test_an_unknown_file_says_what_was_looked_for_and_can_be_shown_raw(run, own_folder):
    write_pickle(own_folder / "x.pt", pickle.dumps({"weights": [1, 2]}, protocol=2))
    outcome = run("ckpt", "show", "x.pt")
    assert outcome.code == 3
    assert "an object with weights" in outcome.err
    assert "StatefulDataLoader" in outcome.err
    assert "--raw" in outcome.err
    outcome = run("ckpt", "show", "x.pt", "--raw")
    assert outcome.code == 0
    assert "weights: list of 2 [1, 2]" in outcome.out


def test_nothing_in_a_file_runs_and_its_class_is_shown_by_name(run, own_folder):
    command = b"cos\nsystem\n(S'touch ran'\ntR."
    write_pickle(own_folder / "x.pt", command)
    assert "os.system" in run("ckpt", "show", "x.pt").err
    outcome = run("ckpt", "show", "x.pt", "--raw")
    assert "os.system" in outcome.out
    assert not (own_folder / "ran").exists()


def test_hostile_text_is_neutralised(run, own_folder):
    text = "\x1b[2J::error::gone\u202e"
    write_state(own_folder / "s.pt", metadata={text: text})
    for arguments in ((), ("--raw",), ("--format", "markdown"), ("--format", "json", "--raw")):
        outcome = run("ckpt", "show", "s.pt", *arguments)
        assert outcome.code == 0
        assert "\x1b" not in outcome.out + outcome.err
        assert "\u202e" not in outcome.out + outcome.err
        assert "\n::" not in outcome.out


def test_impossible_values_are_findings(run, own_folder):
    write_state(own_folder / "s.pt", sample_offset=10**5_000, epoch_id=-1, metadata=[1])
    outcome = run("ckpt", "show", "s.pt", "--raw", "--format", "json")
    assert outcome.code == 0
    findings = json.loads(outcome.out)["findings"]
    fields = [f["field"] for f in findings if f["code"] == "CKPT004"]
    assert fields == ["sample_offset", "epoch_id", "metadata"]
    assert run("ckpt", "show", "s.pt", "--raw").out.startswith("0 groups served")


@pytest.mark.parametrize(
    "ours",
    [
        None,
        7,
        {},
        {"format_version": 9},
        {"format_version": 1, "buffer": 3, "in_flight": [], "fingerprint": "x"},
        {"format_version": 1, "buffer": [[], [[]], 3, {}, [3]], "in_flight": {"groups": [3, {}]}},
        {"format_version": 1, "buffer": [], "in_flight": {"groups": [], "num_discarded": {1: 2}}},
        {"fingerprint": {"num_rows": "x", "keys": 3, "rollout_seed": 10**5_000}},
        {"moved": {"from": {}}, "n_samples_per_prompt": 10**5_000},
    ],
    ids=[*"abcdefghi"],
)
def test_whatever_is_under_our_key_every_command_ends_well(run, own_folder, ours):
    write_state(own_folder / "save" / STATE.format(1), rolloutds=ours)
    write_rows(own_folder / "rows.jsonl", 5)
    path, data = "save/" + STATE.format(1), ("--prompt-data", "rows.jsonl")
    assert run("ckpt", "show", path, "--raw", "--next", "2", *data).code in (0, 3)
    assert run("ckpt", "list", "save").code == 0
    assert run("ckpt", "diff", path, path, *data).code == 0
    assert run("ckpt", "move", path, "--epoch", "1", "--offset", "2", "-o", "n.pt").code in (2, 3)


# --- list ---------------------------------------------------------------------------------


def test_list_has_one_row_a_file_and_ends_with_where_to_resume(run, sample_run):
    outcome = run("ckpt", "list", str(sample_run))
    assert outcome.code == 0
    rows = [line.split() for line in outcome.out.splitlines() if line.split()[:1] == ["19"]]
    assert rows[0][:6] == ["19", "3", "10", "128", "4", "2"]
    assert rows[0][-1] == "ok"
    assert outcome.out.splitlines()[-1] == "resume with start rollout id 20"


def test_list_marks_a_gap_and_a_foreign_file(run, sample_run):
    (sample_run / STATE.format(11)).unlink()
    write_pickle(sample_run / STATE.format(23), pickle.dumps({"a": 1}, protocol=2))
    outcome = run("ckpt", "list", str(sample_run))
    assert "gap: 11 is missing" in outcome.out
    assert "foreign" in outcome.out
    assert outcome.out.splitlines()[-1] == "resume with start rollout id 20"


@pytest.mark.parametrize(
    ("folder", "last"),
    [
        ("verl", "the newest good one is of step 5: resume with step 6"),
        ("skyrl", "the newest good one is of step 2: resume with step 3"),
        ("nemo-rl", "the newest good one is of step 2: resume with step 3"),
        ("openrlhf", "the newest good one is of step 12: resume with step 13"),
        ("areal", "the newest good one is of step 41: resume with step 42"),
        ("prime-rl", "the newest good one is of step 30: resume with step 31"),
        ("slime", "resume with start rollout id 15"),
    ],
)
def test_every_dialect_s_folder_is_listed_and_shown(run, folder, last):
    outcome = run("ckpt", "list", str(FILES / folder))
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, last)
    assert run("ckpt", "show", str(FILES / folder)).code == 0


def test_ids_that_are_missing_are_listed_with_those_that_exist(run, source, own_folder):
    made = source()
    for rollout_id in (4, 9):
        made.save(rollout_id)
    outcome = run("ckpt", "show", "save", "--id", "7")
    assert outcome.code == 3
    assert "4, 9" in outcome.err


# --- data loaders -------------------------------------------------------------------------


def test_next_of_a_data_loader_gives_row_ids(run, maker_order):
    path = str(FILES / "verl/global_step_2/data.pt")
    outcome = run("ckpt", "show", path, "--next", "6", "--num-rows", "20", "--format", "json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["next"] == maker_order[8:14]
    outcome = run("ckpt", "diff", str(FILES / "verl/global_step_1/data.pt"), path)
    assert "rows" not in outcome.out.splitlines()[2]
    outcome = run(
        *("ckpt", "diff", str(FILES / "verl/global_step_1/data.pt"), path),
        *("--num-rows", "20", "--format", "json"),
    )
    assert json.loads(outcome.out)["consumed"]["row_ids"] == maker_order[4:8]


def test_next_of_a_data_loader_names_the_rows_of_the_data(run, own_folder, maker_order):
    write_rows(own_folder / "rows.jsonl", 20)
    path = str(FILES / "verl/global_step_2/data.pt")
    outcome = run("ckpt", "show", path, "--next", "2", "--prompt-data", "rows.jsonl")
    assert outcome.code == 0
    assert f"question {maker_order[8]}" in outcome.out


@pytest.fixture
def maker_order() -> list[int]:
    """The first epoch's order in the files, of torch itself."""
    torch = pytest.importorskip("torch")
    generator = torch.Generator()
    generator.manual_seed(7)
    order: list[int] = torch.randperm(20, generator=generator).tolist()
    return order


def test_an_order_that_is_not_in_the_file_is_said(run):
    path = str(FILES / "unknown/global_step_3/data.pt")
    outcome = run("ckpt", "show", path, "--next", "3", "--num-rows", "20")
    assert outcome.code == 3
    assert "the order is not in the file" in outcome.err
    assert "verl or SkyRL" in outcome.out
    assert "--dialect" in outcome.out
    assert "SkyRL" in run("ckpt", "show", path, "--dialect", "skyrl").out
    assert run("ckpt", "show", path, "--dialect", "nobody").code == 2


def test_prime_rl_has_no_order(run):
    outcome = run("ckpt", "show", str(FILES / "prime-rl"), "--next", "3")
    assert outcome.code == 3
    assert "total problems" in outcome.out


# --- diff ---------------------------------------------------------------------------------


def test_diff_shows_fields_and_the_rows_between(run, sample_run):
    files = [str(sample_run / STATE.format(i)) for i in (7, 11)]
    outcome = run("ckpt", "diff", *files, "--format", "json")
    assert outcome.code == 0
    data = json.loads(outcome.out)
    changes = {change["field"]: change for change in data["changes"]}
    assert changes["sample_group_index"] == {
        "field": "sample_group_index",
        "old": 262,
        "new": 390,
        "difference": 128,
    }
    assert changes["rolloutds.buffer"]["difference"].startswith("came: ")
    assert data["consumed"] is None

    prompts = ("--prompt-data", str(SAMPLE / "prompts.jsonl"))
    data = json.loads(run("ckpt", "diff", *files, *prompts, "--format", "json").out)
    assert data["consumed"]["num_rows"] == len(data["consumed"]["row_ids"]) == 128
    assert data["consumed"]["spans"] == [{"epoch_id": 1, "start": 50, "stop": 178}]
    back = json.loads(run("ckpt", "diff", *files[::-1], *prompts, "--format", "json").out)
    assert back["consumed"] == data["consumed"] | {"is_backwards": True}


def test_diff_of_a_file_with_itself(run, sample_run):
    path = str(sample_run / STATE.format(7))
    outcome = run("ckpt", "diff", path, path)
    assert (outcome.code, outcome.out.splitlines()[-1]) == (0, "no field differs")


# --- verify -------------------------------------------------------------------------------


def test_verify_of_the_right_data_is_clean(run, sample_run):
    outcome = run("ckpt", "verify", str(sample_run), "--prompt-data", str(SAMPLE / "prompts.jsonl"))
    assert outcome.code == 0
    assert outcome.out.startswith("the state fits this data")
    assert run("ckpt", "verify").code == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("row appended", "content_digest"),
        ("rows swapped", "content_digest"),
        ("other seed", "rollout_seed"),
        ("no shuffle", "rollout_shuffle"),
        ("slice", "slice"),
        ("three rows", "num_rows"),
    ],
)
def test_verify_names_what_differs(run, own_folder, source, change, field):
    made = source()
    made.get_samples(5)
    made.save(0)
    path, arguments = own_folder / "rows.jsonl", ["--prompt-data", "rows.jsonl"]
    match change:
        case "row appended":
            write_rows(path, 11)
        case "rows swapped":
            write_rows(path, 10, swapped=True)
        case "three rows":
            write_rows(path, 3)
        case "other seed":
            arguments += ["--rollout-seed", "43"]
        case "no shuffle":
            arguments += ["--no-rollout-shuffle"]
        case "slice":
            arguments = ["--prompt-data", "rows.jsonl@[0:9]"]
    outcome = run("ckpt", "verify", "save", *arguments, "--format", "json")
    assert outcome.code == 1
    findings = json.loads(outcome.out)["findings"]
    assert f"fingerprint.{field}" in [f["field"] for f in findings if f["code"] == "CKPT010"]


def test_verify_of_a_state_without_a_fingerprint(run, own_folder):
    path = str(FILES / "slime" / STATE.format(14))
    write_rows(own_folder / "ten.jsonl", 10)
    write_rows(own_folder / "nine.jsonl", 9)
    outcome = run("ckpt", "verify", path, "--prompt-data", "ten.jsonl", "--format", "json")
    assert (outcome.code, codes(outcome)) == (0, ["CKPT012"])
    outcome = run("ckpt", "verify", path, "--prompt-data", "nine.jsonl", "--format", "json")
    assert (outcome.code, codes(outcome)) == (1, ["CKPT013", "CKPT012"])
    outcome = run(
        *("ckpt", "verify", path, "--prompt-data", "ten.jsonl"),
        *("--n-samples-per-prompt", "8", "--format", "json"),
    )
    assert (outcome.code, codes(outcome)) == (0, ["CKPT022", "CKPT012"])


def test_verify_needs_data(run, sample_run):
    assert run("ckpt", "verify", str(sample_run)).code == 2


def test_every_code_that_is_found_is_described():
    assert all(code.startswith("CKPT") and len(code) == 7 for code in CODES)
    assert {code.severity for code in CODES.values()} == {"error", "warning", "note"}


# --- move ---------------------------------------------------------------------------------


def test_move_writes_a_state_that_a_run_resumes_from(run, own_folder, source):
    made = source()
    made.get_samples(13)
    made.save(0)
    target = own_folder / "moved" / STATE.format(0)
    target.parent.mkdir(parents=True)
    old = (own_folder / "save" / STATE.format(0)).read_bytes()
    outcome = run(
        *("ckpt", "move", "save", "--epoch", "2", "--offset", "4", "-o", str(target)),
        *("--format", "json"),
    )
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["state"] == {
        "sample_offset": 4,
        "epoch_id": 2,
        "sample_group_index": 24,
        "sample_index": 48,
    }
    assert (own_folder / "save" / STATE.format(0)).read_bytes() == old
    resumed, reference = source(load=str(own_folder / "moved")), source()
    resumed.load(0)
    reference.get_samples(24)
    rows = [[s.index for s in group] for group in resumed.get_samples(9)]
    assert rows == [[s.index for s in group] for group in reference.get_samples(9)]
    data = json.loads(run("ckpt", "show", str(target), "--raw", "--format", "json").out)
    assert [finding["code"] for finding in data["findings"]] == ["CKPT030"]
    assert data["raw"]["rolloutds"]["moved"]["from"]["sample_group_index"] == 13


def test_move_never_overwrites_and_never_drops_in_silence(run, sample_run):
    pytest.importorskip("torch")
    path = str(sample_run / STATE.format(19))
    there = ("ckpt", "move", path, "--epoch", "4", "--offset", "0", "-o")
    outcome = run(*there, "new.pt")
    assert outcome.code == 2
    assert "--drop-buffer" in outcome.err
    outcome = run(*there, "new.pt", "--drop-buffer")
    assert outcome.code == 2
    assert "--drop-in-flight" in outcome.err
    assert run(*there, "new.pt", "--keep-buffer", "--drop-in-flight").code == 0
    assert "4 groups" in run("ckpt", "show", "new.pt").out
    assert run(*there, "new.pt", "--drop-buffer", "--drop-in-flight").code == 2
    outcome = run(*there, path, "--drop-buffer", "--drop-in-flight")
    assert outcome.code == 2
    assert "in place" in outcome.err


def test_moving_back_cannot_keep_groups_whose_index_is_given_again(run, sample_run):
    path = str(sample_run / STATE.format(19))
    outcome = run(
        *("ckpt", "move", path, "--epoch", "1", "--offset", "0", "-o", "new.pt"),
        *("--keep-buffer", "--drop-in-flight"),
    )
    assert outcome.code == 2
    assert "given again" in outcome.err
    assert not Path("new.pt").exists()


@pytest.mark.parametrize(
    ("path", "arguments", "said"),
    [
        ("slime/" + STATE.format(14), ("--offset", "3"), "no fingerprint"),
        ("verl/global_step_2/data.pt", ("--offset", "3"), "expected one of rolloutds"),
    ],
)
def test_move_refuses(run, path, arguments, said):
    outcome = run("ckpt", "move", str(FILES / path), "--epoch", "0", *arguments, "-o", "new.pt")
    assert outcome.code in (2, 3)
    assert said in outcome.err


def test_move_of_a_slime_state_takes_the_data_s_fingerprint(run, own_folder):
    pytest.importorskip("torch")
    write_rows(own_folder / "rows.jsonl", 10)
    path = str(FILES / "slime" / STATE.format(14))
    arguments = ("--epoch", "1", "--offset", "3", "-o", "new.pt", "--prompt-data", "rows.jsonl")
    assert run("ckpt", "move", path, *arguments).code == 0
    assert run("ckpt", "verify", "new.pt", "--prompt-data", "rows.jsonl").code == 0
    beyond = ("--epoch", "1", "--offset", "11", "-o", "n.pt", "--prompt-data", "rows.jsonl")
    assert run("ckpt", "move", path, *beyond).code == 2


# --- start-up -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("show",),
        ("show", "--raw"),
        ("show", "--next", "9"),
        ("list",),
        ("verify",),
        ("diff", str(SAMPLE / "run" / STATE.format(3)), str(SAMPLE / "run" / STATE.format(7))),
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_loaded(own_folder, arguments):
    import os
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "rolloutds", "ckpt", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    traced = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    loaded = {line.rsplit("|", 1)[1].strip().partition(".")[0] for line in traced}
    heavy = {"torch", "transformers", "pyarrow", "tokenizers", "pydantic"}
    if arguments[0] in ("show", "list") and "--next" not in arguments:
        heavy |= {"numpy", "msgspec"}
    assert loaded & heavy == set()


def test_the_page_has_every_code_and_dialect(repository):
    from rolloutds.checkpoints import DIALECTS

    page = (repository / "docs" / "checkpoints.md").read_text(encoding="utf-8")
    for code, (severity, title) in CODES.items():
        assert f"| {code} | {severity} | {title} |\n" in page
    for name in DIALECTS:
        assert f"| `{name}` |" in page


def test_the_page_shows_what_is_printed(run, repository):
    page = (repository / "docs" / "checkpoints.md").read_text(encoding="utf-8")
    assert run("ckpt", "show").out.splitlines()[0] in page
    time = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")  # that of the files
    shown = {time.sub("T", line) for line in page.splitlines()}
    out = run("ckpt", "list").out.splitlines()
    assert {time.sub("T", line) for line in out[out.index("") :]} <= shown


def test_list_of_a_file_says_that_it_is_one(run, sample_run):
    outcome = run("ckpt", "list", str(sample_run / STATE.format(3)))
    assert (outcome.code, outcome.out) == (3, "")
    assert "is a file, expected a folder of cursor files" in outcome.err


@pytest.mark.parametrize("name", ["list", "show"])
def test_a_folder_that_may_not_be_listed_is_named(run, sample_run, monkeypatch, name):
    monkeypatch.setattr("rolloutds.checkpoints.base._names", lambda folder: [])
    monkeypatch.setattr("os.access", lambda path, mode: path.name != "rollout")
    outcome = run("ckpt", name, str(sample_run))
    assert (outcome.code, outcome.out) == (3, "")
    assert "rollout: cannot be looked into (Permission denied)" in outcome.err


def test_a_state_behind_a_url_says_that_it_must_be_local(run, tmp_path):
    outcome = run("ckpt", "show", "s3://bucket/run")
    assert outcome.code == 2
    assert "s3://bucket/run is a URL, expected a path on the local file system" in outcome.err
