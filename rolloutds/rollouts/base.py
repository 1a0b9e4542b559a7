"""What every reader of buffer files and rollout dumps gives: groups of samples, with their place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from rolloutds.errors import GroupError
from rolloutds.rollouts.dump_file import DumpFile
from rolloutds.sample import Sample

Origin = Literal["dump", "buffer", "in_flight"]
File = TypeVar("File", bound=DumpFile)
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _nothing() -> Mapping[str, Any]:
    return _NOTHING


class GroupPlace(NamedTuple):
    """Where a group lies.

    Attributes:
        file: path of the file, as it was named.
        position: number of the group in its file, from 0.
        line: line of its first sample, from 1; None where the format has no lines.
    """

    file: str
    position: int
    line: int | None = None

    def __str__(self) -> str:
        if self.line is None:
            return f"{self.file} group {self.position}"
        return f"{self.file}:{self.line}"


@dataclass(slots=True)
class ReadGroup:
    """One group of a file.

    Attributes:
        members: its samples, or, where one rollout has several (compact rollouts), a list of
            samples for each rollout.
        place: where it lies.
        group_index: as the file says; None where it says nothing.
        rollout_id: rollout the file, or this part of it, belongs to; from the content, else from
            the file's name; None when neither says.
        is_eval: whether it comes from an evaluation.
        origin: whether it was trained on, waited in a buffer, or was in flight.
        dump_fields: what the file says beside its groups, the same for all groups of a file.
        own_fields: what it says of this group beside its samples.
    """

    members: list[Sample] | list[list[Sample]]
    place: GroupPlace
    group_index: int | None = None
    rollout_id: int | None = None
    is_eval: bool = False
    origin: Origin = "dump"
    dump_fields: Mapping[str, Any] = field(default_factory=_nothing)
    own_fields: Mapping[str, Any] = field(default_factory=_nothing)

    @property
    def samples(self) -> list[Sample]:
        """All its samples, flat."""
        flat: list[Sample] = []
        for member in self.members:
            flat += member if isinstance(member, list) else [member]
        return flat

    @property
    def is_nested(self) -> bool:
        """Whether samples of one rollout are kept together."""
        return any(isinstance(member, list) for member in self.members)

    @property
    def num_rollouts(self) -> int:
        """Its size as `n_samples_per_prompt` counts it.

        Nested, the rollouts; flat, the different `rollout_id` of its samples, where each sample
        without one counts by itself.
        """
        if self.is_nested:
            return len(self.members)
        ids = [sample.rollout_id for sample in self.samples]
        return len({i for i in ids if i is not None}) + ids.count(None)

    @property
    def number(self) -> int:
        """What to call it: its `group_index`, else its position in the file."""
        return self.place.position if self.group_index is None else self.group_index


class GroupReader(ABC, Generic[File]):
    """One format. Stateless: a reader may read many files.

    Attributes:
        name: what ``--from`` calls it.
        file_type: the kind of file it is in; only files of that kind are given to it.
        looks_for: what it recognises a file by, for the message about an unknown one.
        has_indices: whether `index` counts samples over all files of a run.
    """

    name: ClassVar[str]
    file_type: ClassVar[type[DumpFile]]
    looks_for: ClassVar[str]
    has_indices: ClassVar[bool] = False

    @abstractmethod
    def recognises(self, file: File) -> bool:
        """Whether the file has this format; looks at the beginning only, where it can."""

    @abstractmethod
    def read(self, file: File, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups, in the file's order, as late as possible.

        Args:
            file: the file.
            n_samples_per_prompt: size of a group, for files that do not say where one ends.

        Raises:
            DataError: the file is malformed; the message names the place.
            GroupError: a group is malformed, or the size is needed and None.
        """


class Runs:
    """Group keys for samples that may have none: those come in runs of a fixed size.

    Args:
        size: samples of a run; None when it is not known.
    """

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._count = 0

    def key(self, group_index: Any, where: str) -> tuple[str, int]:
        """The key of the next sample.

        Raises:
            GroupError: it has no group index, and the size of a run is not known.
        """
        if isinstance(group_index, int):
            return ("group", group_index)
        if group_index is not None:
            raise GroupError(
                f"group_index is {group_index!r:.40}", where=where, expected="a whole number"
            )
        if self._size is None:
            raise GroupError(
                "samples have no group_index",
                where=where,
                hint="give n_samples_per_prompt (--n-samples-per-prompt N): "
                "groups are then runs of N samples",
            )
        self._count += 1
        return ("run", (self._count - 1) // self._size)


def sample_of(value: Any, where: str) -> Sample:
    """A sample from its dict form.

    Raises:
        GroupError: it is no dict, or a part of it has an impossible form.
    """
    if not isinstance(value, Mapping):
        raise GroupError(
            f"a {type(value).__name__}", where=where, expected="a sample, as an object"
        )
    odd = [key for key in value if not isinstance(key, str)]
    if odd:
        raise GroupError(f"the key {odd[0]!r:.40}", where=where, expected="keys that are text")
    if not isinstance(value.get("rollout_id"), Hashable):
        found = f"rollout_id is a {type(value['rollout_id']).__name__}"
        raise GroupError(found, where=where, expected="a whole number")
    for name in ("spec_info", "prefix_cache_info"):
        if not isinstance(value.get(name), Mapping | None):
            raise GroupError(f"{name} is no object", where=where, expected="an object of counters")
    return Sample.from_dict(value)


def members_of(values: Any, where: str) -> list[Sample] | list[list[Sample]]:
    """The members of a group from dict forms, flat or nested.

    Raises:
        GroupError: there are none, or one is no sample.
    """
    if not isinstance(values, list | tuple) or not values:
        found = "no samples" if isinstance(values, list | tuple) else f"a {_kind(values)}"
        raise GroupError(found, where=where, expected="a list of at least one sample")
    if not any(isinstance(value, list | tuple) for value in values):
        return _flat(values, where)
    return [
        _flat(value if isinstance(value, list | tuple) else [value], f"{where}, rollout {i}")
        for i, value in enumerate(values)
    ]


def _flat(values: Sequence[Any], where: str) -> list[Sample]:
    if not values:
        raise GroupError("no samples", where=where, expected="at least one")
    return [sample_of(value, f"{where}, sample {i}") for i, value in enumerate(values)]


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def shared_group_index(members: Sequence[Any]) -> int | None:
    """The group index of the first sample that has one."""
    for member in members:
        for sample in member if isinstance(member, list) else [member]:
            if isinstance(sample.group_index, int):
                return int(sample.group_index)
    return None
