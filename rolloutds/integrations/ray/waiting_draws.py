"""Draws that wait for room among the groups in flight, and whose turn it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rolloutds.integrations.ray.errors import CapacityError
from rolloutds.integrations.ray.options import SharedOptions
from rolloutds.integrations.ray.workers import Request, Ticket, Worker

_NAMED: Final = 8


@dataclass(frozen=True)
class Asked:
    """A draw that was asked for and not served yet.

    Attributes:
        request: the call.
        worker: name it draws under.
        num_groups: groups it asks for.
        rollout_id: the rollout they are for.
    """

    request: Request
    worker: str
    num_groups: int
    rollout_id: int | None


class WaitingDraws:
    """The line of those who wait, in the order they came."""

    def __init__(self) -> None:
        self._asked: dict[Ticket, Asked] = {}

    def __iter__(self) -> Iterator[Asked]:
        return iter(self._asked.values())

    def __contains__(self, ticket: Ticket) -> bool:
        return ticket in self._asked

    def add(self, asked: Asked) -> None:
        """Takes a draw in, behind the others."""
        self._asked[asked.request.ticket] = asked

    def remove(self, ticket: Ticket) -> Asked | None:
        """Takes a draw out; None: it waits no more."""
        return self._asked.pop(ticket, None)

    def remove_all(self, is_removed: Callable[[Asked], bool]) -> list[Asked]:
        """Takes out those of a kind."""
        removed = [asked for asked in self if is_removed(asked)]
        for asked in removed:
            del self._asked[asked.request.ticket]
        return removed

    def ready(
        self, has_own_room: Callable[[Asked], bool], has_common_room: Callable[[Asked], bool]
    ) -> Iterator[Asked]:
        """Takes out whoever's turn it is: none passes another that waits for all.

        Args:
            has_own_room: whether the worker may hold so many more.
            has_common_room: whether all of them together may; asked after every turn.
        """
        is_full, blocked = False, set()
        for asked in list(self):
            if asked.worker in blocked:
                continue
            if not has_own_room(asked):
                blocked.add(asked.worker)
            elif is_full or not has_common_room(asked):
                is_full = True
            else:
                del self._asked[asked.request.ticket]
                yield asked


def no_room(
    asked: Asked, seconds: float, workers: Iterable[Worker], options: SharedOptions, now: float
) -> CapacityError:
    """The error of a draw that waited in vain.

    Args:
        asked: the draw.
        seconds: how long it waited.
        workers: everybody; those who hold groups are named.
        options: the limits.
        now: the time (Unix time, s).
    """
    holders = sorted((w for w in workers if w.held), key=lambda worker: -len(worker.held))
    shown = [
        f"{w.name!r} holds {len(w.held)} (the oldest for {w.oldest_age(now):.0f} s)"
        for w in holders[:_NAMED]
    ]
    if len(holders) > _NAMED:
        shown.append(f"{len(holders) - _NAMED} more workers hold others")
    return CapacityError(
        f"no room for {asked.num_groups} groups within {seconds:.0f} s: " + ", ".join(shown),
        where=f"worker {asked.worker!r}",
        expected=options.limits,
        hint="complete, discard or give back what was drawn, or raise the limit",
    )
