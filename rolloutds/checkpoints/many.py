"""Many small files read at once: one trial for a whole batch of them.

`torch_file.read` tries each file out in a child process of its own, which is most of the time
that a small file takes. Here a batch shares one child; when that does not end well, each file of
the batch is read by itself, so that only the one at fault is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from rolloutds import torch_file
from rolloutds.errors import TorchFileError
from rolloutds.torch_file.archive import OpenFile
from rolloutds.torch_file.budget import Budget
from rolloutds.torch_file.pickled import Pickle, collector_paused, open_pickle
from rolloutds.torch_file.trial import try_out

_BATCH_FILES = 100
_SMALL_BYTES = 1 << 17
"""Larger files are read by themselves."""


class ReadFile(NamedTuple):
    """A file that was read: its value, or why there is none."""

    path: Path
    value: Any
    error: TorchFileError | None


def read_many(paths: Sequence[Path]) -> Iterator[ReadFile]:
    """The values of files, in their order; a damaged one is an error, not an end."""
    rest = iter(paths)
    while batch := list(islice(rest, _BATCH_FILES)):
        yield from _read_batch(batch)


def _read_batch(paths: Sequence[Path]) -> list[ReadFile]:
    done: dict[Path, ReadFile] = {}
    opened: dict[Path, Pickle] = {}
    for path in filter(_is_small, paths) if _can_fork() else ():
        try:
            opened[path] = _open(path)
        except TorchFileError as error:
            done[path] = ReadFile(path, None, error)
    try:
        done |= _read_together(opened)
    except TorchFileError:
        pass  # one of them is at fault: each is tried by itself
    return [done[path] if path in done else _read_one(path) for path in paths]


def _is_small(path: Path) -> bool:
    try:
        return path.suffix == ".pt" and path.stat().st_size <= _SMALL_BYTES
    except OSError:
        return False


def _can_fork() -> bool:
    """Whether the trial forks: only a forked child knows of more than one file."""
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - names are all it takes
    except OSError:
        return False


def _read_one(path: Path) -> ReadFile:
    try:
        read = torch_file.read_pickle if path.suffix == ".pkl" else torch_file.read
        return ReadFile(path, read(path), None)
    except TorchFileError as error:
        return ReadFile(path, None, error)


def _open(path: Path) -> Pickle:
    found = open_pickle(OpenFile(path), Budget())
    found.check()
    return found


def _read_together(opened: Mapping[Path, Pickle]) -> dict[Path, ReadFile]:
    if not opened:
        return {}
    try_out(_Batch(list(opened.values())), Budget())
    with collector_paused():
        return {path: ReadFile(path, found.load(), None) for path, found in opened.items()}


class _Batch(Pickle):
    """Several pickles, tried out as one; limits count their bytes together."""

    def __init__(self, pickles: Sequence[Pickle]) -> None:
        first = pickles[0]
        self.file = first.file
        self.archive = first.archive
        num_bytes = sum(found.member.num_bytes for found in pickles)
        self.member = first.member._replace(num_bytes=num_bytes)
        self._pickles = pickles

    def load(self) -> Any:
        return [found.load() for found in self._pickles]
