"""Every command's text at 80 columns and in a pipe, on data that is hard to lay out."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from rolloutds.reports.visible import width
from rolloutds.sample_files import sample_data_folder

DEEP = "runs/2026-11-30_qwen3-32b_math-and-code_long-context_ablation/stage-2/prompts"
BUFFER = DEEP.replace("prompts", "buffers-and-dumps/buffer.jsonl")
PARTS = ("arithmetic-with-carry", "单元换算与应用题", "code", "a" * 70)
ROWS = 40


def text_of(number):
    texts = ("一家商店有三百二十四个苹果，卖掉了一半，又进了五十个。" * 4, "Why? " * 60)
    return f"{number} " + texts[number % 2]


def rows():
    return [
        {
            "prompt": text_of(number),
            "label": text_of(number + 1)[:60],
            "metadata": {"source": PARTS[number % 4], "difficulty": number},
        }
        for number in range(ROWS)
    ]


def group_of(number, size=8):
    return {
        "group_index": 1_234_567_000 + number,
        "rollout_id": number // 10,
        "samples": [
            {
                "index": 8 * number + i,
                "prompt": text_of(number),
                "status": ("completed", "truncated", "aborted", "paused by hand")[(i * number) % 4],
                "reward": 1234567.89 if (i + number) % 3 else None,
                "response_length": 10**6 * (i + 1),
                "weight_versions": [str(10_000 + 3 * i + number)],
                "metadata": {"source": PARTS[number % 4]},
            }
            for i in range(size)
        ],
    }


def write_lines(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8")


@pytest.fixture(autouse=True)
def awkward_data(own_folder, monkeypatch):
    """Long paths, wide text, many versions, huge counts, and a run with as long a name."""
    monkeypatch.setattr("rolloutds.cli.output.stderr_is_terminal", lambda: False)
    for name in ("0-first.jsonl", "1-second_part_of_the_prompts_with_a_long_name.jsonl"):
        write_lines(own_folder / DEEP / name, rows())
    write_lines(own_folder / "one.jsonl", rows())
    groups = [group_of(number) for number in range(40)]
    write_lines(own_folder / BUFFER, groups)
    for number in range(4):
        part = groups[number * 10 : number * 10 + 10]
        write_lines(own_folder / "dumps" / f"{number + 123_456_789}.jsonl", part)
    keyed = [
        {
            **group,
            "samples": [
                {**s, "reward": {f"reward_key_{i}": i for i in range(9)}} for s in group["samples"]
            ],
        }
        for group in groups
    ]
    write_lines(own_folder / "keyed.jsonl", keyed)
    shutil.copytree(sample_data_folder() / "run", own_folder / DEEP / "run")
    shutil.copy(sample_data_folder() / "prompts.jsonl", own_folder / "prompts.jsonl")
    (own_folder / "f.py").write_text(FILTERS, encoding="utf-8")


FILTERS = """
def a_filter_with_a_name_that_is_as_long_as_names_of_functions_get(args, rollout_id, buffer, n):
    for group in buffer[:n]:
        group[0].metadata["seen by the filter, which is a long key"] = "一家商店有三百" * 9
    return buffer[:n]

