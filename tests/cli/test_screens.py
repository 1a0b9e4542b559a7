"""Golden screens: what people see at 80 and 200 columns, in a pipe and without colour."""

from __future__ import annotations

import json
import re

import pytest

from rolloutds.reports.visible import width

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
    "peek-wide": ("peek", "wide.jsonl", "--label-key=label", "--n=6"),
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


@pytest.fixture(autouse=True)
def wide_prompts(own_folder):
    """Prompts of characters two columns wide, of none, and of some that must not act."""
    prompts = [
        "一家商店有三百二十四个苹果，卖掉了一半，又进了五十个。现在有多少个苹果？",
        "🎉 How many 👩\u200d👩\u200d👧 families and ❤️ hearts? " + "🎉" * 40,
        "Combien coûte l'été à Orléans ? ".replace("é", "e\u0301") * 3,
        "한국어 문제입니다. 사과가 몇 개 있습니까? " * 3,
        "[bold red]not markup[/] \x1b[31mnot red\x1b[0m ::error::no command",
    ]
    rows = [{"input": prompt, "label": prompt[:24]} for prompt in prompts]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (own_folder / "wide.jsonl").write_text(text, encoding="utf-8")


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
    assert max(map(width, outcome.out.split("\n"))) <= 80


@pytest.mark.usefixtures("prompts")
@pytest.mark.parametrize("name", SCREENS)
def test_in_a_pipe(run_process, golden, name):
    outcome = run_process(*SCREENS[name], COLUMNS="40", GITHUB_ACTIONS="true", CI="true")
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
def test_colour_on_a_terminal_only_styles(run_on_terminal):
    styled = run_on_terminal(*SCREENS["peek"], columns=80).out
    plain = run_on_terminal(*SCREENS["peek"], columns=80, NO_COLOR="1").out
    assert "\x1b[1m" in styled
    for style in ("\x1b[0m", "\x1b[1m", "\x1b[2m"):
        styled = styled.replace(style, "")
    assert re.sub(" +\n", "\n", styled) == plain


@pytest.mark.usefixtures("prompts")
def test_a_dumb_terminal_gets_no_colour(run_on_terminal):
    assert "\x1b" not in run_on_terminal(*SCREENS["peek"], columns=80, TERM="dumb").out


@pytest.mark.usefixtures("prompts")
def test_a_width_that_is_named_wins_over_that_of_the_terminal(run_on_terminal):
    named = run_on_terminal(*SCREENS["peek"], columns=80, COLUMNS="200", NO_COLOR="1")
    assert named.out == run_on_terminal(*SCREENS["peek"], columns=200, NO_COLOR="1").out


@pytest.mark.usefixtures("prompts")
def test_a_pipe_stays_plain_also_where_colour_is_forced(run_process):
    forced = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    for format_name in ("text", "json"):
        call = (*SCREENS["peek"], f"--format={format_name}")
        assert run_process(*call, COLUMNS="80", **forced).out == run_process(*call).out
