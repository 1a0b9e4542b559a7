"""Reading a large `.pt` file with its lists of numbers packed: see `packed_lists`."""

from __future__ import annotations

import os
from typing import Any

from rolloutds.torch_file.arrays import ArrayValue
from rolloutds.torch_file.budget import Budget
from rolloutds.torch_file.exchange import Exchange
from rolloutds.torch_file.foreign import ForeignObject
from rolloutds.torch_file.packed_lists import PackedList
from rolloutds.torch_file.reader import read_one


def read_packed(path: str | os.PathLike[str], *, budget: Budget = Budget()) -> Any:  # noqa: B008 - frozen
    """As `read`, but lists of numbers may come back as `PackedList`; `unpacked` turns them.

    A dump takes about its own size in memory this way, where `read` takes several times that.

    Raises:
        TorchFileError: as for `read`.
    """
    return read_one(path, budget, is_packed=True)


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
