"""Many cursor files read at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from rolloutds import torch_file
from rolloutds.errors import TorchFileError


class ReadFile(NamedTuple):
    """A file that was read: its value, or why there is none."""

    path: Path
    value: Any
    error: TorchFileError | None


def read_many(paths: Sequence[Path]) -> Iterator[ReadFile]:
    """The values of files, in their order; a damaged one is an error, not an end."""
    for is_pickle, group in groupby(paths, key=lambda path: path.suffix == ".pkl"):
        alike = list(group)
        values = torch_file.read_many(alike, may_be_plain=is_pickle)
        for path, value in zip(alike, values, strict=True):
            is_error = isinstance(value, TorchFileError)
            yield ReadFile(path, None, value) if is_error else ReadFile(path, value, None)
