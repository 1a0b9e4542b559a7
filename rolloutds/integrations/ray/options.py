"""What a shared source is told beside the run's settings."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from rolloutds.errors import ConfigError


@dataclass(frozen=True)
class SharedOptions:
    """How a shared source treats its workers.

    Attributes:
        max_in_flight_per_worker: groups that a worker may hold; None: any number.
        max_in_flight: groups that all of them may hold; None: any number.
        slow_after: seconds after which a worker that still holds a group is called slow.
        durable: whether every record of the journal is flushed to the disk.
        source: class inside, as ``module.Class``; None: `RolloutDataSourceWithBuffer`.

    Raises:
        ConfigError: a limit is no whole number from 1, or the time is negative.
    """

    max_in_flight_per_worker: int | None = None
    max_in_flight: int | None = None
    slow_after: float = 600.0
    durable: bool = False
    source: str | None = None

    def __post_init__(self) -> None:
        for name in ("max_in_flight_per_worker", "max_in_flight"):
            _check_limit(name, getattr(self, name))
        check_seconds("slow_after", self.slow_after)

    def has_own_room(self, num_held: int) -> bool:
        """Whether a worker may hold so many groups."""
        limit = self.max_in_flight_per_worker
        return limit is None or num_held <= limit

    def has_common_room(self, num_in_flight: int) -> bool:
        """Whether all workers together may hold so many."""
        return self.max_in_flight is None or num_in_flight <= self.max_in_flight

    @property
    def limits(self) -> str:
        """The limits there are, as an error shows them."""
        names = ("max_in_flight_per_worker", "max_in_flight")
        limits = [(name, getattr(self, name)) for name in names]
        return " and ".join(f"{name} {limit}" for name, limit in limits if limit is not None)

    @property
    def most_at_once(self) -> int | None:
        """Groups that one draw may ask for; None: any number."""
        limits = [self.max_in_flight_per_worker, self.max_in_flight]
        return min((limit for limit in limits if limit is not None), default=None)


def check_seconds(name: str, seconds: Any) -> None:
    """Checks a time.

    Raises:
        ConfigError: it is no number from 0.
    """
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise ConfigError(f"{seconds!r:.40}", where=name, expected="seconds, from 0")


def _check_limit(name: str, limit: Any) -> None:
    try:
        if limit is None or (limit is not True and operator.index(limit) >= 1):
            return
    except TypeError:
        pass
    raise ConfigError(f"{limit!r:.40}", where=name, expected="a whole number from 1, or None")
