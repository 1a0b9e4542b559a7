"""Golden screens of the ``buffer`` commands: at 80 and 200 columns, in a pipe, for programs."""

from __future__ import annotations

import re
import shutil

import pytest

from rolloutds.reports.visible import width
from rolloutds.sample_files import sample_data_folder

SCREENS = {
    "show": ("buffer", "show", "buffer.jsonl"),
    "show-where": (
        *("buffer", "show", "buffer.jsonl", "--sort=-reward_std", "--limit=5"),
        "--where=num_aborted > 0 and num_rewards",
    ),
    "show-group": ("buffer", "show", "buffer.jsonl", "--group=34"),
    "stats": ("buffer", "stats", "buffer.jsonl"),
    "stats-by": ("buffer", "stats", "buffer.jsonl", "--by=metadata.source"),
    "stats-trend": ("buffer", "stats", "dumps"),
    "replay": ("buffer", "replay", "buffer.jsonl", "--num-samples=16"),
    "replay-two": (
        *("buffer", "replay", "buffer.jsonl", "--num-samples=16"),
        *("--filter=filters_bad.py:best_first", "--filter=filters_good.py:mixed_first"),
    ),
    "replay-error": (
        *("buffer", "replay", "buffer.jsonl", "--num-samples=16"),
        "--filter=filters_bad.py:all_at_once",
    ),
    "filters": ("buffer", "filters"),
}
_CODES = {"replay-error": 1}


@pytest.fixture(autouse=True)
def sample_buffer(own_folder):
    """The sample buffer and filters, and four dumps of it, under short names."""
    for name in ("buffer.jsonl", "filters_good.py", "filters_bad.py"):
        shutil.copy(sample_data_folder() / name, own_folder / name)
    (own_folder / "dumps").mkdir()
    lines = (own_folder / "buffer.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for number in range(4):
        text = "".join(lines[number * 10 : number * 10 + 10])
        (own_folder / "dumps" / f"{number}.jsonl").write_text(text, encoding="utf-8")


_MILLISECONDS = re.compile(r"^( +\d+ [ \d,]*?)(\d+\.\d)(?=  |$)", re.MULTILINE)


def steady(start):
    """A run whose times take three columns each, with 0.0 in their place: no two are the same."""
    for _ in range(9):
        outcome = start()
        if "round  " not in outcome.out:
            return outcome
        times = [found[2] for found in _MILLISECONDS.finditer(outcome.out)]
        if all(len(time) == 3 for time in times):
            return outcome._replace(out=_MILLISECONDS.sub(r"\g<1>0.0", outcome.out))
    pytest.skip("the machine is too busy for calls below 10 ms")


@pytest.mark.parametrize("name", SCREENS)
@pytest.mark.parametrize("columns", [80, 200])
def test_on_a_terminal(run_on_terminal, golden, name, columns):
    outcome = steady(lambda: run_on_terminal(*SCREENS[name], columns=columns, NO_COLOR="1"))
    assert outcome.code == _CODES.get(name, 0), outcome.err
    golden(f"../buffer/{name}-{columns}.txt", outcome.out)
    assert "\x1b" not in outcome.out
    assert max(map(width, outcome.out.split("\n"))) <= columns


@pytest.mark.parametrize("name", SCREENS)
def test_in_a_pipe(run_process, golden, name):
    outcome = steady(
        lambda: run_process(*SCREENS[name], COLUMNS="40", GITHUB_ACTIONS="true", FORCE_COLOR="1")
    )
    assert outcome.code == _CODES.get(name, 0), outcome.err
    golden(f"../buffer/{name}-pipe.txt", outcome.out)
    assert "\x1b" not in outcome.out + outcome.err


@pytest.mark.parametrize("format_name", ["json", "jsonl", "markdown"])
def test_for_programs(run_process, golden, format_name):
    for name in ("show-where", "stats", "filters"):
        outcome = run_process(*SCREENS[name], f"--format={format_name}")
        golden(f"../buffer/{name}.{format_name}.txt", outcome.out)
