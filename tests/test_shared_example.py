"""The example of a shared source: one worker is killed, and every prompt is completed."""

from __future__ import annotations

import importlib.util
import re
import uuid
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ("tests.ray_cluster",)


def test_it_completes_every_prompt_though_a_worker_is_killed(
    ray_cluster: Any, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = repository / "examples" / "shared_source.py"
    spec = importlib.util.spec_from_file_location("shared_source", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    name = f"example-{uuid.uuid4().hex[:8]}"
    example.main(["--run-folder", str(tmp_path), "--name", name, "--num-epoch", "1"])
    total, *workers = re.findall(r"^(?:\d+ of|\S+: ).*$", capsys.readouterr().out, re.MULTILINE)
    assert total == "212 of 212 groups completed"
    dead = [line for line in workers if "died" in line]
    assert len(workers) == 2
    assert len(dead) == 1
    assert re.search(r" \d+ requeued; the process \S+ died", dead[0])
