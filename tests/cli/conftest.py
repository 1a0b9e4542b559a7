"""Ways to run the command: in this process, as a real process, and on a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from rolloutds.cli.root import app

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "cli"
REPOSITORY = GOLDEN.parent.parent.parent
COMMAND = [sys.executable, "-m", "rolloutds"]


class Outcome(NamedTuple):
    """What a run left: its exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """The lines of JSON Lines output."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test of the command runs in a folder of its own, with a checkout that imports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    return tmp_path


@pytest.fixture
def run() -> Run:
    """Runs the command in this process."""

    def run_here(*args: str) -> Outcome:
        result = CliRunner().invoke(app, list(args), prog_name="rolloutds")
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run_here


@pytest.fixture
def run_process() -> Run:
    """Runs the command as a process, its output read through pipes."""

    def run_it(*args: str, **environment: str) -> Outcome:
        done = subprocess.run(
            [*COMMAND, *args],
            capture_output=True,
            check=False,
            env=os.environ | environment,
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run_it


@pytest.fixture
def run_on_terminal() -> Run:
    """Runs the command with a terminal of `columns` as its stdout."""

    def run_it(*args: str, columns: int, **environment: str) -> Outcome:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        process = subprocess.Popen(
            [*COMMAND, *args],
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            env=os.environ | {"TERM": "xterm-256color"} | environment,
        )
        os.close(theirs)
        out = _read_all(ours)
        err = process.communicate()[1].decode()
        return Outcome(process.returncode, out.decode().replace("\r\n", "\n"), err)

    return run_it


def _read_all(descriptor: int) -> bytes:
    pieces = []
    with os.fdopen(descriptor, "rb", buffering=0) as terminal:
        try:
            while piece := terminal.read(65536):
                pieces.append(piece)
        except OSError:
            pass  # Linux says so when the other side has closed
    return b"".join(pieces)


@pytest.fixture
def prompts(own_folder: Path) -> Path:
    """Ten made-up rows, a blank line among them; their name is short, to fit the screens."""
    rows = [
        {
            "prompt": [
                {"role": "system", "content": "You are a careful tutor."},
                {"role": "user", "content": f"Question {i}: what is {i} + {i * 7}? " + "Why? " * i},
            ],
            "label": str(i + i * 7),
            "metadata": {"source": "sums" if i % 2 else "even sums", "difficulty": i},
        }
        for i in range(10)
    ]
    lines = [json.dumps(row) for row in rows]
    lines.insert(3, "   ")
    path = own_folder / "prompts.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.utime(path, (1_700_000_000, 1_700_000_000))  # a file just written is not cached
    return path


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares a text with the golden file of that name; UPDATE_GOLDEN=1 writes it instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare
