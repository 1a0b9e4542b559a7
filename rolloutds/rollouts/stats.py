"""Figures over the groups of files: counts, rewards, lengths, statuses, weight versions."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rolloutds.reward_numbers import mean, spread
from rolloutds.rollouts.base import ReadGroup
from rolloutds.rollouts.group_facts import PLAIN, GroupFacts, facts_of
from rolloutds.row_keys import MISSING, lookup

NUM_BINS = 10
MAX_PARTS = 200
"""Different values of ``--by`` that are kept apart."""

OTHER_PARTS = "(others)"
NO_VALUE = "(none)"
_VALUE_LIMIT = 60


class Bin(NamedTuple):
    """Numbers from `low` up to `high` (which the last bin includes), or equal to both."""

    low: float
    high: float
    num: int


class Numbers:
    """Numbers of which mean, percentiles and histogram are wanted: eight bytes each."""

    def __init__(self) -> None:
        self._values = array("d")
        self.num_missing = 0

    def add(self, numbers: Iterable[float | None]) -> None:
        """Adds numbers; None, NaN and infinities count as missing."""
        for number in numbers:
            if number is None or not math.isfinite(number):
                self.num_missing += 1
            else:
                self._values.append(number)

    def merge(self, other: Numbers) -> None:
        """Adds all of another."""
        self._values.extend(other._values)
        self.num_missing += other.num_missing

    def __len__(self) -> int:
        return len(self._values)

    @property
    def mean(self) -> float | None:
        """Their mean; None of none."""
        return mean(self._values)

    @property
    def std(self) -> float | None:
        """Their standard deviation."""
        return spread(self._values)

    def percentiles(self, *shares: float) -> list[float]:
        """For each share (0 to 1) the number that so many are at or below; [] of none."""
        ordered = sorted(self._values)
        if not ordered:
            return []
        return [ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in shares]

    def histogram(self) -> list[Bin]:
        """A bin for each different number where there are few, else ten of equal width."""
        counts = Counter(self._values)
        if len(counts) <= NUM_BINS:
            return [Bin(value, value, counts[value]) for value in sorted(counts)]
        low, high = min(counts), max(counts)
        if math.isinf(high - low):  # too far apart for a float: half as far, then twice as far
            halves = Numbers()
            halves.add(value / 2 for value in self._values)
            return [
                Bin(2 * part.low, min(2 * part.high, high), part.num) for part in halves.histogram()
            ]
        width = (high - low) / NUM_BINS
        bins = [0] * NUM_BINS
        for value, count in counts.items():
            bins[min(int((value - low) / width), NUM_BINS - 1)] += count
        return [Bin(low + i * width, low + (i + 1) * width, n) for i, n in enumerate(bins)]


@dataclass
class Tally:
    """What is counted of some groups.

    Attributes:
        num_groups: groups.
        num_samples: samples.
        sizes: groups of each size.
        statuses: samples of each status.
        rewards: for each reward key (`PLAIN`: the reward itself) the samples' numbers.
        num_odd_rewards: rewards that are no numbers.
        num_rewarded: groups with at least one reward that is one number.
        same_rewards: groups whose rewards are all the same, by that reward.
        num_aborted_groups: groups with an aborted sample.
        lengths: response lengths in tokens.
        characters: response lengths in characters.
        versions: groups for each weight version that generated a part of them.
        version_spreads: groups by how many versions lie between their oldest and newest.
        num_removed: samples left out of the loss.
    """

    num_groups: int = 0
    num_samples: int = 0
    sizes: Counter[int] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    rewards: dict[str, Numbers] = field(default_factory=dict)
    num_odd_rewards: int = 0
    num_rewarded: int = 0
    same_rewards: Counter[float] = field(default_factory=Counter)
    num_aborted_groups: int = 0
    lengths: Numbers = field(default_factory=Numbers)
    characters: Numbers = field(default_factory=Numbers)
    versions: Counter[int] = field(default_factory=Counter)
    version_spreads: Counter[int] = field(default_factory=Counter)
    num_removed: int = 0

    def add(self, facts: GroupFacts) -> None:
        """Counts a group."""
        self.num_groups += 1
        self.num_samples += facts.num_samples
        self.sizes[facts.size] += 1
        self.statuses.update(facts.statuses)
        for key, numbers in facts.rewards.items():
            self.rewards.setdefault(key, Numbers()).add(numbers)
        self.num_odd_rewards += facts.num_odd_rewards
        self._add_spread([n for n in facts.plain_rewards if n is not None])
        self.num_aborted_groups += bool(facts.statuses["aborted"])
        self.lengths.add(facts.lengths)
        self.characters.add(facts.characters)
        self.versions.update(facts.versions)
        if facts.versions:
            self.version_spreads[facts.versions[-1] - facts.versions[0]] += 1
        self.num_removed += facts.num_removed

    def _add_spread(self, rewards: list[float]) -> None:
        self.num_rewarded += bool(rewards)
        if rewards and len(set(rewards)) == 1:
            self.same_rewards[rewards[0]] += 1

    def merge(self, other: Tally) -> None:
        """Adds all of another."""
        for name in ("num_groups", "num_samples", "num_odd_rewards", "num_rewarded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.num_aborted_groups += other.num_aborted_groups
        self.num_removed += other.num_removed
        for name in ("sizes", "statuses", "same_rewards", "versions", "version_spreads"):
            getattr(self, name).update(getattr(other, name))
        for key, numbers in other.rewards.items():
            self.rewards.setdefault(key, Numbers()).merge(numbers)
        self.lengths.merge(other.lengths)
        self.characters.merge(other.characters)

    @property
    def plain_rewards(self) -> Numbers:
        """The rewards that are one number."""
        return self.rewards.get(PLAIN, Numbers())

    @property
    def reward_keys(self) -> list[str]:
        """Keys of rewards that are objects, none of which was picked."""
        return [key for key in self.rewards if key != PLAIN]

    @property
    def num_zero_spread(self) -> int:
        """Groups whose rewards are all the same."""
        return self.same_rewards.total()

    def num_all(self, reward: float | None) -> int:
        """Groups all of whose rewards are this one."""
        return 0 if reward is None else self.same_rewards[reward]

    def share(self, status: str) -> float | None:
        """The share of samples with that status."""
        return self.statuses[status] / self.num_samples if self.num_samples else None


@dataclass
class DumpStats:
    """The figures of one file.

    Attributes:
        file: its path.
        rollout_id: of its first group that has one.
        is_eval: whether its first group is of an evaluation.
        tally: the figures.
    """

    file: str
    rollout_id: int | None
    is_eval: bool
    tally: Tally = field(default_factory=Tally)


@dataclass
class Stats:
    """The figures of all files, of each file, and of each part.

    Attributes:
        dumps: of each file, in the order of rollout ids.
        parts: of each value of the field that splits them; empty when none does.
    """

    dumps: list[DumpStats]
    parts: dict[str, Tally]

    @property
    def total(self) -> Tally:
        """Everything together."""
        total = Tally()
        for dump in self.dumps:
            total.merge(dump.tally)
        return total

    def merge(self, later: Stats) -> None:
        """Adds those of files that come later and are none of these; `sort` when all are there."""
        self.dumps += later.dumps
        for name, tally in later.parts.items():
            self.part(name, MAX_PARTS).merge(tally)

    def sort(self) -> None:
        """Puts the files in the order of their rollouts."""
        self.dumps.sort(key=_by_rollout)

    def part(self, name: str, max_parts: int) -> Tally:
        """The figures of a part; those of the others once there are many."""
        if name not in self.parts and len(self.parts) >= max_parts:
            name = OTHER_PARTS
        return self.parts.setdefault(name, Tally())


def stats_of(
    groups: Iterable[ReadGroup],
    *,
    reward_key: str | None = None,
    by: str | None = None,
    max_parts: int = MAX_PARTS,
) -> Stats:
    """The figures of groups, which are let go of one by one.

    Args:
        groups: the groups, file after file.
        reward_key: picks the number from rewards that are objects.
        by: field of a group's first sample that splits it, as ``metadata.source``.
        max_parts: different values of it that are kept apart.
    """
    dumps: dict[str, DumpStats] = {}
    stats = Stats([], {})
    for group in groups:
        # No position: `enumerate` would hold on to the group while the next one is read.
        facts = facts_of(group, 0, reward_key)
        file = group.place.file
        if file not in dumps:
            dumps[file] = DumpStats(file, group.rollout_id, group.is_eval)
        dump = dumps[file]
        dump.rollout_id = group.rollout_id if dump.rollout_id is None else dump.rollout_id
        dump.tally.add(facts)
        if by is not None:
            stats.part(value_of(group, by), max_parts).add(facts)
        del group  # or it would live on while the next one is read
    stats.dumps = list(dumps.values())
    stats.sort()
    return stats


def _by_rollout(dump: DumpStats) -> tuple[bool, bool, int]:
    return dump.is_eval, dump.rollout_id is None, dump.rollout_id or 0


def value_of(group: ReadGroup, path: str) -> str:
    """A field of a group's first sample as text; a dot goes into objects."""
    name, _, rest = path.partition(".")
    fields: Mapping[str, Any] = group.samples[0].__dict__
    value = fields.get(path, fields.get(name, MISSING) if not rest else MISSING)
    if value is MISSING and isinstance(fields.get(name), Mapping):
        value = lookup(fields[name], rest)
    if value is MISSING or value is None:
        return NO_VALUE
    value = getattr(value, "value", value)
    return f"{value!s:.{_VALUE_LIMIT}}"


def iter_facts(groups: Iterable[ReadGroup], reward_key: str | None) -> Iterator[GroupFacts]:
    """The figures of each group, which are let go of one by one."""
    position = 0
    for group in groups:
        facts = facts_of(group, position, reward_key)
        del group
        yield facts
        position += 1  # noqa: SIM113 - `enumerate` would hold on to the group
