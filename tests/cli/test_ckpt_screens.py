"""Golden screens of ``ckpt show`` and ``ckpt list``: at 80 and 200 columns, and in a pipe."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from rolloutds.reports.visible import width
from rolloutds.sample_files import sample_data_folder

FILES = Path(__file__).resolve().parent.parent / "checkpoints" / "files"
STATE = "run/rollout/global_dataset_state_dict_{}.pt"
PROMPTS = str(sample_data_folder() / "prompts.jsonl")
SCREENS = {
    "ckpt-show": ("ckpt", "show", "run", "--id=7"),
    "ckpt-show-next": ("ckpt", "show", "run", "--id=7", "--next=8", f"--prompt-data={PROMPTS}"),
    "ckpt-show-loader": ("ckpt", "show", "verl/global_step_5/data.pt"),
    "ckpt-list": ("ckpt", "list", "run"),
}


@pytest.fixture(autouse=True)
def sample_run(own_folder):
    """The sample run without one of its files, another one cut; all of one age."""
    shutil.copytree(sample_data_folder() / "run", own_folder / "run")
    shutil.copytree(FILES / "verl", own_folder / "verl")
    (own_folder / STATE.format(11)).unlink()
    newest = own_folder / STATE.format(19)
    newest.write_bytes(newest.read_bytes()[:1000])
    for path in own_folder.rglob("*.pt"):
        os.utime(path, (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize("name", SCREENS)
@pytest.mark.parametrize("columns", [80, 200])
def test_on_a_terminal(run_on_terminal, golden, name, columns):
    outcome = run_on_terminal(*SCREENS[name], columns=columns, NO_COLOR="1")
    assert outcome.code == 0, outcome.err
    golden(f"{name}-{columns}.txt", outcome.out)
    assert "\x1b" not in outcome.out
    assert max(map(width, outcome.out.split("\n"))) <= columns


@pytest.mark.parametrize("name", SCREENS)
def test_in_a_pipe(run_process, golden, name):
    outcome = run_process(*SCREENS[name], COLUMNS="40", GITHUB_ACTIONS="true", CI="true")
    assert outcome.code == 0, outcome.err
    golden(f"{name}-pipe.txt", outcome.out)
    assert "\x1b" not in outcome.out + outcome.err
