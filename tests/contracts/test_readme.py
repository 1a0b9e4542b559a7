"""The README's commands run as they are printed, in a copy of the sample data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"


def commands() -> list[str]:
    """Every `rolloutds` command in a console block, continuation lines joined."""
    blocks = re.findall(r"```console\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ rolloutds")]


@pytest.fixture(scope="module")
def sample_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like the checkout, so that nothing of it is written to."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(README.parent / "sample_data", folder / "sample_data")
    return folder


def test_the_readme_has_commands() -> None:
    assert len(commands()) > 20


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_readme_runs(command: str, sample_copy: Path) -> None:
    folder = sample_copy if "sample_data/" in command else sample_copy / "sample_data"
    called = command.replace("rolloutds", f"{sys.executable} -m rolloutds", 1)
    environment = {**os.environ, "PYTHONPATH": str(README.parent)}
    done = subprocess.run(
        ["bash", "-c", called],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert "Traceback" not in done.stderr


def test_the_screen_of_the_readme_is_real(sample_copy: Path) -> None:
    text = README.read_text("utf-8")
    command, screen = re.findall(r"```console\n\$ (rolloutds peek .*?)\n(.+?)```", text, re.DOTALL)[
        0
    ]
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=sample_copy,
        env={**os.environ, "PYTHONPATH": str(README.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == screen
