"""Golden screens: what people see at 80 and 200 columns, in a pipe and without colour."""

from __future__ import annotations

import pytest

PEEK = (
    "peek",
    "prompts.jsonl",
    "--input-key=prompt",
    "--label-key=label",
    "--rollout-shuffle",
    "--rollout-batch-size=4",
)
SCREENS = {
    "peek": (*PEEK, "--n=12"),
    "peek-batches": (*PEEK, "--batches=3"),
    "peek-full": (*PEEK, "--n=2", "--full"),
    "peek-group": (*PEEK, "--group=11"),
    "peek-find": (*PEEK, "--find=Question 7", "--num-epoch=3"),
    "plan": (
        "plan",
        "prompts.jsonl",
        "--input-key=prompt",
        "--rollout-batch-size=4",
        "--num-epoch=3",
    ),
    "help": ("--help",),
    "peek-help": ("peek", "--help"),
}


@pytest.mark.usefixtures("prompts")
@pytest.mark.parametrize("name", SCREENS)
@pytest.mark.parametrize("columns", [80, 200])
def test_on_a_terminal(run_on_terminal, golden, name, columns):
    outcome = run_on_terminal(*SCREENS[name], columns=columns, NO_COLOR="1")
    assert outcome.code == 0
    golden(f"{name}-{columns}.txt", outcome.out)
    assert "\x1b" not in outcome.out


@pytest.mark.usefixtures("prompts")
@pytest.mark.parametrize("name", [name for name in SCREENS if "help" not in name])
def test_tables_fit_the_terminal(run_on_terminal, name):
    outcome = run_on_terminal(*SCREENS[name], columns=80, NO_COLOR="1")
    lines = [line for line in outcome.out.split("\n") if not line.startswith("  | ")]
    assert max(map(len, lines)) <= 80


@pytest.mark.usefixtures("prompts")
@pytest.mark.parametrize("name", SCREENS)
def test_in_a_pipe(run_process, golden, name):
    outcome = run_process(*SCREENS[name], COLUMNS="40", GITHUB_ACTIONS="1", FORCE_COLOR="1")
    assert outcome.code == 0
    assert "\x1b" not in outcome.out + outcome.err
    if "help" not in name:  # help is fitted to COLUMNS, results in a pipe never are
        golden(f"{name}-pipe.txt", outcome.out)


@pytest.mark.usefixtures("prompts")
@pytest.mark.parametrize("format_name", ["json", "jsonl", "markdown"])
def test_other_formats(run_process, golden, format_name):
    outcome = run_process(*PEEK, "--n=3", f"--format={format_name}")
    golden(f"peek.{format_name}.txt", outcome.out)


@pytest.mark.usefixtures("prompts")
def test_colour_on_a_terminal_only_styles(run_on_terminal, golden):
    outcome = run_on_terminal(*SCREENS["peek"], columns=80)
    plain = run_on_terminal(*SCREENS["peek"], columns=80, NO_COLOR="1")
    assert "\x1b[1m" in outcome.out
    for style in ("\x1b[0m", "\x1b[1m", "\x1b[2m"):
        outcome = outcome._replace(out=outcome.out.replace(style, ""))
    assert outcome.out == plain.out


@pytest.mark.usefixtures("prompts")
def test_a_dumb_terminal_gets_no_colour(run_on_terminal):
    assert "\x1b" not in run_on_terminal(*SCREENS["peek"], columns=80, TERM="dumb").out
