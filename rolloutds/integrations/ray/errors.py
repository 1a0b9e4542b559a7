"""What only a shared source can refuse."""

from __future__ import annotations

from rolloutds.errors import RolloutDSError


class SharedSourceError(RolloutDSError):
    """The shared source cannot be reached, or is not the one that this run means."""


class CapacityError(SharedSourceError, TimeoutError):
    """A draw waited for room among the groups in flight, and none came in time."""

    def __str__(self) -> str:
        return SharedSourceError.__str__(self)


class LeftError(SharedSourceError):
    """The worker is not one of the source's any more; it may join again."""
