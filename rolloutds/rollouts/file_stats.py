"""Figures over many files, read on any engine: a task a file, merged in the order of the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import xxhash

from rolloutds.engines import Engine
from rolloutds.engines.base import Done
from rolloutds.errors import RolloutDSError
from rolloutds.rollouts.base import ReadGroup
from rolloutds.rollouts.opening import Groups
from rolloutds.rollouts.recognise import Readers
from rolloutds.rollouts.stats import Stats, stats_of
from rolloutds.row_findings import Notice
from rolloutds.torch_file.ahead import trials_ahead

_PARTS_OF_A_FILE = 5_000
"""Values of ``--by`` that are kept apart in one file; over all files fewer stay."""


@dataclass(frozen=True)
class FileSettings:
    """How files are read.

    Attributes:
        readers: every reader by name.
        format_name: the format of all files; None to recognise each.
        n_samples_per_prompt: size of a group, for files that do not say where one ends.
        reward_key: picks the number from rewards that are objects.
        by: field of a group's first sample that splits it.
        compares_prompts: whether a sample's number has to have one prompt in all files.
    """

    readers: Readers
    format_name: str | None = None
    n_samples_per_prompt: int | None = None
    reward_key: str | None = None
    by: str | None = None
    compares_prompts: bool = False

    def open(self, paths: Sequence[str]) -> Groups:
        """The groups of files."""
        return Groups(
            paths,
            self.readers,
            format_name=self.format_name,
            n_samples_per_prompt=self.n_samples_per_prompt,
        )


class AllStats(NamedTuple):
    """The figures of all files, and what is worth saying of them."""

    stats: Stats
    notices: list[Notice]


def stats_of_files(
    paths: Sequence[str], settings: FileSettings, engine: Engine, *, on_done: Done | None = None
) -> AllStats:
    """The figures of files; each is read by one task, a group at a time.

    Args:
        paths: the files.
        settings: how they are read; prompts are compared where there are several.
        engine: what reads them.
        on_done: is told each file that is done.

    Raises:
        DataError: a file cannot be read.
        TorchFileError: a ``.pt`` file is damaged.
        GroupError: a group is malformed, or two files contradict each other.
        EngineError: the processes that read one file died each time.
    """
    settings = replace(settings, compares_prompts=len(paths) > 1)
    whole, notices = Stats([], {}), _Notices()
    prompts = _Prompts(settings)
    with trials_ahead(paths) if engine.is_in_process else nullcontext():
        found = engine.map(_read_file, paths, common=settings, names=paths, on_done=on_done)
        for path, one in zip(paths, found, strict=True):
            prompts.check(path, one.prompts)
            if one.error is not None:
                raise one.error
            whole.merge(one.stats)
            notices.add(one)
    whole.sort()
    return AllStats(whole, notices.all())


@dataclass
class _FileStats:
    """What a task found in a file, up to the error that ended it.

    Attributes:
        stats: the figures.
        prompts: for each sample's number, hashes of its different prompts.
        notices: what is said of the file, but for statuses and keys.
        unknown_statuses: samples with each.
        unknown_keys: samples with each.
        error: why it was not read to its end.
    """

    stats: Stats = field(default_factory=lambda: Stats([], {}))
    prompts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    unknown_statuses: Counter[str] = field(default_factory=Counter)
    unknown_keys: Counter[str] = field(default_factory=Counter)
    error: Exception | None = None


def _read_file(settings: FileSettings, path: str) -> _FileStats:
    groups = settings.open([path])
    found = _FileStats()
    try:
        found.stats = stats_of(
            _noting_prompts(groups, settings, found.prompts),
            reward_key=settings.reward_key,
            by=settings.by,
            max_parts=_PARTS_OF_A_FILE,
        )
    except (RolloutDSError, OSError) as error:
        found.error = error  # what was read before it may contradict an earlier file
    summed = {"unknown_statuses", "unknown_keys"}
    found.notices = [notice for notice in groups.notices if notice.code not in summed]
    found.unknown_statuses, found.unknown_keys = groups.unknown_statuses, groups.unknown_keys
    return found


def _noting_prompts(
    groups: Groups, settings: FileSettings, prompts: dict[int, tuple[int, ...]]
) -> Iterator[ReadGroup]:
    for group in groups:
        reader = settings.readers[groups.files[-1].format_name]
        if settings.compares_prompts and reader.has_indices and not group.is_eval:
            _note_prompts(group, prompts)
        yield group
        del group  # or it would live on while the next one is read


def _note_prompts(group: ReadGroup, prompts: dict[int, tuple[int, ...]]) -> None:
    for sample in group.samples:
        if isinstance(sample.index, int):
            prompt = sample.prompt if isinstance(sample.prompt, str) else repr(sample.prompt)
            found = xxhash.xxh3_64_intdigest(prompt.encode("utf-8", "surrogatepass"))
            known = prompts.get(sample.index, ())
            if found not in known:
                prompts[sample.index] = (*known, found)


class _Prompts:
    """The prompt of each sample's number, over all files: one number cannot have two."""

    def __init__(self, settings: FileSettings) -> None:
        self._settings = settings
        self._seen: dict[int, tuple[int, str]] = {}

    def check(self, path: str, prompts: dict[int, tuple[int, ...]]) -> None:
        """Compares what a file says with what earlier ones said.

        Raises:
            GroupError: a sample has the number of one with another prompt.
        """
        for index, hashes in prompts.items():
            known, file = self._seen.setdefault(index, (hashes[0], path))
            if file != path and any(found != known for found in hashes):
                for _ in self._settings.open([file, path]):
                    pass  # the two, read together, say which group it is


class _Notices:
    """What is worth saying of files, with what several say of statuses and keys put together."""

    def __init__(self) -> None:
        self._notices: list[Notice] = []
        self._sums = Groups([], {})

    def add(self, found: _FileStats) -> None:
        """Takes over what is said of a file."""
        self._notices += found.notices
        self._sums.unknown_statuses.update(found.unknown_statuses)
        self._sums.unknown_keys.update(found.unknown_keys)

    def all(self) -> list[Notice]:
        """The sentences."""
        return [*self._notices, *self._sums.notices]
