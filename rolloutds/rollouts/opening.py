"""Files of groups, opened together: one after the other, a group at a time."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rolloutds.errors import DataNotFoundError, GroupError, RolloutDSError
from rolloutds.rollouts.base import ReadGroup
from rolloutds.rollouts.dump_file import open_dump
from rolloutds.rollouts.recognise import Readers, reader_for
from rolloutds.row_findings import Notice
from rolloutds.sample import SAMPLE_FIELDS, Sample
from rolloutds.storage import is_remote, local_path, masked
from rolloutds.storage.local_copy import local_copy
from rolloutds.storage.remote import list_remote

_FIELDS = frozenset(SAMPLE_FIELDS)
_NOT_DUMPS = (".md", ".txt", ".log", ".yaml", ".yml", ".toml", ".py")


@dataclass
class FileRead:
    """One file that was read.

    Attributes:
        path: as it was named.
        format_name: its format.
        rollout_id: the rollout of its first group; None when nothing says it.
        is_eval: whether its first group is of an evaluation.
        num_groups: how many groups were read so far.
        num_samples: how many samples.
    """

    path: str
    format_name: str
    rollout_id: int | None = None
    is_eval: bool = False
    num_groups: int = 0
    num_samples: int = 0


class Groups:
    """The groups of some files, read anew each time they are iterated over.

    A group is let go of once the next one is asked for: hold on to what you need of it, and no
    more.

    Args:
        paths: the files.
        readers: every reader by name.
        format_name: the format of all of them; None to recognise each.
        n_samples_per_prompt: size of a group, for files that do not say where one ends.

    Attributes:
        paths: the files, in the order they are read.
        files: what was read so far; complete at the end of an iteration.
        unknown_statuses: statuses that are none of the known ones, with how many samples have it.
        unknown_keys: attributes that are no field of a sample, with how many samples have it.
    """

    def __init__(
        self,
        paths: Sequence[str],
        readers: Readers,
        *,
        format_name: str | None = None,
        n_samples_per_prompt: int | None = None,
    ) -> None:
        self.paths = list(paths)
        self._readers = readers
        self._format_name = format_name
        self._size = n_samples_per_prompt
        self._start()

    def _start(self) -> None:
        self.files: list[FileRead] = []
        self.unknown_statuses: Counter[str] = Counter()
        self.unknown_keys: Counter[str] = Counter()
        self._notices: list[Notice] = []

    def __iter__(self) -> Iterator[ReadGroup]:
        """The groups, file by file.

        Raises:
            DataError: a file cannot be read.
            TorchFileError: a `.pt` file is damaged.
            GroupError: a group is malformed, or two files contradict each other.
        """
        self._start()
        prompts = _Prompts() if len(self.paths) > 1 else None
        for path in self.paths:
            with local_copy(path) as copy, _named(path, copy) as name:
                file = open_dump(copy)
                reader = reader_for(file, self._readers, self._format_name)
                read = FileRead(name, reader.name)
                self.files.append(read)
                for group in reader.read(file, n_samples_per_prompt=self._size):
                    if name != copy:
                        group.place = group.place._replace(file=name)
                    self._note(group, read)
                    if prompts is not None and reader.has_indices and not group.is_eval:
                        prompts.check(group)
                    yield group
                    del group  # or it would live on while the next one is made
                self._notices += [Notice(c, t.replace(copy, name)) for c, t in file.notices]

    def _note(self, group: ReadGroup, read: FileRead) -> None:
        if not read.num_groups:
            read.rollout_id, read.is_eval = group.rollout_id, group.is_eval
        samples = group.samples
        read.num_groups += 1
        read.num_samples += len(samples)
        for sample in samples:
            self.unknown_keys.update(sample.__dict__.keys() - _FIELDS)
            if not isinstance(sample.status, Sample.Status):
                self.unknown_statuses[f"{sample.status!s:.40}"] += 1

    @property
    def notices(self) -> list[Notice]:
        """What is worth saying of what was read so far."""
        found = list(self._notices)
        if self.unknown_statuses:
            text = (
                f"statuses that are not known, kept as they are: {_counted(self.unknown_statuses)}"
            )
            found.append(Notice("unknown_statuses", text))
        if self.unknown_keys:
            text = f"keys that are no field of a sample, kept: {_counted(self.unknown_keys)}"
            found.append(Notice("unknown_keys", text))
        return found


@contextmanager
def _named(path: str, copy: str) -> Iterator[str]:
    """The name of a file in all that is said of it; errors name its copy until here."""
    name = masked(path)
    try:
        yield name
    except RolloutDSError as error:
        if name != copy:
            for field in ("what", "where", "hint"):
                text = getattr(error, field)
                setattr(error, field, text and text.replace(copy, name))
        raise


def _counted(counter: Counter[str]) -> str:
    shown = ", ".join(f"{name} ({count:,} samples)" for name, count in counter.most_common(8))
    return f"{shown}, …" if len(counter) > 8 else shown


class _Prompts:
    """The prompt of each sample's number, over all files: one number cannot have two."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, str]] = {}

    def check(self, group: ReadGroup) -> None:
        """Compares a group with what other files said.

        Raises:
            GroupError: a sample has the number of one with another prompt.
        """
        for sample in group.samples:
            if not isinstance(sample.index, int):
                continue
            prompt = hash(sample.prompt if isinstance(sample.prompt, str) else repr(sample.prompt))
            known, file = self._seen.setdefault(sample.index, (prompt, group.place.file))
            if known != prompt and file != group.place.file:
                raise GroupError(
                    f"its sample with index {sample.index} has another prompt than the sample of "
                    f"that index in {file}",
                    where=str(group.place),
                    expected="dumps of one run, where an index belongs to one prompt",
                    hint="read dumps of different runs one by one",
                )


