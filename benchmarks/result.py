"""What a figure measured: timings, and how they stand to the targets."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Repeated measurements of one thing.

    Attributes:
        seconds: one for each repetition.
        peak_bytes: resident memory at its highest, one for each repetition; empty when it was
            not measured.
    """

    seconds: Sequence[float]
    peak_bytes: Sequence[int] = ()

    @property
    def median_seconds(self) -> float:
        """The median of the repetitions."""
        return statistics.median(self.seconds)

    @property
    def median_peak_bytes(self) -> float | None:
        """The median of the repetitions, None when memory was not measured."""
        return statistics.median(self.peak_bytes) if self.peak_bytes else None

    def to_dict(self) -> dict[str, Any]:
        """All numbers, for the JSON report."""
        return {
            "seconds": [round(value, 6) for value in self.seconds],
            "median_seconds": round(self.median_seconds, 6),
            "peak_bytes": list(self.peak_bytes),
            "median_peak_bytes": self.median_peak_bytes,
        }


@dataclass(frozen=True)
class Target:
    """A number that should not be above its limit.

    Attributes:
        what: what the number is, such as ``time / eager loader``.
        value: what was measured.
        limit: the highest value that is good.
        later: the limit we are heading for, None when it is the same.
        is_ratio: whether the number is a ratio; else it is a number of bytes.
    """

    what: str
    value: float
    limit: float
    later: float | None = None
    is_ratio: bool = True

    @property
    def is_reached(self) -> bool:
        """Whether the value is at most the limit."""
        return self.value <= self.limit

    def to_dict(self) -> dict[str, Any]:
        """All numbers, for the JSON report."""
        return {
            "what": self.what,
            "value": round(self.value, 6),
            "unit": "ratio" if self.is_ratio else "bytes",
            "limit": round(self.limit, 6),
            "later": None if self.later is None else round(self.later, 6),
            "reached": self.is_reached,
        }


@dataclass(frozen=True)
class Outcome:
    """One figure's result: ours beside its yardsticks.

    Attributes:
        ours: what this package takes.
        yardsticks: what other ways to do the same take, by name.
        targets: how the two stand.
        notes: what the reader should know about this measurement.
    """

    ours: Timing
    yardsticks: Mapping[str, Timing]
    targets: Sequence[Target]
    notes: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """All numbers, for the JSON report."""
        return {
            "ours": self.ours.to_dict(),
            "yardsticks": {name: timing.to_dict() for name, timing in self.yardsticks.items()},
            "targets": [target.to_dict() for target in self.targets],
            "notes": list(self.notes),
        }


def time_target(
    ours: Timing, yardstick: Timing, name: str, *, limit: float, later: float | None = None
) -> Target:
    """The target that our median time is at most `limit` of the yardstick's.

    Args:
        ours: our timing.
        yardstick: the timing to compare with.
        name: what the yardstick is called in the report.
        limit: the highest ratio that is good.
        later: the ratio we are heading for.
    """
    value = ours.median_seconds / yardstick.median_seconds
    return Target(f"time / {name}", value, limit, later)


def memory_target(ours: Timing, yardstick: Timing, name: str, *, limit: float) -> Target:
    """The target that our median peak of memory is at most `limit` of the yardstick's.

    Args:
        ours: our timing, with memory.
        yardstick: the timing to compare with, with memory.
        name: what the yardstick is called in the report.
        limit: the highest ratio that is good.
    """
    value = (ours.median_peak_bytes or 0) / max(yardstick.median_peak_bytes or 0, 1)
    return Target(f"memory / {name}", value, limit)
