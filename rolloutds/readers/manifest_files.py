"""A manifest and the files it lists, compared with what is there by one listing."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Collection
from contextlib import suppress
from typing import NamedTuple

from rolloutds.errors import DataError, DataNotFoundError
from rolloutds.manifest import (
    Difference,
    Manifest,
    compare,
    differs,
    read_manifest,
    root_of,
)
from rolloutds.readers.base import Notice
from rolloutds.readers.digest import digest_of_file
from rolloutds.readers.named_files import FoundFiles, files_at, suffix_of
from rolloutds.storage import FileIdentity, is_remote, local_path, masked


class OpenedManifest(NamedTuple):
    """A manifest, and where its files are.

    Attributes:
        path: of the manifest.
        manifest: what it says.
        paths: of its shards, in its order.
        difference: how the files that are there differ from it.
    """

    path: str
    manifest: Manifest
    paths: list[str]
    difference: Difference

    @property
    def notices(self) -> list[Notice]:
        """That another data source would not read it."""
        count = len(self.paths)
        files = "file" if count == 1 else "files"
        text = f"a manifest, read as its {count} {files} in its order; slime takes one file"
        return [Notice("port_folder", f"{masked(self.path)}: {text}")]


def open_manifest(path: str, suffixes: Collection[str]) -> OpenedManifest:
    """Reads a manifest and lists its folder.

    Raises:
        DataNotFoundError: there is no manifest of that name.
        DataError: it is damaged, or files are missing, of another size, or more than it lists.
    """
    opened = compared(path, suffixes)
    if not opened.difference.is_empty:
        shards = opened.manifest.shards
        written = [shards[number].path for number in opened.difference.touched]
        raise differs(path, opened.difference, written)
    return opened


def refuse_other_bytes(opened: OpenedManifest) -> None:
    """Reads the shards that were written or copied since: their bytes may be the same.

    Raises:
        DataError: they are others, or cannot be read.
    """
    shards = opened.manifest.shards
    replaced = [
        shards[number].path
        for number in opened.difference.touched
        if digest_of_file(opened.paths[number]) != shards[number].digest
    ]
    if replaced:
        raise differs(opened.path, Difference([], replaced, [], []))


def compared(path: str, suffixes: Collection[str]) -> OpenedManifest:
    """As `open_manifest`, whatever the difference is."""
    path = local_path(path)
    manifest = read_manifest(path)
    root = root_of(manifest, path)
    listed = identities(root, manifest.data, manifest.form, suffixes)
    prefix = joined(root, "")
    paths = [prefix + shard.path for shard in manifest.shards]
    return OpenedManifest(path, manifest, paths, compare(manifest.shards, listed))


def joined(root: str, name: str) -> str:
    """The path of a file below a root."""
    return f"{root.rstrip('/')}/{name}" if is_remote(root) else os.path.join(root, name)


def identities(
    root: str, data: str, form: str, suffixes: Collection[str]
) -> dict[str, FileIdentity]:
    """The identity of each file that is there, by its path below the root.

    Args:
        root: the folder; empty for the current one.
        data: a file or a glob in it; empty for its own files.
        form: ``file``, ``folder`` or ``glob``.
        suffixes: of the files that count.
    """
    if form == "folder" and not is_remote(root):
        return _in_folder(root or ".", suffixes)
    try:
        found = files_at(_named(root, data, form), suffixes)
    except DataNotFoundError:
        return {}
    return identities_of(root, found)


def _in_folder(folder: str, suffixes: Collection[str]) -> dict[str, FileIdentity]:
    """As `files_at` finds them, with one call a file: there may be very many."""
    listed = {}
    endings = (*suffixes, "]")  # most names that are no data's need no second look
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if not name.endswith(endings) or name[0] == "." or suffix_of(name) not in suffixes:
                    continue
                with suppress(OSError):  # a broken link is missing
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode):
                        listed[name] = FileIdentity(status.st_size, status.st_mtime_ns)
    except FileNotFoundError:
        return {}
    except OSError as error:
        what = f"the folder cannot be read: {error.strerror}"
        raise DataError(what, where=folder, hint="Check its permissions.") from error
    return listed


def _named(root: str, data: str, form: str) -> str:
    if form == "folder":
        return root
    if form == "glob" and not is_remote(root):
        return os.path.join(glob.escape(root), data)
    return joined(root, data)


def identities_of(root: str, found: FoundFiles) -> dict[str, FileIdentity]:
    """The identity of each file found, by its path below the root; a broken link has none."""
    listed = {}
    if found.entries is not None:
        prefix = f"{root.rstrip('/')}/"
        return {entry.path.removeprefix(prefix): entry.identity for entry in found.entries}
    prefix = os.path.join(root or ".", "")
    for path in found.paths:
        name = path.removeprefix(prefix)
        try:
            status = os.stat(path)
        except OSError:
            continue
        listed[name] = FileIdentity(status.st_size, status.st_mtime_ns)
    return listed
