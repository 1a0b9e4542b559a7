"""Nothing heavy is loaded by the commands that are used most."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
HEAVY = {"pyarrow", "tokenizers", "torch", "transformers"}
NOT_FOR_HELP = HEAVY | {"numpy", "xxhash", "msgspec"}


def loaded_packages(arguments: list[str], cwd: Path) -> set[str]:
    """Top-level packages that `rolloutds` loads, from the interpreter's own trace of imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "rolloutds", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    traced = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip().partition(".")[0] for line in traced}


def test_the_trace_is_read(tmp_path: Path) -> None:
    assert {"rolloutds", "typer"} <= loaded_packages(["--help"], tmp_path)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=" ".join)
def test_help_loads_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    assert loaded_packages(arguments, tmp_path) & NOT_FOR_HELP == set()


@pytest.mark.parametrize("format_name", ["text", "jsonl"])
@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
def test_peek_on_json_lines_loads_nothing_heavy(
    tmp_path: Path, format_name: str, is_warm: bool
) -> None:
    data = tmp_path / "prompts.jsonl"
    data.write_text('{"input": "a"}\n{"input": "b"}\n', encoding="utf-8")
    arguments = ["peek", str(data), "--n", "2", "--format", format_name]
    if is_warm:
        loaded_packages(arguments, tmp_path)
    assert loaded_packages(arguments, tmp_path) & HEAVY == set()
