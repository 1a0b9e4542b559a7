"""Read values turned into live ones: tensors of torch, arrays of NumPy."""

from __future__ import annotations

from typing import Any

from rolloutds.torch_file.arrays import ArrayValue
from rolloutds.torch_file.foreign import PlainDict
from rolloutds.torch_file.tensors import TensorMaker, TensorValue


def to_live(value: Any) -> Any:
    """A read value with tensors of torch and arrays of NumPy in place of their stand-ins.

    Containers that hold any are copied, the others are returned as they are; what was shared
    stays shared. Stand-ins for foreign classes stay.

    Raises:
        MissingExtraError: there are tensors, and torch is not installed.
    """
    return _Livener().turn(value)


class _Livener:
    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._tensors: TensorMaker | None = None

    def turn(self, value: Any) -> Any:
        if not isinstance(value, dict | list | tuple | TensorValue | ArrayValue):
            return value
        key = id(value)
        if key not in self._made:
            self._made[key] = value  # ends a circle
            self._made[key] = self._turn(value)
        return self._made[key]

    def _turn(self, value: Any) -> Any:
        if isinstance(value, TensorValue):
            self._tensors = self._tensors or TensorMaker()
            return self._tensors.tensor(value)
        if isinstance(value, ArrayValue):
            return value.to_numpy()
        if isinstance(value, dict):
            pairs = {key: self.turn(item) for key, item in value.items()}
            same = all(pairs[key] is item for key, item in value.items())
            return value if same and type(value) is not PlainDict else pairs
        items = [self.turn(item) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return tuple(items) if isinstance(value, tuple) else items
