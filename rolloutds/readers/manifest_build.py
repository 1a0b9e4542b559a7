"""Manifests built from the indexes of files, and checked against the files that are there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rolloutds.cache import Cache
from rolloutds.engines import Engine
from rolloutds.engines.base import Done
from rolloutds.errors import ConfigError, DataError
from rolloutds.manifest import (
    SUFFIX,
    Difference,
    ManifestHead,
    Shard,
    is_manifest,
    is_root,
    refuse_unwritable,
    root_for,
    token_of,
    write_manifest,
)
from rolloutds.readers.base import BadRows, Inspect, RowKeys
from rolloutds.readers.build import IndexedFile, index_file, keep
from rolloutds.readers.digest import digest_of_file
from rolloutds.readers.formats import READERS
from rolloutds.readers.manifest_files import OpenedManifest, compared, identities_of
from rolloutds.readers.manifest_rows import keys_as_plain
from rolloutds.readers.named_files import FoundFiles, files_at
from rolloutds.readers.opening import open_rows
from rolloutds.readers.row_index import inspected_by
from rolloutds.readers.slicing import split_slice
from rolloutds.storage import FileIdentity, changed, is_remote, masked

Progress = Callable[[int], AbstractContextManager[Any]]


@dataclass(frozen=True)
class RowSettings:
    """How the rows of a manifest are looked at.

    Attributes:
        keys: the keys a run reads.
        inspect: sees the rows that are not plain.
        bad_rows: ``skip`` leaves out lines that are not JSON, and counts them.
        shown: what a run with other settings is told the manifest was built with, by name.
    """

    keys: RowKeys
    inspect: Inspect
    bad_rows: BadRows
    shown: Mapping[str, Any]


class BuiltManifest(NamedTuple):
    """A manifest that was written.

    Attributes:
        path: where.
        head: what it says of all shards together.
        shards: the files.
        digest: of its text.
        num_cached: shards whose index was in the cache.
    """

    path: str
    head: ManifestHead
    shards: list[Shard]
    digest: str
    num_cached: int


def build_manifest(
    prompt_data: str,
    target: str,
    settings: RowSettings,
    *,
    cache: Cache,
    engine: Engine,
    progress: Progress = nullcontext,
) -> BuiltManifest:
    """Indexes every file of some prompt data and writes what they hold.

    Args:
        prompt_data: a file, a folder or a glob, here or behind a URL; without a slice.
        target: where to write; a name that ends in ``.manifest.json``.
        settings: how its rows are looked at.
        cache: keeps the indexes.
        engine: what indexes files at the same time.
        progress: takes how many files there are; what its block gives is told each that is done.

    Raises:
        ConfigError: the target is no place for a manifest.
        BadRowsError: rows that stop a load, as a load says it.
        DataError: a file cannot be read, or the manifest cannot be written.
    """
    path = _whole_data(prompt_data, target)
    found = files_at(path, READERS)
    named = _named(path, found)
    looked = _Look(settings.bad_rows)
    listed = identities_of(named.root, found)
    _refuse_names([root_for(named.root or ".", target), named.data, *listed], path)
    with progress(len(found.paths)) as on_done:
        all_indexed = _indexed(found, settings, cache, engine, _told(on_done))
        for (name, identity), indexed in zip(listed.items(), all_indexed, strict=True):
            keep(indexed, cache)
            looked.add(name, identity, indexed)
    if looked.is_bad or not looked.num_rows:
        _raise_as_a_load(path, settings, cache)
    head = _head(named, target, settings, looked)
    digest = write_manifest(target, head, looked.shards)
    return BuiltManifest(target, head, looked.shards, digest, looked.num_cached)


class _Look:
    """What the indexes of the files so far say."""

    def __init__(self, bad_rows: BadRows) -> None:
        self._bad_rows = bad_rows
        self.shards: list[Shard] = []
        self.columns: dict[str, None] = {}
        self.num_rows = 0
        self.num_cached = 0
        self.is_bad = False

    def add(self, name: str, identity: FileIdentity, indexed: IndexedFile) -> None:
        """Takes down one more file."""
        self.shards.append(_shard(name, identity, indexed))
        self.columns.update(dict.fromkeys(indexed.columns))
        self.num_rows += indexed.summary.num_rows
        self.num_cached += indexed.was_cached
        self.is_bad = self.is_bad or _stops_a_load(indexed, self._bad_rows)


def _head(named: _Named, target: str, settings: RowSettings, looked: _Look) -> ManifestHead:
    return ManifestHead(
        root=root_for(named.root or ".", target),
        data=named.data,
        form=named.form,
        settings={name: value for name, value in settings.shown.items() if value is not None},
        keys=keys_as_plain(settings.keys),
        inspected_by=inspected_by(settings.inspect) or "",
        columns=list(looked.columns),
        num_shards=len(looked.shards),
        num_rows=looked.num_rows,
        num_bytes=sum(shard.num_bytes for shard in looked.shards),
    )


class _Work(NamedTuple):
    """What every task of a build needs: it travels once a process.

    Attributes:
        keys: the keys a run reads.
        inspect: sees the rows that are not plain.
        cache_folder: where a task keeps the index.
        hands_over: whether the index comes back, from a machine with a folder of its own.
    """

    keys: RowKeys
    inspect: Inspect
    cache_folder: Path | None
    hands_over: bool


def _indexed(
    found: FoundFiles, settings: RowSettings, cache: Cache, engine: Engine, on_done: Done | None
) -> Iterator[IndexedFile]:
    hands_over = cache.folder is not None and not engine.is_local
    work = _Work(settings.keys, settings.inspect, cache.folder, hands_over)
    names = map(masked, found.paths)
    return engine.map(_index, found.paths, common=work, names=names, on_done=on_done)


def _index(work: _Work, path: str) -> IndexedFile:
    """Indexes one file, in whatever process."""
    indexed = index_file(path, work.keys, work.inspect, work.cache_folder)
    return indexed if work.hands_over else indexed._replace(content=b"")


def _told(on_done: Any) -> Done | None:
    return on_done if callable(on_done) else None


def _whole_data(prompt_data: str, target: str) -> str:
    """The data without a slice, once the target may be written."""
    if not is_manifest(target) or is_remote(target):
        what = f"{target!r} is no name for a manifest"
        expected = f"a local file that ends in {SUFFIX}"
        raise ConfigError(masked(what), expected=expected, hint="name it with -o")
    refuse_unwritable(target)
    path, row_slice = split_slice(prompt_data)
    if row_slice is not None:
        what = f"the data has a slice {row_slice}, and a manifest is of whole files"
        hint = f"build it without, and slice the manifest: {target}{row_slice}"
        raise ConfigError(what, where=masked(path), hint=hint)
    if is_manifest(path):
        raise ConfigError("a manifest", where=path, expected="the data it is built from")
    if masked(path) != path:
        hint = "leave user, password and query out, and set credentials in the environment"
        raise ConfigError("a URL with credentials in it", where=masked(path), hint=hint)
    return path if is_remote(path) else os.path.expanduser(path)


def _refuse_names(names: Iterable[str], path: str) -> None:
    """Refuses what a manifest cannot hold, before anything is read."""
    for name in names:
        if not (is_root(name) or not name) or not _is_utf8(name):
            raise DataError(
                f"{name!r} is no name that a manifest can hold",
                where=masked(path),
                expected="UTF-8 without backslash, '::' and '://'",
                hint="Rename it, or name the data without a manifest.",
            )


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Named(NamedTuple):
    """A folder, and what was named in it."""

    root: str
    data: str
    form: Literal["file", "folder", "glob"]


def _named(path: str, found: FoundFiles) -> _Named:
    if found.paths == [path]:
        cut = path.rfind("/") + 1
        return _Named(path[:cut], path[cut:], "file")
    at = min((i for c in "*[?" if (i := path.find(c)) >= 0), default=len(path))
    if at == len(path) or (not is_remote(path) and os.path.isdir(path)):
        return _Named(path, "", "folder")
    cut = path.rfind("/", 0, at) + 1
    return _Named(path[:cut], path[cut:], "glob")


def _stops_a_load(indexed: IndexedFile, bad_rows: BadRows) -> bool:
    stopping = [bad for bad in indexed.malformed if bad_rows == "error" or not bad[2]]
    return bool(indexed.num_faulty or stopping)


def _raise_as_a_load(path: str, settings: RowSettings, cache: Cache) -> None:
    """Loads the data, which raises what stops a load, with its first places."""
    rows = open_rows(
        path, settings.keys, inspect=settings.inspect, bad_rows=settings.bad_rows, cache=cache
    )
    rows.close()
    raise changed(masked(path), "its manifest was built")


def _shard(name: str, identity: FileIdentity, indexed: IndexedFile) -> Shard:
    summary = indexed.summary
    if summary.num_bytes != identity.size:
        raise changed(summary.path, "its manifest was built")
    return Shard(
        path=name,
        num_bytes=summary.num_bytes,
        token=token_of(identity),
        digest=summary.digest,
        num_rows=summary.num_rows,
        num_lines=summary.num_lines,
        num_blank=summary.num_blank,
        num_skipped=summary.num_skipped,
        skipped=tuple((line, before) for line, before, _ in indexed.malformed),
        findings=tuple(
            (found.code, found.what or "", found.num_rows, found.first_row_id)
            for found in indexed.findings
        ),
        notices=tuple((code, text.removeprefix(summary.path)) for code, text in indexed.notices),
    )


# --- check ------------------------------------------------------------------------------------


class CheckedManifest(NamedTuple):
    """A manifest beside the files that are there.

    Attributes:
        opened: the manifest, and its files.
        difference: how they differ; touched shards were read, and those with other bytes are
            among the changed ones.
        num_read: shards whose bytes were read and compared.
    """

    opened: OpenedManifest
    difference: Difference
    num_read: int


def check_manifest(
    path: str,
    *,
    is_full: bool = False,
    engine: Engine,
    progress: Progress = nullcontext,
) -> CheckedManifest:
    """Compares a manifest with its files: by a listing, and by their bytes where that is not enough.

    Args:
        path: of the manifest.
        is_full: read every file, whatever the listing says.
        engine: what reads files at the same time.
        progress: as for `build_manifest`.

    Raises:
        DataError: the manifest is damaged, or a file cannot be read.
    """
    opened = compared(path, READERS)
    manifest, difference = opened.manifest, opened.difference
    gone = {*difference.missing, *difference.changed}
    numbers = difference.touched
    if is_full:
        numbers = [n for n, shard in enumerate(manifest.shards) if shard.path not in gone]
    paths = [opened.paths[number] for number in numbers]
    with progress(len(paths)) as on_done:
        digests = engine.map(_digest, paths, names=map(masked, paths), on_done=_told(on_done))
        other = [
            manifest.shards[number].path
            for number, digest in zip(numbers, digests, strict=True)
            if digest != manifest.shards[number].digest
        ]
    changed_shards = sorted([*difference.changed, *other])
    return CheckedManifest(opened, difference._replace(changed=changed_shards), len(numbers))


def _digest(common: None, path: str) -> str:
    """The digest of one file's bytes, in whatever process."""
    del common
    return digest_of_file(path)
