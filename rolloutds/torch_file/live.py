"""Read values turned into live ones: tensors of torch, arrays of NumPy."""

from __future__ import annotations

from typing import Any

from rolloutds.torch_file.arrays import ArrayValue
from rolloutds.torch_file.exchange import Exchange
from rolloutds.torch_file.tensors import TensorMaker, TensorValue


def to_live(value: Any) -> Any:
    """A read value with tensors of torch and arrays of NumPy in place of their stand-ins.

    Containers that hold any are copied, the others are returned as they are; what was shared
    stays shared. Stand-ins for foreign classes stay.

    Raises:
        MissingExtraError: there are tensors, and torch is not installed.
    """
    return _ToLive().turn(value)


class _ToLive(Exchange):
    kinds = (TensorValue, ArrayValue)

    def __init__(self) -> None:
        super().__init__()
        self._tensors: TensorMaker | None = None

    def made(self, value: Any) -> Any:
        if isinstance(value, ArrayValue):
            return value.to_numpy()
        self._tensors = self._tensors or TensorMaker()
        return self._tensors.tensor(value)
