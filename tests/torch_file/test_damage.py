"""Cut and bit-flipped files: a value or one kind of error, and quickly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rolloutds.errors import TorchFileError
from rolloutds.torch_file import read, write

DAMAGE = Path(__file__).with_name("damage_file.py")


@pytest.fixture
def real_file(tmp_path: Path) -> Path:
    torch = pytest.importorskip("torch")
    path = tmp_path / "state.pt"
    sample = {"prompt": "à la carte", "tokens": [1, 2, 70_000], "reward": 0.5, "label": None}
    tensors = {"a": torch.arange(10), "b": torch.zeros(3, dtype=torch.bfloat16)}
    write(path, {"samples": [sample] * 3, "epoch_id": 1, **tensors})
    return path


def _outcomes(repository: Path, path: Path, how: str, count: int) -> dict[str, int]:
    """What comes of reading `count` damaged copies, counted in a process without torch."""
    ran = subprocess.run(
        [sys.executable, str(DAMAGE), str(path), how, str(count)],
        capture_output=True, text=True, check=True, cwd=path.parent, timeout=3600,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )  # fmt: skip
    found: dict[str, int] = json.loads(ran.stdout)
    return found


def test_a_file_cut_anywhere_is_refused(repository: Path, real_file: Path):
    assert _outcomes(repository, real_file, "cut", 100) == {"refused": 100}


@pytest.mark.parametrize("how", ["flip", "flip-pickle"])
def test_flipped_bits_are_refused_or_harmless(repository: Path, real_file: Path, how: str):
    found = _outcomes(repository, real_file, how, 120)

    assert set(found) == {"refused", "read"}
    assert sum(found.values()) == 120


@pytest.mark.proof
@pytest.mark.parametrize("how", ["flip", "flip-pickle"])
def test_flipped_bits_by_the_thousand(repository: Path, real_file: Path, how: str):
    found = _outcomes(repository, real_file, how, 50_000)

    assert sum(found.values()) == 50_000


def test_a_file_that_shrinks_under_a_tensor_is_named(make_archive, tmp_path: Path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "large.pt"
    write(path, {"a": torch.zeros(1 << 19)})
    value = read(path)["a"]
    with path.open("r+b") as file:
        file.truncate(1000)

    with pytest.raises(TorchFileError, match="became shorter"):
        value.tolist()


def test_a_tensor_outlives_the_replacement_of_its_file(tmp_path: Path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "large.pt"
    write(path, {"a": torch.full((1 << 19,), 3.0)})
    value = read(path)["a"]
    write(path, {"a": 1})

    assert value.tolist() == [3.0] * (1 << 19)
    assert read(path) == {"a": 1}


@pytest.mark.parametrize("count", [10, 1 << 19])
def test_flipped_bits_of_a_tensor_are_noticed(tmp_path: Path, count: int):
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    write(path, {"a": torch.full((count,), 3.0)})
    data = bytearray(path.read_bytes())
    data[data.index(b"\x00\x00\x40\x40" * 4) + 8] ^= 1
    path.write_bytes(data)

    with pytest.raises(TorchFileError, match="do not match their checksum"):
        read(path)["a"].tolist()