def drops(args, rollout_id, buffer, n):
    taken, buffer[:] = buffer[: n // 2], buffer[n:]
    return taken

def raises(args, rollout_id, buffer, n):
    raise ValueError("一家商店有三百二十四个苹果 " * 20)
"""
LONG = "f.py:a_filter_with_a_name_that_is_as_long_as_names_of_functions_get"
KEYS = ("--input-key=prompt", "--label-key=label", "--rollout-shuffle")
STATE = f"{DEEP}/run/rollout/global_dataset_state_dict_{{}}.pt"
SAMPLE = ("--prompt-data=prompts.jsonl",)
SCREENS = {
    "peek": ("peek", DEEP, *KEYS, "--n=90"),
    "peek-one": ("peek", "one.jsonl", *KEYS, "--n=20", "--rollout-batch-size=8"),
    "peek-late": ("peek", "one.jsonl", *KEYS, "--epoch=123456789", "--n=5"),
    "peek-full": ("peek", DEEP, *KEYS, "--n=2", "--full"),
    "peek-group": ("peek", DEEP, *KEYS, "--group=11"),
    "peek-find": ("peek", DEEP, *KEYS, "--find=Why", "--num-epoch=3"),
    "peek-from-ckpt": ("peek", *SAMPLE, f"--from-ckpt={STATE.format(7)}", "--n=12"),
    "plan": ("plan", DEEP, *KEYS, "--rollout-batch-size=7", "--num-epoch=12345678"),
    "ckpt-show": ("ckpt", "show", f"{DEEP}/run", "--next=4", *SAMPLE),
    "ckpt-list": ("ckpt", "list", f"{DEEP}/run"),
    "ckpt-diff": ("ckpt", "diff", STATE.format(3), STATE.format(19), *SAMPLE),
    "ckpt-verify": (
        "ckpt",
        "verify",
        f"{DEEP}/run",
        "--prompt-data=one.jsonl",
        "--input-key=prompt",
    ),
    "ckpt-audit": (
        *("ckpt", "audit", f"{DEEP}/run", *SAMPLE, "--rollout-shuffle"),
        "--dumps=dumps/*.jsonl",
    ),
    "ckpt-move": (
        *("ckpt", "move", STATE.format(7), "--epoch=0", "--offset=9", "--drop-buffer"),
        *("--drop-in-flight", "--output=moved.pt"),
    ),
    "buffer-show": ("buffer", "show", BUFFER),
    "buffer-show-keys": ("buffer", "show", "keyed.jsonl"),
    "buffer-group": ("buffer", "show", BUFFER, "--group=1234567001"),
    "buffer-stats": ("buffer", "stats", "dumps"),
    "buffer-stats-by": ("buffer", "stats", BUFFER, "--by=metadata.source"),
    "buffer-stats-keys": ("buffer", "stats", "keyed.jsonl", "--by=prompt"),
    "buffer-replay": ("buffer", "replay", BUFFER, "--rollout-id=1234567"),
    "buffer-replay-refill": (
        *("buffer", "replay", "dumps/123456789.jsonl", f"--refill={BUFFER}"),
        *("--rollout-id=9", "--num-samples=8", "--filter=f.py:drops", f"--filter={LONG}"),
    ),
    "buffer-replay-error": ("buffer", "replay", "dumps", "--filter=f.py:raises"),
    "buffer-filters": ("buffer", "filters"),
    "buffer-convert": ("buffer", "convert", BUFFER, "out.ndjson", "--force"),
    "validate": ("validate", f"{DEEP}/1-second_part_of_the_prompts_with_a_long_name.jsonl", *KEYS),
    "validate-groups": ("validate", BUFFER, "--n-samples-per-prompt=3"),
    "explain": ("explain",),
    "explain-code": ("explain", "RPL008"),
    "index": ("index", DEEP, "--input-key=prompt"),
    "config": ("config", f"--hf-checkpoint={DEEP}", "--input-key=prompt"),
    "env": ("env",),
    "cache": ("cache", "show"),
}
NOT_HERE = {"schema", "manifest", "ray"}
"""Commands that print JSON, or need a cluster."""


def lines_of(outcome):
    assert outcome.code in (0, 1, 3), outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.out
    return outcome.out.rstrip("\n").split("\n")


@pytest.fixture
def terminal(run, run_on_terminal, monkeypatch):
    """Runs a command as if its output was a terminal of so many columns."""

    def run_it(name, columns):
        if name == "ckpt-move":
            pytest.importorskip("torch", reason="a state is written with torch")
        Path("moved.pt").unlink(missing_ok=True)
        if SCREENS[name][0] == "validate":  # it looks at stdout itself
            settings = {"COLUMNS": str(columns), "NO_COLOR": "1"}
            return lines_of(run_on_terminal(*SCREENS[name], columns=columns, **settings))
        monkeypatch.setattr("rolloutds.cli.output._is_terminal", lambda stream: True)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("NO_COLOR", "1")
        return lines_of(run(*SCREENS[name]))

    return run_it


@pytest.mark.parametrize("name", SCREENS)
def test_no_line_is_wider_than_the_screen(terminal, name):
    for columns in (80, 100):
        lines = terminal(name, columns)
        assert [line for line in lines if width(line) > columns] == []


SHORT = {
    "trunc",
    "abort",
    "vers",
    "cached",
    "no",
    "room",
    "for",
    "wider",
    "terminal",
    "or",
    "pipe",
    "has",
    "it",
}
"""Words of a narrow screen only: short headings, what tells of a column without room, a later run."""


@pytest.mark.parametrize("name", SCREENS)
def test_no_cell_loses_its_ellipsis_or_breaks_inside_a_word(terminal, run_piped, name):
    known = set(re.findall("[A-Za-z_]+", run_piped(name))) | SHORT | {"Why"}
    for line in terminal(name, 80):
        # What is cut has its ellipsis beside it, and names longer than half a screen are broken.
        shown = re.findall("(?<![A-Za-z_…])[A-Za-z_]+(?![A-Za-z_…])", line)
        assert [word for word in shown if word not in known and not _is_long(word)] == [], line


def _is_long(word):
    return set(word) == {"a"}


@pytest.fixture
def run_piped(run, monkeypatch):
    def run_it(name, columns=40):
        Path("moved.pt").unlink(missing_ok=True)
        monkeypatch.setenv("COLUMNS", str(columns))
        return run(*SCREENS[name]).out

    return run_it


@pytest.mark.parametrize(
    "name", sorted(SCREENS.keys() - {"index"})
)  # says what a call before it did
def test_a_pipe_does_not_know_of_the_screen(run_piped, name):
    narrow = re.sub(r"\d+\.\d", "0.0", run_piped(name))
    assert narrow == re.sub(r"\d+\.\d", "0.0", run_piped(name, columns=300))
    assert "no room for" not in narrow


def test_a_pipe_has_every_group_and_reward_of_a_round(run):
    out = run("buffer", "replay", BUFFER, "--filter=f.py:drops", "--num-samples=40").out
    groups = " ".join(str(1_234_567_000 + number) for number in range(20))
    assert f"  {groups}  " in out
    assert out.count("1.23e+06") == 20
    shown = run("buffer", "show", BUFFER).out
    assert "1,234,567.9 1,234,567.9 - 1,234,567.9 1,234,567.9 - 1,234,567.9 1,234,567.9" in shown


def test_a_wide_screen_is_used(terminal):
    assert max(map(width, terminal("peek-one", 200))) > 150
    assert max(map(width, terminal("buffer-stats-by", 200))) > 100
    heading = next(line for line in terminal("buffer-replay", 200) if "returned" in line)
    assert "before" in heading


def test_every_command_is_here():
    from rolloutds.cli.root import SUBCOMMANDS

    named = {call[0] for call in SCREENS.values()} | NOT_HERE
    assert set(SUBCOMMANDS) - named == set()
