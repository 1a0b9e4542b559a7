"""The cursor files of a folder in their order, and what is odd between one and the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from rolloutds.checkpoints.base import CursorFile, FoundFile, Position
from rolloutds.errors import RolloutDSError

OK, DAMAGED, FOREIGN = "ok", "damaged", "foreign"

_NAMED_IDS = 5


@dataclass(frozen=True)
class Entry:
    """One file of a listing.

    Attributes:
        found: the file, with the id in its name.
        state: ``ok``, ``damaged`` (it cannot be read) or ``foreign`` (it holds no cursor).
        file: what was read; None unless it is ok.
        error: why it was not.
        num_bytes: its size; None when it has gone.
        modified: time of its last change, in seconds since 1970; None when it has gone.
        num_groups: groups served since the previous good file; None for the first one.
        marks: what is odd between the previous good file and this one.
    """

    found: FoundFile
    state: str
    file: CursorFile | None = None
    error: RolloutDSError | None = None
    num_bytes: int | None = None
    modified: float | None = None
    num_groups: int | None = None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Listing:
    """The cursor files of a folder.

    Attributes:
        folder: the folder.
        entries: one a file, by ascending id.
        groups_per_rollout: the batch that explains most steps; None when none does.
        notes: what is to be known about the whole.
    """

    folder: Path
    entries: Sequence[Entry]
    groups_per_rollout: Fraction | None = None
    notes: Sequence[str] = field(default=())

    @property
    def newest_good(self) -> Entry | None:
        """The last entry that can be used."""
        return next((entry for entry in reversed(self.entries) if entry.state == OK), None)

    @property
    def newer_bad(self) -> list[Entry]:
        """Entries after the newest good one."""
        bad: list[Entry] = []
        for entry in reversed(self.entries):
            if entry.state == OK:
                break
            bad.insert(0, entry)
        return bad


@dataclass(frozen=True)
class _Step:
    """From one good file to the next."""

    index: int
    num_rollouts: int
    num_groups: int
    num_settled: int

    @property
    def rate(self) -> Fraction:
        return Fraction(self.num_settled, self.num_rollouts)


def make_listing(folder: Path, entries: Sequence[Entry]) -> Listing:
    """Puts files in order and marks gaps, jumps, and numbers that go back.

    Args:
        folder: the folder.
        entries: the files as they were read, layout by layout.
    """
    marked: list[Entry] = []
    notes: list[str] = []
    rate: Fraction | None = None
    for layout in dict.fromkeys(entry.found.layout for entry in entries):
        series = [entry for entry in entries if entry.found.layout == layout]
        done, series_rate, series_notes = _mark(series)
        marked += done
        notes += series_notes
        rate = rate if rate is not None else series_rate
    return Listing(folder, marked, rate, notes)


def _mark(series: list[Entry]) -> tuple[list[Entry], Fraction | None, list[str]]:
    steps = _steps(series)
    counted = {step.index: step.num_groups for step in steps}
    marks: dict[int, list[str]] = {index: [] for index in range(len(series))}
    rate, notes = _usual_rate([step for step in steps if step.num_groups >= 0])
    for step in steps:
        marks[step.index] += _step_marks(step, rate)
    for index, text in [*_gaps(series), *_changed_lengths(series)]:
        marks[index].append(text)
    done = [
        replace(entry, num_groups=counted.get(index), marks=tuple(marks[index]))
        for index, entry in enumerate(series)
    ]
    return done, rate, notes


def _steps(series: Sequence[Entry]) -> list[_Step]:
    steps = []
    previous: Entry | None = None
    for index, entry in enumerate(series):
        if entry.file is None or entry.found.rollout_id is None:
            continue
        if previous is not None:
            rollouts = entry.found.rollout_id - (previous.found.rollout_id or 0)
            between = _between(previous.file, entry.file) if previous.file else None
            if between is not None and rollouts > 0:
                steps.append(_Step(index, rollouts, *between))
        previous = entry
    return steps


def _between(before: CursorFile, now: CursorFile) -> tuple[int, int] | None:
    """Groups drawn from the dataset, and those of them that are neither waiting nor rejected."""
    old, new = before.position, now.position
    if old.num_groups is not None and new.num_groups is not None:
        return new.num_groups - old.num_groups, _settled(new) - _settled(old)
    is_one_epoch = old.order_key is not None and old.order_key == new.order_key
    if is_one_epoch and old.offset is not None and new.offset is not None:
        return new.offset - old.offset, new.offset - old.offset
    return None


def _settled(position: Position) -> int:
    waiting = (position.num_buffered or 0) + (position.num_in_flight or 0)
    return (position.num_groups or 0) - waiting - (position.num_discarded or 0)


def _usual_rate(steps: Sequence[_Step]) -> tuple[Fraction | None, list[str]]:
    """Groups a rollout in most steps; nothing is usual when every step has its own."""
    rates = Counter(step.rate for step in steps)
    if not rates:
        return None, []
    most = max(rates.values())
    usual = min(rate for rate, count in rates.items() if count == most)
    if len(steps) > 2 and 2 * most < len(steps):
        low, high = min(rates), max(rates)
        text = (
            f"groups a rollout vary from {number_text(low)} to {number_text(high)}, as with "
            "over-sampling or dynamic filtering: jumps cannot be told from the numbers"
        )
        return None, [text]
    return usual, []


def _step_marks(step: _Step, rate: Fraction | None) -> list[str]:
    if step.num_groups < 0:
        return [f"goes back {-step.num_groups:,} groups"]
    if rate is None or step.rate == rate:
        return []
    expected = rate * step.num_rollouts
    rollouts = f"{step.num_rollouts:,} rollouts of {number_text(rate)}"
    if step.num_rollouts == 1:
        rollouts = f"a rollout of {number_text(rate)}"
    word = "jump" if step.num_settled > expected else "short"
    return [f"{word}: {step.num_settled:,} groups, {rollouts} make {number_text(expected)}"]


def number_text(number: Fraction) -> str:
    """A number of groups: whole where it is."""
    return f"{number.numerator:,}" if number.denominator == 1 else f"{float(number):,.1f}"


def _gaps(series: Sequence[Entry]) -> list[tuple[int, str]]:
    """Ids that the usual distance between two files says are missing."""
    ids = [entry.found.rollout_id for entry in series]
    between = [
        (index, before, now)
        for index, (before, now) in enumerate(pairwise(ids), start=1)
        if before is not None and now is not None and now > before
    ]
    distances = Counter(now - before for _, before, now in between)
    if len(between) < 2:
        return []
    most = max(distances.values())
    usual = min(distance for distance, count in distances.items() if count == most)
    if len(between) > 2 and 2 * most < len(between):
        return []
    return [
        (index, _gap_text(before, now, usual))
        for index, before, now in between
        if now - before > usual
    ]


def _gap_text(before: int, now: int, usual: int) -> str:
    missing = range(before + usual, now, usual)
    if len(missing) == 1:
        return f"gap: {missing[0]} is missing"
    if len(missing) <= _NAMED_IDS:
        return f"gap: {', '.join(map(str, missing))} are missing"
    return f"gap: {missing[0]} to {missing[-1]} are missing ({len(missing):,} files)"


def _changed_lengths(series: Sequence[Entry]) -> list[tuple[int, str]]:
    """Where the rows of an epoch become others: the dataset changed under the run."""
    found = []
    previous: int | None = None
    for index, entry in enumerate(series):
        rows = entry.file.position.num_rows if entry.file else None
        if rows is not None and previous is not None and rows != previous:
            found.append((index, f"epochs of {rows:,} rows, {previous:,} before"))
        previous = rows if rows is not None else previous
    return found
