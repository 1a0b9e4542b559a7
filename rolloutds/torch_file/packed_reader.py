"""Reading a large `.pt` file with its lists of numbers packed: see `packed_lists`."""

from __future__ import annotations

import io
import os
from typing import IO, Any, cast

from rolloutds.torch_file.archive import Archive, OpenFile
from rolloutds.torch_file.budget import Budget
from rolloutds.torch_file.packed_lists import PackedList, PackingStream, builder
from rolloutds.torch_file.pickled import (
    _CHUNK,
    _DAMAGED,
    _HELD_BYTES,
    Pickle,
    _Section,
    collector_paused,
    open_pickle,
)
from rolloutds.torch_file.trial import try_out
from rolloutds.torch_file.unpickler import SafeUnpickler


def read_packed(path: str | os.PathLike[str], *, budget: Budget = Budget()) -> Any:  # noqa: B008 - frozen
    """As `read`, but lists of numbers may come back as `PackedList`; `unpacked` turns them.

    A dump takes about its own size in memory this way, where `read` takes several times that.

    Raises:
        TorchFileError: as for `read`.
    """
    found = open_pickle(OpenFile(path), budget)
    packed = _PackedPickle(found.file, found.archive)
    packed.check()
    try_out(packed, budget)
    with collector_paused():
        return packed.load()


def unpacked(value: Any) -> Any:
    """The value with lists in place of packed ones; containers that hold any are copied."""
    return _turn(value, {})


class _PackedPickle(Pickle):
    def load(self) -> Any:
        stream = io.BufferedReader(_Section(self.file, self.member), _CHUNK)
        packing = io.BufferedReader(PackingStream(stream), _CHUNK)
        unpickler = _PackingUnpickler(cast("io.BytesIO", packing), self.archive)
        try:
            value = unpickler.load()
        except RecursionError as error:
            raise self.file.refusal("is nested too deeply", hint=_DAMAGED) from error
        except MemoryError:
            raise
        except Exception as error:
            raise self._damaged(error) from error
        if sum(storage.num_bytes for storage in unpickler.storages) <= _HELD_BYTES:
            for storage in unpickler.storages:
                storage.hold()
        return value


class _PackingUnpickler(SafeUnpickler):
    def __init__(self, stream: IO[bytes], archive: Archive | None) -> None:
        super().__init__(stream, archive)

    def find_class(self, module: str, name: str) -> Any:
        return builder(module, name) or super().find_class(module, name)


def _turn(value: Any, made: dict[int, Any]) -> Any:
    if isinstance(value, PackedList):
        if id(value) not in made:
            made[id(value)] = value.tolist()
        return made[id(value)]
    if type(value) not in (dict, list, tuple):
        return value
    if id(value) not in made:
        made[id(value)] = value  # ends a circle
        made[id(value)] = _turned_container(value, made)
    return made[id(value)]


def _turned_container(value: Any, made: dict[int, Any]) -> Any:
    if isinstance(value, dict):
        pairs = {key: _turn(item, made) for key, item in value.items()}
        return value if all(pairs[key] is item for key, item in value.items()) else pairs
    items = [_turn(item, made) for item in value]
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value
    return tuple(items) if isinstance(value, tuple) else items
