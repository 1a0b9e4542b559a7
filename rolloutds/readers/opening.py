"""Prompt data by its name: its rows, or its first row alone."""

from __future__ import annotations

import os
from typing import Any

from rolloutds.cache import Cache
from rolloutds.manifest import is_manifest
from rolloutds.readers.base import BadRows, Inspect, Reader, RowKeys
from rolloutds.readers.formats import READERS
from rolloutds.readers.manifest_files import open_manifest
from rolloutds.readers.manifest_rows import shard_readers
from rolloutds.readers.paths import find_files, suffix_of
from rolloutds.readers.rows import Rows
from rolloutds.readers.slicing import split_slice


def open_rows(
    prompt_data: str,
    keys: RowKeys,
    *,
    inspect: Inspect | None = None,
    bad_rows: BadRows = "error",
    cache: Cache,
) -> Rows:
    """Opens prompt data: everything that stops a load is found here.

    Args:
        prompt_data: a file, a folder, a glob or a manifest, each with ``@[start:end]`` or
            without, each on the local file system or a URL.
        keys: the keys a run reads.
        inspect: sees the rows whose prompt, metadata, tools or media are not plain.
        bad_rows: ``error``, or ``skip`` to leave out lines that are not JSON.
        cache: keeps what was found, for the next time.

    Raises:
        DataNotFoundError: there is no such data.
        SliceError: the slice is malformed or selects nothing.
        BadRowsError: rows that cannot be used; the first few places and the count.
        EmptyDatasetError: there are no rows.
        DataError: a file cannot be read, or is of another kind.
    """
    path, row_slice = split_slice(prompt_data)

    def open_reader(file: str) -> Reader:
        return READERS[suffix_of(file)](file, keys, inspect, cache)

    readers: list[Reader] = []
    try:
        if is_manifest(path):
            opened = open_manifest(os.path.expanduser(path), READERS)
            readers, shards = shard_readers(opened, keys, inspect, open_reader)
            return Rows(readers, row_slice, bad_rows, opened.notices, shards)
        found = find_files(path, READERS)
        for file in found.paths:
            readers.append(open_reader(file))
        return Rows(readers, row_slice, bad_rows, found.notices)
    except BaseException:
        for reader in readers:
            reader.close()
        raise


def first_row(prompt_data: str) -> dict[str, Any] | None:
    """The first row of the data, without an index; None when there is none.

    Args:
        prompt_data: as for `open_rows`; a slice is passed over.

    Raises:
        DataNotFoundError: there is no such data.
        SliceError: the slice is malformed.
        DataError: a file cannot be read, or is of another kind.
    """
    path, _ = split_slice(prompt_data)
    rows = (READERS[suffix_of(file)].first_row(file) for file in find_files(path, READERS).paths)
    return next((row for row in rows if row is not None), None)
