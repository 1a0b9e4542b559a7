"""The files that a path, a folder or a glob names, here or behind a URL."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from rolloutds.errors import DataError, DataNotFoundError
from rolloutds.readers.base import Notice
from rolloutds.readers.jsonl import json_array
from rolloutds.storage import is_remote, local_path, masked, not_found, open_stored
from rolloutds.storage.remote import Listed, list_remote
from rolloutds.storage.urls import without_query

_MAX_NAMED: Final = 5
_NAME_SLICE: Final = re.compile(r"@\[[^\[\]/]*\]\Z")
_LOOK_BYTES: Final = 4096


class FoundFiles(NamedTuple):
    """Files in sorted order, and what is worth saying of how they were found.

    Attributes:
        paths: of the files.
        notices: what is worth saying.
        entries: what the listing of a remote folder or glob said of each; None for local files.
    """

    paths: list[str]
    notices: list[Notice]
    entries: list[Listed] | None = None


def files_at(path: str, suffixes: Collection[str]) -> FoundFiles:
    """The files `path` names.

    Args:
        path: a file, a folder (its own files, not those of its folders) or a glob; ``~`` is
            the home folder. Each may be a URL.
        suffixes: the ones that can be read, each with its dot.

    Raises:
        DataNotFoundError: there is nothing of that name, or nothing that can be read in it.
        DataError: a file named alone has another suffix.
    """
    path = local_path(path)
    if is_remote(path):
        return _behind_url(path, suffixes)
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
    if "://" in path and is_remote(path):
        path = without_query(path)
    name = path[path.rfind("/") + 1 :]
    return os.path.splitext(_NAME_SLICE.sub("", name) if "@[" in name else name)[1]


def _in_folder(folder: str, suffixes: Collection[str]) -> FoundFiles:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        what = f"the folder cannot be read: {error.strerror}"
        raise DataError(what, where=folder, hint="Check its permissions.") from error
    paths, others = _split([os.path.join(folder, name) for name in names], suffixes)
    return _of_folder(folder, paths, _names(others), len(others), suffixes)


def _of_folder(
    folder: str, paths: list[str], others: str, num_others: int, suffixes: Collection[str]
) -> FoundFiles:
    if not paths:
        raise _nothing(folder, "no data files in the folder", suffixes, others)
    text = f"{folder}: a folder, read as its {_files(len(paths))} in sorted order; slime takes one file"
    return FoundFiles(paths, [Notice("port_folder", text), *_others(folder, others, num_others)])


def _matching(pattern: str, suffixes: Collection[str]) -> FoundFiles:
    paths, others = _split(sorted(glob.glob(pattern, recursive=True)), suffixes)
    return _of_glob(pattern, paths, _names(others), len(others), suffixes)


def _of_glob(
    pattern: str, paths: list[str], others: str, num_others: int, suffixes: Collection[str]
) -> FoundFiles:
    if not paths:
        raise _nothing(pattern, "no data files match", suffixes, others)
    text = (
        f"{pattern}: a glob, read as its {_files(len(paths))} in sorted order; slime takes one file"
    )
    return FoundFiles(paths, [Notice("port_glob", text), *_others(pattern, others, num_others)])


def _behind_url(url: str, suffixes: Collection[str]) -> FoundFiles:
    shown = masked(url)
    listing = list_remote(url)
    if listing.form == "file":
        if suffix_of(url) not in suffixes:
            raise _unsupported(url, suffixes)
        return FoundFiles([url], [], listing.entries)
    data = [entry for entry in listing.entries if _is_remote_data(entry, suffixes)]
    chosen = {entry.path for entry in data}
    others = [entry for entry in listing.entries if entry.path not in chosen]
    names = _joined([_base(e.path) + ("/" if e.is_folder else "") for e in others])
    found = _of_folder if listing.form == "folder" else _of_glob
    of = found(shown, [entry.path for entry in data], names, len(others), suffixes)
    return FoundFiles(of.paths, of.notices, data)


def _is_remote_data(entry: Listed, suffixes: Collection[str]) -> bool:
    hidden = _base(entry.path).startswith(".")
    return not hidden and not entry.is_folder and suffix_of(entry.path) in suffixes


def _base(url: str) -> str:
    return os.path.basename(without_query(url))


def _split(paths: Sequence[str], suffixes: Collection[str]) -> tuple[list[str], list[str]]:
    def is_data(path: str) -> bool:
        if suffix_of(path) not in suffixes or os.path.basename(path).startswith("."):
            return False
        # A broken link with a data file's name is an error later, not something to pass over.
        return os.path.isfile(path) or (os.path.islink(path) and not os.path.exists(path))

    data = list(filter(is_data, paths))
    chosen = set(data)
    return data, [path for path in paths if path not in chosen]


def _others(where: str, others: str, count: int) -> list[Notice]:
    if not others:
        return []
    text = f"{where}: {_files(count, 'other entry', 'other entries')} left out: {others}"
    return [Notice("other_files", text)]


def _names(paths: Sequence[str]) -> str:
    shown = [os.path.basename(p) + ("/" if os.path.isdir(p) else "") for p in paths[:_MAX_NAMED]]
    return _joined([*shown, *paths[_MAX_NAMED:]])


def _joined(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def _files(count: int, one: str = "file", many: str = "files") -> str:
    return f"{count} {one if count == 1 else many}"


def _listed(suffixes: Collection[str]) -> str:
    return " or ".join(suffixes)


def _nothing(where: str, what: str, suffixes: Collection[str], others: str) -> DataNotFoundError:
    hint = "Name a file, or a folder that holds data files itself (folders in it are not read)."
    found = f"{what} (found {others})" if others else what
    return DataNotFoundError(found, where=where, expected=f"{_listed(suffixes)} files", hint=hint)


def _unsupported(path: str, suffixes: Collection[str]) -> DataError:
    with open_stored(path) as file:
        head = file.pread(_LOOK_BYTES, 0).removeprefix(b"\xef\xbb\xbf").lstrip()
        path = file.path
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