def find_dumps(names: Sequence[str]) -> list[str]:
    """The files that paths, folders and globs name, here or behind URLs, in order, each once.

    The files of a folder or glob are sorted by the numbers in their names, then by name.

    Raises:
        DataNotFoundError: one names nothing.
    """
    paths: list[str] = []
    for name in names:
        paths += _files_of(name)
    return list(dict.fromkeys(paths))


def _files_of(name: str) -> list[str]:
    name = local_path(name)
    if is_remote(name):
        return _behind_url(name)
    name = os.path.expanduser(name)
    if os.path.isdir(name):
        inside = [os.path.join(name, entry) for entry in os.listdir(name)]
        found = [path for path in inside if _may_be_dump(path)]
    elif not os.path.lexists(name) and glob.has_magic(name):
        found = [path for path in glob.glob(name, recursive=True) if os.path.isfile(path)]
    else:
        found = [name] if os.path.lexists(name) else []
    if not found:
        raise _nothing(name, is_folder=os.path.isdir(name))
    return sorted(found, key=_by_numbers)


def _nothing(name: str, *, is_folder: bool) -> DataNotFoundError:
    return DataNotFoundError(
        "no file in the folder" if is_folder else "no such file",
        where=masked(name),
        expected="a buffer file or rollout dump, a folder or a glob of them",
    )


def _behind_url(url: str) -> list[str]:
    listing = list_remote(url)
    found = [entry.path for entry in listing.entries if not entry.is_folder]
    if listing.form == "folder":
        found = [path for path in found if _has_name_of_dump(path)]
    if not found:
        raise _nothing(url, is_folder=listing.form == "folder")
    return sorted(found, key=_by_numbers)


def _may_be_dump(path: str) -> bool:
    return os.path.isfile(path) and _has_name_of_dump(path)


def _has_name_of_dump(path: str) -> bool:
    name = os.path.basename(path)
    return not name.startswith(".") and not name.endswith(_NOT_DUMPS)


def _by_numbers(path: str) -> tuple[list[tuple[int, int | str]], str]:
    """``2.pt`` before ``10.pt``."""
    parts = re.findall(r"\d+|\D+", path)
    # The first number of a pair keeps text and numbers from being compared with each other.
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts], path
