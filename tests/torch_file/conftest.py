"""Archives made by hand, so that they can hold what `torch.save` would never write."""

from __future__ import annotations

import itertools
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rolloutds.torch_file import Budget, trial


@pytest.fixture
def make_archive(tmp_path: Path):
    """A function: pickle bytes (and tensor storages by key) to the path of an archive."""
    numbers = itertools.count()

    def make(
        pickled: bytes,
        storages: dict[str, bytes] | None = None,
        *,
        byte_order: str | None = "little",
        compression: int = zipfile.ZIP_STORED,
    ) -> Path:
        path = tmp_path / f"made_{next(numbers)}.pt"
        with zipfile.ZipFile(path, "w", compression) as archive:
            archive.writestr("archive/data.pkl", pickled)
            if byte_order is not None:
                archive.writestr("archive/byteorder", byte_order)
            for key, data in (storages or {}).items():
                archive.writestr(f"archive/data/{key}", data)
            archive.writestr("archive/version", "3\n")
        return path

    return make


@pytest.fixture
def small_budget() -> Budget:
    """Refuses what an attack needs much sooner than a test's patience ends."""
    return Budget(max_seconds=1.0, max_items=1_000_000)


@pytest.fixture
def text():
    """A function: a str to the opcode that pushes it."""

    def push(value: str) -> bytes:
        raw = value.encode()
        return b"X" + struct.pack("<I", len(raw)) + raw

    return push


@pytest.fixture(params=["fork", "spawn"])
def each_child(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test with both ways of starting the trial."""
    monkeypatch.setattr(
        "rolloutds.torch_file.trial.has_one_thread", lambda: request.param == "fork"
    )
    return str(request.param)


@pytest.fixture
def without_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the child process out, for tests of hundreds of honest files."""
    monkeypatch.setattr("rolloutds.torch_file.trial.Trial.__init__", lambda *_: None)
    monkeypatch.setattr("rolloutds.torch_file.trial.Trial.end", lambda _: None)
    monkeypatch.setattr("rolloutds.torch_file.trial.Trial.outcome", lambda _: None)


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that trials have started, by number."""
    started: list[int] = []
    start = trial._start

    def noted(*arguments: Any) -> Any:
        process = start(*arguments)
        started.append(process.pid)
        return process

    monkeypatch.setattr(trial, "_start", noted)
    return started
