"""Example files of every format, and ways to compare and write values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolloutds.torch_file import ArrayValue, ScalarValue, TensorValue

FILES = Path(__file__).resolve().parent / "files"


@pytest.fixture(scope="session")
def files() -> Path:
    """The folder of example files, a folder a format."""
    return FILES


@pytest.fixture
def write_lines(tmp_path: Path) -> Callable[..., str]:
    """Writes values as JSON Lines and gives the path."""

    def write(*values: Any, name: str = "made.jsonl") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def write_torch(tmp_path: Path) -> Callable[..., str]:
    """Writes a value with torch.save and gives the path."""
    torch = pytest.importorskip("torch")

    def write(value: Any, name: str = "made.pt") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(value, path)
        return str(path)

    return write


@pytest.fixture(scope="session")
def comparable() -> Callable[[Any], Any]:
    """Turns a value into one that is equal exactly when types and contents are."""
    return _comparable


def _comparable(value: Any) -> Any:
    if isinstance(value, ScalarValue):
        return ["scalar", value.dtype.name, value.dtype.is_big_endian, value.data]
    if isinstance(value, dict):
        return ["dict", [(_comparable(key), _comparable(item)) for key, item in value.items()]]
    if isinstance(value, list | tuple):
        return [type(value).__name__, [_comparable(item) for item in value]]
    if isinstance(value, TensorValue):
        numbers = value.to_torch().detach()
        flags = (value.requires_grad, value.is_parameter)
        return ["tensor", value.dtype, value.shape, flags, repr(numbers.tolist())]
    if isinstance(value, ArrayValue):
        array = value.to_numpy()
        items = _comparable(array.ravel().tolist()) if array.dtype.hasobject else array.tobytes()
        return ["array", str(array.dtype), array.shape, items]
    return [type(value).__name__, repr(value), getattr(value, "fold", None)]
