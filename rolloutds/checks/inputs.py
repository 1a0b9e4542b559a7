"""What validate is pointed at: prompt data, groups, or checkpoints, told apart by content."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rolloutds.checks.findings import Kind
from rolloutds.errors import DataError, MissingExtraError, RolloutDSError
from rolloutds.readers.lines import BOM, parse_line
from rolloutds.readers.paths import suffix_of
from rolloutds.readers.slicing import split_slice
from rolloutds.row_keys import MISSING, lookup

KINDS: Final[tuple[Kind, ...]] = ("dataset", "groups", "checkpoint")
_HEAD_BYTES: Final = 1 << 20
_HEAD_ROWS: Final = 200
_PICKLED: Final = (".pt", ".pth", ".pkl")


@dataclass(frozen=True)
class Input:
    """One thing to check.

    Attributes:
        kind: what it is.
        name: as it was named.
        path: where its bytes are, when that is another file.
    """

    kind: Kind
    name: str
    path: str | None = None


def kind_of(name: str) -> Kind:
    """What a path leads to.

    Raises:
        DataNotFoundError: nothing is there.
    """
    path, _ = split_slice(name)
    path = os.path.expanduser(path)  # noqa: PTH111 - a user's path, as it is
    if Path(path).is_dir():
        return _kind_of_folder(Path(path))
    if not os.path.lexists(path) and glob.has_magic(path):
        found = sorted(glob.glob(path, recursive=True))  # noqa: PTH207
        return kind_of_file(found[0]) if found else "dataset"
    return kind_of_file(path)


def _kind_of_folder(folder: Path) -> Kind:
    from rolloutds.checkpoints import find_files

    if find_files(folder):
        return "checkpoint"
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name[0] != ".")
    if any(file.suffix in _PICKLED for file in files):
        return "groups"
    data = [file for file in files if suffix_of(str(file)) in (".jsonl", ".parquet")]
    return kind_of_file(str(data[0])) if data else "dataset"


def kind_of_file(path: str, *, suffix: str | None = None) -> Kind:
    """What one file holds.

    Args:
        path: the file.
        suffix: to take it for a file of another suffix.
    """
    from rolloutds.storage import is_remote

    suffix = suffix or suffix_of(path)
    if is_remote(path):
        # A look at its content would fetch it; the others need --kind where they hold groups.
        return "groups" if suffix in _PICKLED else "dataset"
    if not os.path.isfile(path):  # noqa: PTH113 - a user's path, as it is
        return "dataset"  # opening it says why; to open a pipe here would wait for its writer
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a user's path, as it is
            head = file.read(_HEAD_BYTES)
    except OSError:
        return "dataset"  # opening it says why
    if suffix in _PICKLED or head.startswith(b"PK\x03\x04"):
        return _kind_of_pickle(Path(path))
    if suffix == ".parquet":
        return "groups" if _is_recognised(path) else "dataset"
    return "groups" if _looks_like_groups(path, head) else "dataset"


def _kind_of_pickle(path: Path) -> Kind:
    from rolloutds.checkpoints import open_file

    try:
        open_file(path)
    except RolloutDSError as error:
        is_readable = "no cursor of a known dialect" in error.what
        return "groups" if is_readable else "checkpoint"
    return "checkpoint"


def _looks_like_groups(path: str, head: bytes) -> bool:
    line = next((line for line in head.removeprefix(BOM).splitlines() if line.strip()), b"")
    try:
        value = parse_line(line)
    except (ValueError, RecursionError):
        return False
    if isinstance(value, list):
        return bool(value) and all(_is_sample(item) for item in value)
    return isinstance(value, dict) and _is_recognised(path)


_SAMPLE_KEYS: Final = frozenset({"response", "reward", "status", "group_index", "loss_mask"})


def _is_sample(value: Any) -> bool:
    members = value if isinstance(value, list) and value else [value]
    return all(isinstance(m, Mapping) and m.keys() & _SAMPLE_KEYS for m in members)


def _is_recognised(path: str) -> bool:
    from rolloutds.rollouts import READERS
    from rolloutds.rollouts.dump_file import open_dump
    from rolloutds.rollouts.recognise import reader_for

    try:
        reader_for(open_dump(path), READERS, None)
    except (DataError, RolloutDSError, OSError):
        return False
    return True


def first_rows(one: Input) -> list[dict[str, Any]]:
    """The rows at the start of prompt data that can be read; empty when there is none."""
    from rolloutds.checks.scan import open_parquet
    from rolloutds.readers import READERS
    from rolloutds.readers.paths import find_files
    from rolloutds.rollouts import parquet_rows
    from rolloutds.storage import is_remote, open_stored

    try:
        path = one.path or find_files(split_slice(one.name)[0], READERS).paths[0]
        if not (is_remote(path) or os.path.isfile(path)):  # noqa: PTH113 - a user's path, as it is
            return []
        if suffix_of(path) == ".parquet":
            rows_there = parquet_rows.rows(path, open_parquet(path))
            return [row for row, _ in zip(rows_there, range(64), strict=False)]
        with open_stored(path) as file:
            head = file.pread(min(_HEAD_BYTES, file.size), 0)
    except (OSError, DataError, MissingExtraError):
        return []
    rows = []
    for line in head.removeprefix(BOM).splitlines()[:_HEAD_ROWS]:
        try:
            value = parse_line(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            rows.append(value)
    return rows


def usable_label(rows: Sequence[Mapping[str, Any]], key: str | None) -> str | None:
    """A label key that was guessed, or None: one that only some rows have is no label."""
    if key is None or any(lookup(row, key) is MISSING for row in rows):
        return None
    return key
