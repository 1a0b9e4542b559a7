"""Which files a run's prompt data names: a file, a folder, or a glob."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from rolloutds.errors import DataError, DataNotFoundError
from rolloutds.readers.base import Notice
from rolloutds.readers.file_identity import not_found, open_regular
from rolloutds.readers.jsonl import json_array

_MAX_NAMED: Final = 5
_NAME_SLICE: Final = re.compile(r"@\[[^\[\]/]*\]\Z")
_LOOK_BYTES: Final = 4096


class FoundFiles(NamedTuple):
    """Files in sorted order, and what is worth saying of how they were found."""

    paths: list[str]
    notices: list[Notice]


def find_files(path: str, suffixes: Collection[str]) -> FoundFiles:
    """The files `path` names.

    Args:
        path: a file, a folder (its own files, not those of its folders) or a glob; ``~`` is
            the home folder.
        suffixes: the ones that can be read, each with its dot.

    Raises:
        DataNotFoundError: there is nothing of that name, or nothing that can be read in it.
        DataError: a file named alone has another suffix.
    """
    path = os.path.expanduser(path)
    if os.path.isdir(path):
        return _in_folder(path, suffixes)
    if not os.path.lexists(path) and glob.has_magic(path):
        return _matching(path, suffixes)
    if not os.path.exists(path):
        raise not_found(path)
    if suffix_of(path) not in suffixes:
        raise _unsupported(path, suffixes)
    return FoundFiles([path], [])


def suffix_of(path: str) -> str:
    """The suffix of a file's name, before anything in it that looks like a slice."""
    return os.path.splitext(_NAME_SLICE.sub("", os.path.basename(path)))[1]


def _in_folder(folder: str, suffixes: Collection[str]) -> FoundFiles:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        what = f"the folder cannot be read: {error.strerror}"
        raise DataError(what, where=folder, hint="Check its permissions.") from error
    paths, others = _split([os.path.join(folder, name) for name in names], suffixes)
    if not paths:
        raise _nothing(folder, "no data files in the folder", suffixes, others)
    text = f"{folder}: a folder, read as its {_files(len(paths))} in sorted order; slime takes one file"
    return FoundFiles(paths, [Notice("port_folder", text), *_others(folder, others)])


def _matching(pattern: str, suffixes: Collection[str]) -> FoundFiles:
    paths, others = _split(sorted(glob.glob(pattern, recursive=True)), suffixes)
    if not paths:
        raise _nothing(pattern, "no data files match", suffixes, others)
    text = (
        f"{pattern}: a glob, read as its {_files(len(paths))} in sorted order; slime takes one file"
    )
    return FoundFiles(paths, [Notice("port_glob", text), *_others(pattern, others)])


def _split(paths: Sequence[str], suffixes: Collection[str]) -> tuple[list[str], list[str]]:
    def is_data(path: str) -> bool:
        hidden = os.path.basename(path).startswith(".")
        # A broken link with a data file's name is an error later, not something to pass over.
        usable = os.path.isfile(path) or (os.path.islink(path) and not os.path.exists(path))
        return not hidden and usable and suffix_of(path) in suffixes

    return [p for p in paths if is_data(p)], [p for p in paths if not is_data(p)]


def _others(where: str, others: Sequence[str]) -> list[Notice]:
    if not others:
        return []
    text = (
        f"{where}: {_files(len(others), 'other entry', 'other entries')} left out: {_names(others)}"
    )
    return [Notice("other_files", text)]


def _names(paths: Sequence[str]) -> str:
    names = [os.path.basename(p) + ("/" if os.path.isdir(p) else "") for p in paths[:_MAX_NAMED]]
    more = f" and {len(paths) - _MAX_NAMED} more" if len(paths) > _MAX_NAMED else ""
    return ", ".join(names) + more


def _files(count: int, one: str = "file", many: str = "files") -> str:
    return f"{count} {one if count == 1 else many}"


def _listed(suffixes: Collection[str]) -> str:
    return " or ".join(suffixes)


def _nothing(
    where: str, what: str, suffixes: Collection[str], others: Sequence[str]
) -> DataNotFoundError:
    hint = "Name a file, or a folder that holds data files itself (folders in it are not read)."
    found = f"{what} (found {_names(others)})" if others else what
    return DataNotFoundError(found, where=where, expected=f"{_listed(suffixes)} files", hint=hint)


def _unsupported(path: str, suffixes: Collection[str]) -> DataError:
    descriptor = open_regular(path)
    try:
        head = os.pread(descriptor, _LOOK_BYTES, 0).removeprefix(b"\xef\xbb\xbf").lstrip()
    finally:
        os.close(descriptor)
    suffix = suffix_of(path)
    if head.startswith(b"["):
        error = json_array(path)
        if suffix:
            error.what = f"the file is a JSON array, and the suffix {suffix} is not supported"
        return error
    what = f"unsupported suffix {suffix!r}" if suffix else "the file has no suffix"
    if suffix in (".gz", ".zst", ".bz2", ".xz", ".zip"):
        hint = "Decompress it first: rows are read by their position in the file."
    elif head.startswith(b"{"):
        hint = "If it holds one JSON object a line, name it .jsonl; for one object over several lines: jq -c . FILE > FILE.jsonl"
    else:
        hint = "Turn it into JSON Lines (one JSON object a line) or Parquet."
    return DataError(what, where=path, expected=_listed(suffixes), hint=hint)
