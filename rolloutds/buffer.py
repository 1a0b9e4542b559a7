"""The rules of the buffer: what may go in, and what a filter may take out.

The buffer itself is a plain list of groups: filters and users edit it in place.
"""

from __future__ import annotations

from typing import Any

from rolloutds.errors import FilterError, GroupError
from rolloutds.filters import BufferFilter
from rolloutds.group_forms import first_sample, is_group, leaves
from rolloutds.sample import SampleGroup

_FEW = 1024


def check_groups(groups: Any, size: int) -> None:
    """Checks that these are groups of `size` samples (rollouts, in a compact group).

    Raises:
        GroupError: they are not; the first wrong one is named.
    """
    if not isinstance(groups, list):
        raise GroupError(
            f"{type(groups).__name__} given to add_samples", expected="a list of groups"
        )
    for position, group in enumerate(groups):
        where = f"group at position {position}"
        if not isinstance(group, list):
            raise GroupError(f"{type(group).__name__}", where=where, expected="a list of samples")
        if len(group) != size:
            raise GroupError(
                f"{len(group)} samples (group_index {_index_of(group)})",
                where=where,
                expected=f"{size}, n_samples_per_prompt",
                hint="nothing was added",
            )
        if not is_group(group):
            raise GroupError(
                describe_value(group), where=where, expected="samples", hint="nothing was added"
            )


class Members:
    """Which samples are in the buffer, to tell a group that is given back twice.

    Filters and users take groups out of the list behind our back. So the ids noted here may be
    those of samples that are gone: a hit is looked into, and the notes are made anew.
    """

    def __init__(self) -> None:
        self._noted: set[int] = set()
        self._limit = _FEW

    def check_new(self, groups: list[SampleGroup], buffer: list[SampleGroup]) -> None:
        """Checks that no sample of these groups waits already, or is in two of them.

        Raises:
            GroupError: one does; a group served twice is trained on twice.
        """
        seen: set[int] = set()
        for group in groups:
            members = set(map(id, leaves(group)))
            if not (seen.isdisjoint(members) and self._noted.isdisjoint(members)):
                self._look_into(group, members, seen, buffer)
            seen |= members

    def _look_into(
        self, group: SampleGroup, members: set[int], seen: set[int], buffer: list[SampleGroup]
    ) -> None:
        self._note_anew(buffer)
        if not (members & (seen | self._noted)):
            return
        raise GroupError(
            "given back, and it or one of its samples is in the buffer already",
            where=f"group {_index_of(group)}",
            expected="each group once after every draw",
            hint="nothing was added; a filter that returns a group must take it out of the buffer",
        )

    def note(self, groups: list[SampleGroup], buffer: list[SampleGroup]) -> None:
        """Takes down samples that went in."""
        self._noted.update(id(sample) for group in groups for sample in leaves(group))
        if len(self._noted) > self._limit:
            self._note_anew(buffer)

    def _note_anew(self, buffer: list[SampleGroup]) -> None:
        self._noted = {id(sample) for waiting in buffer for sample in leaves(waiting)}
        self._limit = 2 * len(self._noted) + _FEW


def pick(
    buffer_filter: BufferFilter,
    args: Any,
    rollout_id: int | None,
    buffer: list[SampleGroup],
    num_groups: int,
) -> list[SampleGroup]:
    """What the filter takes from the buffer, checked.

    Raises:
        FilterError: it raised, or returned what it must not; the caller restores the buffer.
    """
    where = name_of(buffer_filter)
    try:
        picked = buffer_filter(args, rollout_id, buffer, num_groups)
    except Exception as error:  # whatever the user's code raises
        raise FilterError(f"raised {type(error).__name__}: {error}", where=where) from error
    _check_picked(picked, num_groups, where=where)
    return list(picked)


def name_of(buffer_filter: BufferFilter) -> str:
    """How messages call a filter."""
    return f"buffer filter {getattr(buffer_filter, '__name__', buffer_filter)!s}"


def num_removed(
    before: list[SampleGroup], after: list[SampleGroup], picked: list[SampleGroup]
) -> int:
    """Groups that a filter removed from the buffer and did not return."""
    kept = set(map(id, after)) | set(map(id, picked))
    return sum(id(group) not in kept for group in before)


def _check_picked(picked: Any, num_groups: int, *, where: str) -> None:
    if not isinstance(picked, list) or not all(map(is_group, picked)):
        raise FilterError(
            f"returned {describe_value(picked)}", where=where, expected="groups of samples"
        )
    if len(picked) > num_groups:
        raise FilterError(
            f"returned {len(picked)} groups", where=where, expected=f"at most {num_groups}"
        )
    seen: set[int] = set()
    for group in picked:
        members = set(map(id, leaves(group)))
        if seen & members:
            raise FilterError(
                f"returned group {_index_of(group)} twice", where=where, expected="once"
            )
        seen |= members


def describe_value(value: Any) -> str:
    """A value that is no list of groups, in a few words."""
    if not isinstance(value, list):
        return f"{type(value).__name__}"
    kinds = sorted({type(item).__name__ for item in value})
    return f"a list of {', '.join(kinds)}"


def _index_of(group: Any) -> Any:
    return getattr(first_sample(group), "group_index", None)
