"""What a buffer filter does to a buffer, round by round, on copies of its groups."""

from __future__ import annotations

import copy
import gc
import operator
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rolloutds.buffer import describe_value
from rolloutds.errors import ConfigError
from rolloutds.filters import BufferFilter
from rolloutds.group_forms import first_sample, is_group, leaves
from rolloutds.replay_call import Call, Limit, TimeUp, call
from rolloutds.replay_codes import ReplayFinding, ReplayFindings
from rolloutds.replay_copies import copy_group, edits
from rolloutds.sample import Sample
from rolloutds.state_copy import ATOMS
from rolloutds.torch_file.pickled import collector_paused
from rolloutds.torch_file.scalars import PlainScalar

GroupNumber = int | str
"""A group's `group_index`; where it has none, ``#`` and its place in the order of arrival."""

Ended = Literal["empty", "rounds", "nothing new", "a group again", "error"]

_MESSAGE_LIMIT = 300
_VALUE_LIMIT = 40
_EXACT_ROUNDS = 3
_LONGEST_LIMIT = 365 * 24 * 3600


@dataclass(frozen=True)
class ReplaySettings:
    """How a filter is tried.

    Attributes:
        num_samples: groups asked for in each round.
        num_rounds: rounds; None: until the buffer is empty, or nothing new is taken.
        rollout_id: what the filter gets as rollout id in the first round, counted on in the
            next; None: always None, as the reference passes.
        n_samples_per_prompt: size of every group; None: the commonest size.
        time_limit: seconds a call may take; None: no limit.
        num_compared: rounds that are run a second time.
    """

    num_samples: int = 32
    num_rounds: int | None = None
    rollout_id: int | None = None
    n_samples_per_prompt: int | None = None
    time_limit: float | None = 30.0
    num_compared: int = 3

    def __post_init__(self) -> None:
        for name in ("num_samples", "num_rounds", "n_samples_per_prompt"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{value} is too small", where=name, expected="at least 1")
        if self.time_limit is not None and not 0 < self.time_limit <= _LONGEST_LIMIT:
            expected = f"seconds above 0, at most {_LONGEST_LIMIT:,} (a year)"
            raise ConfigError(f"{self.time_limit}", where="time_limit", expected=expected)


@dataclass
class Taken:
    """A group that a round returned.

    Attributes:
        number: which group.
        position: its place in the order of arrival, from 0; -1: it was never in the buffer.
        rewards: of its samples, as they were in the file.
    """

    number: GroupNumber
    position: int
    rewards: list[Any]


@dataclass
class ReplayRound:
    """One call, and what became of the buffer: taken + left + removed = before.

    A filter that leaves what it returns in the buffer takes nothing: `num_returned` is what it
    gave, `num_new` what of that no earlier round had given.

    Attributes:
        number: from 1.
        rollout_id: what the filter got.
        num_asked: groups it was asked for.
        num_before: groups in the buffer before the call.
        returned: what it returned, in order.
        num_new: groups of the buffer's that were returned for the first time.
        num_taken: groups that left the buffer and were returned.
        num_left: groups that are still in it; returned ones too.
        num_still_in: returned groups that are still in it.
        removed: groups that left it and were not returned.
        num_refilled: groups that were added before the call.
        seconds: how long the call took.
    """

    number: int
    rollout_id: int | None
    num_asked: int
    num_before: int
    returned: list[Taken] = field(default_factory=list)
    num_new: int = 0
    num_taken: int = 0
    num_left: int = 0
    num_still_in: int = 0
    removed: list[GroupNumber] = field(default_factory=list)
    num_refilled: int = 0
    seconds: float = 0.0

    @property
    def num_returned(self) -> int:
        """Groups it returned, those that it should not have as well."""
        return len(self.returned)

    @property
    def num_removed(self) -> int:
        """Groups that left the buffer and were not returned."""
        return len(self.removed)


@dataclass
class Replay:
    """What a filter did.

    Attributes:
        filter_name: as it was named.
        n_samples_per_prompt: the group size that was expected.
        num_groups: groups in the buffer at the start.
        num_refilled: groups that were added later.
        rounds: every call.
        ended: why there was no further call.
        never_served: groups that no round returned; removed ones too.
        num_left: groups in the buffer at the end.
        findings: errors first.
    """

    filter_name: str
    n_samples_per_prompt: int
    num_groups: int
    num_refilled: int = 0
    rounds: list[ReplayRound] = field(default_factory=list)
    ended: Ended = "rounds"
    never_served: list[GroupNumber] = field(default_factory=list)
    num_left: int = 0
    findings: list[ReplayFinding] = field(default_factory=list)

    @property
    def has_errors(self) -> bool:
        """Whether a run with this filter would stop or go wrong."""
        return any(finding.severity == "error" for finding in self.findings)

    @property
    def num_served(self) -> int:
        """Different groups that were returned."""
        return len({taken.position for entry in self.rounds for taken in entry.returned})


def _no_call() -> None:
    pass


def _no_round(done: ReplayRound, findings: ReplayFindings) -> None:
    del done, findings


@dataclass(frozen=True)
class ReplayWatch:
    """Who follows a replay.

    Attributes:
        on_call: called before each call of the filter.
        on_look: called whenever a group is looked at after it.
        on_round: called after each round, with what was found so far; not in a second run.
    """

    on_call: Callable[[], None] = _no_call
    on_look: Callable[[], None] = _no_call
    on_round: Callable[[ReplayRound, ReplayFindings], None] = _no_round


def replay(
    buffer_filter: BufferFilter,
    groups: Sequence[Any],
    *,
    args: Any,
    settings: ReplaySettings | None = None,
    refill: Sequence[Any] = (),
    filter_name: str = "",
    watch: ReplayWatch | None = None,
) -> Replay:
    """Calls a filter on copies of groups, as a run would, and looks at what it does.

    The groups themselves are not changed. The time limit needs the main thread; see `replay_child`
    for one that always holds.

    Args:
        buffer_filter: the filter.
        groups: what is in the buffer, oldest first; no group twice.
        args: the settings it receives.
        settings: how it is tried.
        refill: groups that come back between rounds, at most `num_samples` each time.
        filter_name: how messages call it; its own name when empty.
        watch: is told of each call before and after it.

    Raises:
        GroupError: one of the groups is no group.
        ConfigError: a setting is out of range.
    """
    settings = settings or ReplaySettings()
    size = expected_size(groups, settings)
    name = filter_name or getattr(buffer_filter, "__name__", str(buffer_filter))
    trial = _Trial(buffer_filter, groups, args, settings, refill, size, watch or ReplayWatch())
    result = trial.run(settings.num_rounds)
    result.filter_name = name
    if not trial.findings.has_errors and settings.num_compared:
        _compare_second_run(trial, result)
    result.findings = trial.findings.all
    return result


def _compare_second_run(trial: _Trial, first: Replay) -> None:
    again = trial.anew()
    num_rounds = min(trial.settings.num_compared, len(first.rounds))
    second = again.run(num_rounds) if num_rounds else None
    for one, other in zip(first.rounds, second.rounds if second else [], strict=False):
        before, after = ([taken.position for taken in entry.returned] for entry in (one, other))
        if before != after:
            index = next(
                (
                    i
                    for i, pair in enumerate(zip(before, after, strict=False))
                    if len(set(pair)) > 1
                ),
                min(len(before), len(after)),
            )
            shown = [
                str(entry.returned[index].number) if index < len(entry.returned) else "none"
                for entry in (one, other)
            ]
            trial.findings.add(
                "RPL012",
                f"group {shown[0]} was returned at position {index}, and group {shown[1]} there "
                "on a second run with the same buffer",
                round_number=one.number,
                group=one.returned[index].number if index < len(one.returned) else None,
            )
            return


def size_of(group: Any) -> int:
    """A group's size as `n_samples_per_prompt` counts it; compact rollouts count once."""
    if any(isinstance(member, list) for member in group):
        return len(group)
    ids = [getattr(sample, "rollout_id", None) for sample in group]
    return len({i for i in ids if i is not None}) + ids.count(None)


def commonest_size(groups: Iterable[Any]) -> int | None:
    """The size that most groups have; None of no groups."""
    counted = Counter(map(size_of, groups)).most_common(1)
    return counted[0][0] if counted else None


def number_of(group: Any, position: int) -> GroupNumber:
    """What to call a group that came as the `position`-th, from 0."""
    index = getattr(first_sample(group), "group_index", None)
    return int(index) if isinstance(index, int) else f"#{position}"


def expected_size(groups: Iterable[Any], settings: ReplaySettings) -> int:
    """The size that groups should have: as set, else the commonest."""
    return settings.n_samples_per_prompt or commonest_size(groups) or 1


class _Entry:
    """A group that came into the buffer: the copy that the filter sees, and the original."""

    __slots__ = ("group", "is_waiting", "number", "original", "position", "served_in", "size")

    def __init__(self, original: Any, position: int) -> None:
        self.original = original
        self.group = copy_group(original)
        self.position = position
        self.number = number_of(original, position)
        self.size = size_of(original)
        self.served_in: int | None = None
        self.is_waiting = True

    @property
    def taken(self) -> Taken:
        return Taken(self.number, self.position, _rewards(self.original))


class _Trial:
    """One replay under way.

    The filter is given the real list; what changed in it is found by comparing identities with
    the list of before, so that no group is copied a second time.
    """

    def __init__(
        self,
        buffer_filter: BufferFilter,
        groups: Sequence[Any],
        args: Any,
        settings: ReplaySettings,
        refill: Sequence[Any],
        size: int,
        watch: ReplayWatch,
    ) -> None:
        self._watch = watch
        self._filter = buffer_filter
        self._groups = groups
        self._args = _copy_args(args)
        self._given_args = args
        self.settings = settings
        self._refill = refill
        self._num_refilled = 0
        self._size = size
        self._buffer: list[Any] = []
        self._mirror: list[Any] = []
        # Entries hold the groups, so that an identity never passes to another object.
        self._entries: dict[int, _Entry] = {}
        self.findings = ReplayFindings()
        # What a filter put into samples runs when they are looked at: each group has the time limit.
        self._limit = Limit(settings.time_limit)
        self._looks_at: _Entry | None = None
        with collector_paused():
            self._add(groups)

    def anew(self) -> _Trial:
        """The same trial before its first round, on new copies."""
        watch = ReplayWatch(on_call=self._watch.on_call, on_look=self._watch.on_look)
        return _Trial(
            self._filter,
            self._groups,
            self._given_args,
            self.settings,
            self._refill,
            self._size,
            watch,
        )

    def _add(self, groups: Iterable[Any]) -> None:
        for group in groups:
            entry = _Entry(group, len(self._entries))
            self._entries[id(entry.group)] = entry
            self._buffer.append(entry.group)
            self._mirror.append(entry.group)

    def run(self, num_rounds: int | None) -> Replay:
        # Left alone, the collector would walk all groups again and again.
        with collector_paused():
            return self._run(num_rounds)

    def _run(self, num_rounds: int | None) -> Replay:
        result = Replay("", self._size, len(self._entries))
        while True:
            if num_rounds is not None and len(result.rounds) == num_rounds:
                break
            num_refilled = self._refill_buffer() if result.rounds else 0
            if not self._buffer:
                result.ended = "empty"
                break
            done, ended = self._round(len(result.rounds) + 1)
            done.num_refilled = num_refilled
            result.rounds.append(done)
            self._watch.on_round(done, self.findings)
            gc.collect(1)  # what the call left behind, and nothing older
            if self.findings.has_errors:
                result.ended = "error"
                break
            if ended is not None and num_rounds is None:
                result.ended = ended
                break
        self._finish(result)
        return result

    def _refill_buffer(self) -> int:
        start = self._num_refilled
        coming = self._refill[start : start + self.settings.num_samples]
        if coming:
            self._num_refilled += len(coming)
            self._add(coming)
        return len(coming)

    def _finish(self, result: Replay) -> None:
        self._look(self._look_at_the_rest, None)
        if self.findings.has_errors:
            result.ended = "error"
        result.num_refilled = self._num_refilled
        result.num_left = len(self._buffer)
        entries = self._entries.values()
        result.never_served = [entry.number for entry in entries if entry.served_in is None]

    def _look_at_the_rest(self) -> None:
        for group in self._buffer:
            entry = self._entries.get(id(group))
            if entry is not None:
                self._look_for_edits(entry, None)
                if size_of(group) != entry.size:
                    self._look_at_size(entry, group, None)

    # --- looking, which can run code of the filter's --------------------------------------

    def _look(self, look: Callable[[], Any], number: int | None) -> Any:
        """What `look` gives, within the time limit; what stops it is noted, and None given."""
        self._turn_to(None)
        outcome = call(look, self._limit, sees_reseeding=False)
        if outcome.error is not None:
            code, says = "RPL006", describe_error(outcome.error)
            if isinstance(outcome.error, TimeUp):
                code, says = "RPL007", f"stopped after {self.settings.time_limit:g} s"
            group = None if self._looks_at is None else self._looks_at.number
            self.findings.add(
                code,
                f"{self._looked_place(outcome)}: {says}",
                round_number=number,
                group=group,
                about="look",
                frames=outcome.frames,
            )
        return outcome.value

    def _turn_to(self, entry: _Entry | None) -> None:
        self._looks_at = entry
        self._limit.restart()
        self._watch.on_look()

    def _looked_place(self, outcome: Call) -> str:
        """Which of the filter's code ran, and for which group, sample and field."""
        frame = outcome.frames[-1] if outcome.frames else ""
        what = frame.partition(" in ")[2].partition(":")[0] or "its objects"
        text = f"{what}, run by comparing samples after the call"
        if self._looks_at is None:
            return text
        return f"{text}, group {self._looks_at.number}{_place_in(self._looks_at, outcome)}"

    # --- one round ------------------------------------------------------------------------

    def _round(self, number: int) -> tuple[ReplayRound, Ended | None]:
        first_id = self.settings.rollout_id
        rollout_id = None if first_id is None else first_id + number - 1
        asked = self.settings.num_samples
        done = ReplayRound(number, rollout_id, asked, len(self._mirror))
        self._watch.on_call()
        outcome = call(
            lambda: self._filter(self._args, rollout_id, self._buffer, asked),
            Limit(self.settings.time_limit),
        )
        done.seconds = outcome.seconds
        looked = self._look(lambda: (self._look_at_call(outcome, done),), number)
        if looked is None:
            self._count_only(outcome, done)
            return done, None
        return done, looked[0]

    def _look_at_call(self, outcome: Call, done: ReplayRound) -> Ended | None:
        number = done.number
        self._note_call(outcome, number)
        returned = self._groups_of(outcome, number)
        known = [e for e in (self._entries.get(id(g)) for g in returned) if e is not None]
        is_again = self._look_at_returned(returned, done)
        removed = self._account(done, returned, known)
        for entry in [*known, *removed]:
            self._look_for_edits(entry, number)
        done.num_new = len({e.position for e in known if e.served_in is None})
        for entry in known:
            entry.served_in = entry.served_in or number
        if is_again:
            return "a group again"
        return None if known else "nothing new"

    def _count_only(self, outcome: Call, done: ReplayRound) -> None:
        """What is known of a round whose groups could not be looked at."""
        returned = outcome.value if type(outcome.value) is list else []
        known = {id(g): self._entries[id(g)] for g in returned if id(g) in self._entries}
        done.returned = [entry.taken for entry in known.values()]
        done.num_new = sum(entry.served_in is None for entry in known.values())
        for entry in known.values():
            entry.served_in = entry.served_in or done.number
        done.removed = []
        done.num_left = min(len(self._buffer), done.num_before)
        done.num_taken = done.num_before - done.num_left

    def _note(
        self, code: str, message: str, done: ReplayRound, group: GroupNumber | None = None
    ) -> None:
        self.findings.add(code, message, round_number=done.number, group=group)

    def _note_call(self, outcome: Call, number: int) -> None:
        for module in outcome.reseeded:
            message = f"the global state of {module} was set"
            self.findings.add("RPL013", message, round_number=number, about=module)
        if outcome.error is None:
            return
        group = self._looked_at(outcome)
        code, message = "RPL006", describe_error(outcome.error)
        if isinstance(outcome.error, TimeUp):
            code, message = "RPL007", f"stopped after {self.settings.time_limit:g} s"
        where = "" if group is None else f", at group {group}"
        self.findings.add(
            code, message + where, round_number=number, group=group, frames=outcome.frames
        )

    def _looked_at(self, outcome: Call) -> GroupNumber | None:
        """The group, or the group of the sample, that the innermost frame has in a variable."""
        samples: dict[int, _Entry] = {}
        for entry in self._entries.values():
            samples.update((id(sample), entry) for sample in leaves(entry.group))
        for value in outcome.looked_at:
            found = self._entries.get(id(value)) or samples.get(id(value))
            if found is not None:
                return found.number
        return None

    def _groups_of(self, outcome: Call, number: int) -> list[Any]:
        """What was returned, as far as it is groups."""
        if outcome.error is not None:
            return []
        value = outcome.value
        if not isinstance(value, list):
            self._note_wrong_type(f"returned {describe_value(value)}", number)
            if isinstance(value, Coroutine):
                value.close()  # else Python warns that nobody waited for it
            return []
        groups = []
        for position, group in enumerate(value):
            if is_group(group):
                groups.append(group)
            else:
                found = f"returned {describe_value(group)} at position {position}"
                self._note_wrong_type(found, number)
        return groups

    def _note_wrong_type(self, found: str, number: int) -> None:
        message = f"{found}, expected a list of groups of samples"
        self.findings.add("RPL001", message, round_number=number)

    # --- what was returned ----------------------------------------------------------------

    def _look_at_returned(self, returned: list[Any], done: ReplayRound) -> bool:
        """Notes what is wrong with the groups; says whether one was served before."""
        if len(returned) > done.num_asked:
            beyond = self._number_of(returned[done.num_asked])
            found = f"returned {len(returned):,} groups, expected at most {done.num_asked:,}"
            self._note("RPL003", f"{found}; the first beyond is group {beyond}", done, beyond)
        samples: set[int] = set()
        is_again = False
        for group in returned:
            self._turn_to(self._entries.get(id(group)))
            number = self._number_of(group)
            own = set(map(id, leaves(group)))
            if samples & own:
                self._note("RPL004", f"group {number} was returned twice", done, number)
            samples |= own
            entry = self._entries.get(id(group))
            done.returned.append(Taken(number, -1, _rewards(group)) if not entry else entry.taken)
            is_again |= entry is not None and entry.served_in is not None
            self._look_at_origin(entry, number, done)
            self._look_at_size(entry, group, done)
        return is_again

    def _look_at_origin(self, entry: _Entry | None, number: GroupNumber, done: ReplayRound) -> None:
        if entry is not None and entry.is_waiting:
            if entry.served_in is not None:
                message = f"group {number} was returned in round {entry.served_in} and again"
                self.findings.add(
                    "RPL008", message, round_number=done.number, group=number, about="again"
                )
            return
        message = f"group {number} was returned and is not one of the buffer's"
        if entry is not None:
            message = f"group {number} was returned; it left the buffer in an earlier round"
        self._note("RPL005", message, done, number)

    def _look_at_size(self, entry: _Entry | None, group: Any, done: ReplayRound | None) -> None:
        size, expected = size_of(group), self._size
        if size == expected and (entry is None or size == entry.size):
            return
        number = self._number_of(group)
        found, wanted = f"group {number} has {size} samples", f"expected {expected}"
        if entry is not None and entry.size != size:
            found += f"; it had {entry.size}"
        elif entry is not None:
            found += ", in the file too"
            wanted = f"n_samples_per_prompt is {expected}"
        self.findings.add(
            "RPL002",
            f"{found}, {wanted}",
            round_number=None if done is None else done.number,
            group=number,
        )

    def _number_of(self, group: Any) -> GroupNumber:
        entry = self._entries.get(id(group))
        if entry is not None:
            return entry.number
        index = getattr(first_sample(group), "group_index", None) if is_group(group) else None
        return int(index) if isinstance(index, int) else "?"

    def _look_for_edits(self, entry: _Entry, number: int | None) -> None:
        self._turn_to(entry)
        for edit in edits(entry.original, entry.group):
            self.findings.add(
                "RPL010",
                f"group {entry.number}, sample {edit.sample}: {edit.field} was "
                f"{_shown(edit.was)} and is {_shown(edit.now)}",
                round_number=number,
                group=entry.number,
                field=edit.field,
            )

    # --- what became of the buffer --------------------------------------------------------

    def _account(self, done: ReplayRound, returned: list[Any], known: list[_Entry]) -> list[_Entry]:
        """Fills in the numbers; gives what was removed and not returned."""
        if not self._is_first_in_first_out(returned, done.number):
            return self._account_anyhow(done, {id(group): group for group in returned})
        done.num_taken, done.num_left = len(returned), len(self._buffer)
        for entry in known:
            entry.is_waiting = False
        return []

    def _is_first_in_first_out(self, returned: list[Any], number: int) -> bool:
        """Whether the first groups were returned and all else stayed; if so, it is noted.

        Looking groups up takes long in a long buffer, round after round. Comparing lists does not
        even touch groups that are the same object. Those that are only equal show when they are
        returned.
        """
        before, after, num = self._mirror, self._buffer, len(returned)
        if len(after) != len(before) - num or not all(map(operator.is_, returned, before)):
            return False
        del before[:num]
        if number > _EXACT_ROUNDS:
            is_same = _are_equal_lists(after, before)
        else:
            is_same = all(map(operator.is_, after, before))
        if not is_same:
            before[:0] = returned
        return is_same

    def _account_anyhow(self, done: ReplayRound, returned: dict[int, Any]) -> list[_Entry]:
        were_there = {id(group): group for group in self._mirror}
        are_there = {id(group): group for group in self._buffer}
        left = [i for i in were_there if i in are_there]
        gone = [i for i in were_there if i not in are_there]
        removed = [i for i in gone if i not in returned]
        done.num_left, done.num_taken = len(left), len(gone) - len(removed)
        done.removed = [self._number_of(were_there[i]) for i in removed]
        done.num_still_in = sum(i in are_there for i in returned)
        for i in removed:
            number = self._number_of(were_there[i])
            message = f"group {number} was removed from the buffer and not returned"
            self._note("RPL009", message, done, number)
        for i in returned:
            if i in are_there:
                number = self._number_of(returned[i])
                message = f"group {number} was returned and is still in the buffer"
                self._note("RPL008", message, done, number)
        self._note_added(done, were_there, are_there)
        if left != [i for i in are_there if i in were_there]:
            message = f"the {len(left):,} groups left are in another order than before"
            self._note("RPL011", message, done)
        for i, entry in ((i, self._entries.get(i)) for i in [*gone, *are_there]):
            if entry is not None:
                entry.is_waiting = i in are_there
        self._mirror = list(are_there.values())
        return [self._entries[i] for i in removed if i in self._entries]

    def _note_added(
        self, done: ReplayRound, were_there: dict[int, Any], are_there: dict[int, Any]
    ) -> None:
        for i, group in are_there.items():
            if i not in were_there:
                self._note_put_in(done, group, "")
        if len(self._buffer) > len(are_there):
            seen = Counter(map(id, self._buffer))
            for i in (i for i, count in seen.items() if count > 1):
                self._note_put_in(done, are_there[i], " a second time")

    def _note_put_in(self, done: ReplayRound, group: Any, how: str) -> None:
        number = self._number_of(group)
        what = f"group {number}" if is_group(group) else describe_value(group)
        self._note("RPL014", f"{what} was put into the buffer{how}", done, number)


def _place_in(entry: _Entry, outcome: Call) -> str:
    """The sample and field that hold an object which was looked at when it stopped."""
    samples = list(leaves(entry.group))
    for value in outcome.looked_at:
        if type(value) in ATOMS:
            continue
        for number, sample in enumerate(samples):
            if value is sample:
                return f", sample {number}"
            fields = getattr(sample, "__dict__", {}) if isinstance(sample, Sample) else {}
            for name, held in fields.items():
                if held is value:
                    return f", sample {number}: {name}"
    return ""


def _copy_args(args: Any) -> Any:
    """Settings of a trial's own, so that a filter that edits them does so for itself."""
    try:
        return copy.deepcopy(args)
    except Exception:  # something in them cannot be copied
        return args


def _are_equal_lists(one: list[Any], other: list[Any]) -> bool:
    try:
        return bool(one == other)
    except Exception:  # whatever comparing two different samples raises
        return False


def describe_error(error: BaseException) -> str:
    """An exception in a few words, whatever its own text may do."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be made)"
    return f"raised {type(error).__name__}: {text:.{_MESSAGE_LIMIT}}"


def _rewards(group: Any) -> list[Any]:
    return [plain_reward(getattr(sample, "reward", None)) for sample in leaves(group)]


def plain_reward(value: Any) -> Any:
    """A reward as plain data; what is not becomes text."""
    if isinstance(value, PlainScalar):
        value = value.tolist()
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, int | float):
        return float(value)  # a class that may be the filter's own
    if isinstance(value, dict):
        return {str(key): plain_reward(item) for key, item in value.items()}
    return _shown(value)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= _VALUE_LIMIT else text[: _VALUE_LIMIT - 1] + "…"
