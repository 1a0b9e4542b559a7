"""The cached indexes of prompt data, made ahead of the run that needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from rolloutds.cache import Cache
from rolloutds.config import DataSourceConfig
from rolloutds.dataset import prompt_settings, row_keys
from rolloutds.engines import Engine
from rolloutds.engines.base import Done
from rolloutds.errors import ConfigError
from rolloutds.prompts import RowInspector
from rolloutds.readers import READERS
from rolloutds.readers.base import BadRows, FileSummary, Inspect, Notice, RowKeys
from rolloutds.readers.build import IndexedFile, index_file, keep
from rolloutds.readers.paths import find_files
from rolloutds.readers.slicing import split_slice
from rolloutds.storage import masked

State = Literal["cached", "built", "not kept"]
"""Whether an index was there, was made, or was made and could not be kept."""

Progress = Callable[[int], AbstractContextManager[Done | None]]


@dataclass(frozen=True)
class FileIndex:
    """What the index of one file says.

    Attributes:
        summary: rows, lines, blank and skipped lines, bytes, digest.
        num_bad: lines and rows that stop a load.
        problems: the first of them, ``file:line: what``.
        state: whether it was in the cache.
    """

    summary: FileSummary
    num_bad: int
    problems: list[str]
    state: State


@dataclass(frozen=True)
class Indexes:
    """The indexes of some prompt data.

    Attributes:
        prompt_data: as it was named.
        files: in the order of the data.
        notices: what is worth saying of how the files were found.
    """

    prompt_data: str
    files: list[FileIndex] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    @property
    def num_bad(self) -> int:
        """Lines and rows that stop a load."""
        return sum(file.num_bad for file in self.files)

    def count(self, state: State) -> int:
        """Files whose index is in that state."""
        return sum(file.state == state for file in self.files)


class _Work(NamedTuple):
    """What every task is told.

    Attributes:
        keys: the keys a run reads.
        inspect: sees the rows that are not plain.
        folder: of the cache.
        hands_over: whether the index itself has to come back, from a machine with a folder of
            its own.
    """

    keys: RowKeys
    inspect: Inspect
    folder: Path | None
    hands_over: bool


def index_data(
    config: DataSourceConfig, cache: Cache, engine: Engine, *, progress: Progress | None = None
) -> Indexes:
    """Finds or builds the index of every file, and keeps it in the cache.

    Args:
        config: the data and the keys; a slice is passed over.
        cache: where they are kept.
        engine: what indexes files at the same time.
        progress: takes how many files there are; what its block gives is told each that is done.

    Raises:
        ConfigError: no prompt data is named.
        DataError: a file is not there, or cannot be read.
        EngineError: the processes that worked on one file died each time.
    """
    if config.prompt_data is None:
        raise ConfigError("no prompt data is named", hint="name the files as DATA")
    paths, notices = _files(config.prompt_data)
    settings = prompt_settings(config)
    work = _Work(row_keys(settings), RowInspector(settings), cache.folder, not engine.is_local)
    indexes = Indexes(masked(config.prompt_data), notices=notices)
    with nullcontext() if progress is None else progress(len(paths)) as on_done:
        names = map(masked, paths)
        found = engine.map(_index, paths, common=work, names=names, on_done=on_done)
        for indexed, is_kept in found:
            is_kept = keep(indexed, cache) if work.hands_over else is_kept
            indexes.files.append(_described(indexed, config.bad_rows, is_kept=is_kept))
    return indexes


def _files(prompt_data: str) -> tuple[Sequence[str], list[Notice]]:
    path, _ = split_slice(prompt_data)
    found = find_files(path, READERS, compares_bytes=True)
    return found.paths, list(found.notices)


def _index(work: _Work, path: str) -> tuple[IndexedFile, bool]:
    """Indexes one file, in whatever process; whether the cache of this machine has it now."""
    indexed = index_file(path, work.keys, work.inspect, work.folder)
    if work.hands_over:
        return indexed, False
    is_kept = indexed.was_cached or keep(indexed, Cache(work.folder))
    return indexed._replace(content=b""), is_kept


def _described(indexed: IndexedFile, bad_rows: BadRows, *, is_kept: bool) -> FileIndex:
    malformed = [is_no_json for *_, is_no_json in indexed.malformed]
    num_skipped = malformed.count(True) if bad_rows == "skip" else 0
    state: State = "not kept"
    if is_kept:
        state = "cached" if indexed.was_cached else "built"
    num_bad = indexed.num_faulty + len(malformed) - num_skipped
    summary = indexed.summary._replace(num_skipped=num_skipped)
    return FileIndex(summary, num_bad, indexed.problems if num_bad else [], state)
