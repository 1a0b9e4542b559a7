"""Which files a run's prompt data names: a file, a folder, a glob, or a manifest."""

from __future__ import annotations

import os
from collections.abc import Collection

from rolloutds.manifest import is_manifest
from rolloutds.readers.manifest_files import open_manifest, refuse_other_bytes
from rolloutds.readers.named_files import FoundFiles, files_at, suffix_of

__all__ = ["FoundFiles", "find_files", "suffix_of"]


def find_files(path: str, suffixes: Collection[str], *, compares_bytes: bool = False) -> FoundFiles:
    """The files `path` names.

    Args:
        path: a file, a folder (its own files, not those of its folders), a glob, or a manifest
            (``.manifest.json``); ``~`` is the home folder. Each may be a URL.
        suffixes: the ones that can be read, each with its dot.
        compares_bytes: read the files of a manifest that were written since it was built; else
            only what its listing says is compared.

    Raises:
        DataNotFoundError: there is nothing of that name, or nothing that can be read in it.
        DataError: a file named alone has another suffix, or a manifest's files are not as it
            says.
    """
    if not is_manifest(path):
        return files_at(path, suffixes)
    opened = open_manifest(os.path.expanduser(path), suffixes)
    if compares_bytes:
        refuse_other_bytes(opened)
    return FoundFiles(opened.paths, opened.notices)
