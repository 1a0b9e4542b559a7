"""Values that were read with their lists of numbers packed, unpacked: see `packed_lists`."""

from __future__ import annotations

from typing import Any

from rolloutds.torch_file.arrays import ArrayValue
from rolloutds.torch_file.exchange import Exchange
from rolloutds.torch_file.foreign import ForeignObject
from rolloutds.torch_file.packed_lists import PackedList


def unpacked(value: Any) -> Any:
    """The value with lists in place of packed ones.

    Containers that hold any are copied; arrays of objects and stand-ins for foreign objects
    are changed themselves.
    """
    return _Unpacking().turn(value)


class _Unpacking(Exchange):
    kinds = (PackedList, ArrayValue, ForeignObject)

    def made(self, value: Any) -> Any:
        if isinstance(value, PackedList):
            return value.tolist()
        if isinstance(value, ForeignObject):
            for name in ("args", "kwargs", "state", "items", "pairs"):
                setattr(value, name, self.turn(getattr(value, name)))
        elif isinstance(value.data, list):
            value.data = self.turn(value.data)
        return value
