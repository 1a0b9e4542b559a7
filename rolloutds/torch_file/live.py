"""Read values turned into live ones: tensors of torch, arrays and scalars of NumPy."""

from __future__ import annotations

from typing import Any

from rolloutds.torch_file.arrays import ArrayValue
from rolloutds.torch_file.exchange import Exchange
from rolloutds.torch_file.scalars import ScalarValue
from rolloutds.torch_file.tensors import TensorMaker, TensorValue


def to_live(value: Any) -> Any:
    """A read value with tensors of torch, arrays and scalars of NumPy in place of stand-ins.

    Containers that hold any are copied, the others are returned as they are; what was shared
    stays shared. Stand-ins for foreign classes stay.

    Raises:
        MissingExtraError: there are tensors, and torch is not installed.
    """
    return _ToLive().turn(value)


class _ToLive(Exchange):
    kinds = (TensorValue, ArrayValue, ScalarValue)

    def __init__(self) -> None:
        super().__init__()
        self._tensors: TensorMaker | None = None

    def _container(self, value: Any) -> Any:
        made = super()._container(value)
        if not isinstance(made, dict) or not any(isinstance(key, ScalarValue) for key in made):
            return made
        return {live_key(key): item for key, item in made.items()}

    def made(self, value: Any) -> Any:
        if isinstance(value, ArrayValue | ScalarValue):
            return value.to_numpy()
        self._tensors = self._tensors or TensorMaker()
        return self._tensors.tensor(value)


def live_key(key: Any) -> Any:
    """A key of a dict, with a scalar of NumPy in place of its stand-in."""
    return key.to_numpy() if isinstance(key, ScalarValue) else key
