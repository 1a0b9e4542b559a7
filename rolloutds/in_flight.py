"""Groups handed out and not yet settled: the ledger that lets a resume serve them again.

A run that stops between a draw and the next save has groups it never trained on. With the ledger
a group stays in the saved state until it is completed, discarded or given back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rolloutds.errors import GroupError
from rolloutds.group_forms import GroupForm, first_sample
from rolloutds.sample import SampleGroup


class Identity(NamedTuple):
    """What a group is recognised by when it comes back as another object, from another process."""

    group_index: Any
    index: Any
    row_id: Any

    def is_alike(self, other: Identity) -> bool:
        """Whether both may be the same group; a row that one side does not know is no matter.

        A group without an index is recognised as the same object only.
        """
        rows = {self.row_id, other.row_id} - {None}
        return self.group_index is not None and self[:2] == other[:2] and len(rows) < 2


@dataclass(frozen=True)
class DrawnGroup:
    """One group as a state keeps it: a row's name, or its samples.

    Attributes:
        group_index: number of the group; None for a group of another origin without one.
        first_index: number of its first sample.
        row_position: position of its row in the dataset's rows (before the length filter), for a
            group made from a row and not touched since; None otherwise.
        row_id: line or row of that row in its file, where known; it is there to be compared.
        samples: the samples' dict forms as they stood, for every other group.
    """

    group_index: int | None
    first_index: int | None
    row_position: int | None = None
    row_id: int | None = None
    samples: GroupForm | None = None

    @property
    def identity(self) -> Identity:
        """What it is recognised by."""
        return Identity(self.group_index, self.first_index, self.row_id)

    @property
    def size(self) -> int | None:
        """Samples (rollouts, in a compact group) it has; None when it is named by its row."""
        return None if self.samples is None else len(self.samples)

    def state_dict(self) -> dict[str, Any]:
        """Plain values; what is None is left out."""
        return {name: value for name, value in self.__dict__.items() if value is not None}


@dataclass(frozen=True)
class _Entry:
    drawn: DrawnGroup
    sample: Any  # its first one, by which the same object is recognised
    identity: Identity


class InFlightLedger:
    """The groups in flight, in the order they were handed out.

    A group that comes back is matched by being the same object, else by its `group_index`. Where
    several groups in flight have one index (groups of another run in the buffer), the number of
    the first sample and the row decide; where these are the same too, nothing is guessed.

    Attributes:
        waiting: groups that a loaded state had in flight and that were not served again yet.
        num_completed: groups settled by `complete`.
        num_discarded: groups settled by `discard`, by reason.
    """

    def __init__(self) -> None:
        self._entries: dict[int, _Entry] = {}
        self._by_index: dict[Any, list[int]] = {}
        self._by_sample: dict[int, list[int]] = {}  # an entry keeps its sample, and so the id
        self._num_recorded = 0
        self.waiting: list[DrawnGroup] = []
        self.num_completed = 0
        self.num_discarded: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def num_recorded(self) -> int:
        """Groups handed out so far; the next one gets it as its serial number."""
        return self._num_recorded

    def record(self, drawn: Iterable[DrawnGroup], groups: Iterable[SampleGroup]) -> None:
        """Takes groups in as they are handed out."""
        entries = [
            _Entry(described, first_sample(group), identity_of(group))
            for described, group in zip(drawn, groups, strict=True)
        ]
        for entry in entries:
            self._insert(self._num_recorded, entry)
            self._num_recorded += 1

    def _insert(self, serial: int, entry: _Entry) -> None:
        self._entries[serial] = entry
        self._by_sample.setdefault(id(entry.sample), []).append(serial)
        self._by_index.setdefault(entry.identity.group_index, []).append(serial)

    def complete(self, groups: Sequence[SampleGroup]) -> None:
        """Settles groups that were trained on.

        Raises:
            GroupError: one of them is not in flight; nothing is settled then.
        """
        self.settle(self._find_all(groups))

    def discard(self, groups: Sequence[SampleGroup], reason: str) -> None:
        """Settles groups that were rejected, counted by reason.

        Raises:
            GroupError: one of them is not in flight, or the reason is no text; nothing is
                settled then.
        """
        check_reason(reason)
        self.settle(self._find_all(groups), reason)

    def returning(self, groups: Sequence[SampleGroup]) -> Returning:
        """What `give_back` will take out for these groups; changes nothing.

        Raises:
            GroupError: a group cannot be told from others in flight.
        """
        found: dict[int, None] = {}
        waiting = []
        for group in groups:
            serial = self._find(group, found)
            if serial is not None:
                found[serial] = None
            elif (again := self._find_waiting(group)) is not None:
                waiting.append(again)
        return Returning(list(found), waiting)

    def give_back(self, returning: Returning) -> None:
        """Takes groups out that went to the buffer."""
        self._remove(returning.serials)
        taken = set(map(id, returning.waiting))
        self.waiting = [drawn for drawn in self.waiting if id(drawn) not in taken]

    # --- several holders (a shared source) ------------------------------------------------

    def serials_of(self, groups: Sequence[SampleGroup]) -> list[int]:
        """Serial numbers of groups in flight, as `complete` would find them; changes nothing.

        Raises:
            GroupError: one of them is not in flight.
        """
        return self._find_all(groups)

    @property
    def serials(self) -> list[int]:
        """Serial numbers of all groups in flight, ascending."""
        return list(self._entries)

    def settle(self, serials: Sequence[int], reason: str | None = None) -> None:
        """Settles groups in flight: completed, or discarded for a reason."""
        self._remove(serials)
        if reason is None:
            self.num_completed += len(serials)
        else:
            self.num_discarded[reason] = self.num_discarded.get(reason, 0) + len(serials)

    def __contains__(self, serial: int) -> bool:
        return serial in self._entries

    def drawn(self, serial: int) -> DrawnGroup:
        """A group in flight as it was handed out."""
        return self._entries[serial].drawn

    def recognise(self, serial: int, group: SampleGroup) -> None:
        """From now on this object is that group in flight, whatever its numbers."""
        entry = self._entries[serial]
        _drop(self._by_sample, id(entry.sample), serial)
        self._entries[serial] = replace(entry, sample=first_sample(group))
        self._by_sample.setdefault(id(first_sample(group)), []).append(serial)

    def requeue(self, serials: Sequence[int]) -> None:
        """Puts groups that nobody will settle back among those served first, by their index."""
        again = [self._entries[serial].drawn for serial in serials]
        self._remove(serials)
        self.waiting = sorted([*again, *self.waiting], key=_queue_place)

    def resume(self, serials: Sequence[int], num_recorded: int) -> None:
        """Takes the first groups of a loaded state as still in flight, under their old numbers.

        Args:
            serials: one for each of them, ascending.
            num_recorded: groups handed out before that state.
        """
        again, self.waiting = self.waiting[: len(serials)], self.waiting[len(serials) :]
        for serial, drawn in zip(serials, again, strict=True):
            self._insert(serial, _Entry(drawn, object(), drawn.identity))
        self._num_recorded = num_recorded

    # --- matching -------------------------------------------------------------------------

    def _find_all(self, groups: Sequence[SampleGroup]) -> list[int]:
        if not isinstance(groups, list | tuple):
            raise GroupError(f"{type(groups).__name__}", expected="a list of groups")
        found: dict[int, None] = {}
        for group in groups:
            serial = self._find(group, found)
            if serial is None:
                serial = self._find_by_number(group, found)
            found[serial] = None
        return list(found)

    def _find(self, group: SampleGroup, taken: Collection[int]) -> int | None:
        identity = identity_of(group)
        for serial in self._by_sample.get(id(first_sample(group)), ()):
            if serial not in taken:
                return serial  # whatever became of its numbers
        serials = [s for s in self._by_index.get(identity.group_index, ()) if s not in taken]
        alike = [s for s in serials if self._entries[s].identity.is_alike(identity)]
        if len(alike) > 1:
            raise GroupError(
                f"{len(alike)} groups in flight have this index, first sample and row",
                where=f"group {identity.group_index}",
                expected="groups that can be told apart",
                hint="hand back the objects that get_samples gave, or number the groups apart",
            )
        return alike[0] if alike else None

    def _find_by_number(self, group: SampleGroup, taken: Collection[int]) -> int:
        """The one group in flight of that index, though its samples were renumbered."""
        index = identity_of(group).group_index
        serials = [s for s in self._by_index.get(index, ()) if s not in taken]
        if len(serials) == 1 and index is not None:
            return serials[0]
        if self._find_waiting(group) is not None:
            what = "was in flight in the loaded state, and is to be served again first"
        else:
            what = "settled twice, or never handed out"
        raise GroupError(
            what,
            where=f"group {index}",
            expected="a group in flight",
            hint="with track_in_flight each group is completed, discarded or given back "
            "once after every draw",
        )

    def _find_waiting(self, group: SampleGroup) -> DrawnGroup | None:
        identity = identity_of(group)
        return next((d for d in self.waiting if d.identity.is_alike(identity)), None)

    def _remove(self, serials: Iterable[int]) -> None:
        for serial in serials:
            entry = self._entries.pop(serial)
            _drop(self._by_sample, id(entry.sample), serial)
            _drop(self._by_index, entry.identity.group_index, serial)

    # --- state ----------------------------------------------------------------------------

    def groups(self) -> Iterator[DrawnGroup]:
        """Everything a resume has to serve first, in order."""
        for entry in self._entries.values():
            yield entry.drawn
        yield from self.waiting

    def state_dict(self) -> dict[str, Any]:
        """Groups and counts as plain values, not copied."""
        return {
            "groups": [group.state_dict() for group in self.groups()],
            "num_completed": self.num_completed,
            "num_discarded": dict(self.num_discarded),
        }


def _queue_place(drawn: DrawnGroup) -> tuple[bool, int]:
    return drawn.group_index is None, drawn.group_index or 0


def _drop(serials: dict[Any, list[int]], key: Any, serial: int) -> None:
    serials[key].remove(serial)
    if not serials[key]:
        del serials[key]


class Returning(NamedTuple):
    """Groups that are about to go back to the buffer."""

    serials: list[int]
    waiting: list[DrawnGroup]


class DrawLog:
    """Which groups were handed out for which rollout, where no ledger says what became of them.

    A state saved for rollout 2 while groups of rollout 3 are out skips those after a resume: that
    much can be known, and said.
    """

    def __init__(self) -> None:
        self._draws: list[tuple[int, list[Any]]] = []

    def record(self, rollout_id: int, groups: Iterable[SampleGroup]) -> None:
        """Takes down a draw."""
        self._draws.append((rollout_id, [identity_of(group) for group in groups]))

    def num_after(self, rollout_id: int, buffer: Iterable[SampleGroup]) -> int:
        """Groups handed out for later rollouts that are not in the buffer again."""
        drawn = [g for later, groups in self._draws if later > rollout_id for g in groups]
        returned = {identity_of(group) for group in buffer} if drawn else set()
        return len(set(drawn) - returned)

    def forget_through(self, rollout_id: int) -> None:
        """Drops the draws of that rollout and of those before."""
        self._draws = [draw for draw in self._draws if draw[0] > rollout_id]


def check_reason(reason: Any) -> None:
    """Checks why groups are discarded.

    Raises:
        GroupError: it is no text.
    """
    if not isinstance(reason, str):
        raise GroupError(f"the reason is {reason!r}", expected="text")


def identity_of(group: Any) -> Identity:
    """What a group is recognised by.

    Raises:
        GroupError: it is no group.
    """
    sample = first_sample(group) if isinstance(group, list) else None
    if sample is None:
        raise GroupError(f"{group!r:.60} is given", expected="a non-empty list of samples")
    numbers = [getattr(sample, name, None) for name in Identity._fields]
    for name, number in zip(Identity._fields, numbers, strict=True):
        if type(number).__hash__ is None:
            raise GroupError(f"{name} is {number!r:.60}", expected="a whole number, or None")
    return Identity(*numbers)
