"""Who draws from a shared source: the processes, and the workers that they draw for."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, NamedTuple

from rolloutds.in_flight import Identity

_DURATIONS_KEPT: Final = 256


Ticket = tuple[str, int]
"""A call: the client's key and the number it gave it."""


class Request(NamedTuple):
    """One call of a client; the same call made again has the same numbers.

    Attributes:
        client: key of the client.
        number: of this call, counted by the client.
        answered_below: the client has the answers to all calls before this one.
    """

    client: str
    number: int
    answered_below: int = 0

    @property
    def ticket(self) -> Ticket:
        """The call, however often it is made."""
        return self.client, self.number


@dataclass
class Client:
    """A client: a `SharedDataSource` in some process.

    Attributes:
        key: its key, unlike that of any other.
        host: machine it runs on.
        pid: its process there.
        node: Ray's id of the machine; "" without Ray.
        lifeline: name of the actor that ends when the process does; None: nobody watches.
        is_alive: whether it may draw and settle.
        why_left: what became of it, when it is not.
        lost: groups it held once and holds no more, and why.
        replies: answers that it may not have had yet, by the number of the call.
        answered_below: it has had the answers to all calls before this one.
    """

    key: str
    host: str = ""
    pid: int = 0
    node: str = ""
    lifeline: str | None = None
    is_alive: bool = True
    why_left: str | None = None
    lost: dict[Identity, str] = field(default_factory=dict)
    replies: dict[int, Any] = field(default_factory=dict)
    answered_below: int = 0

    @property
    def place(self) -> str:
        """Machine and process."""
        return f"{self.host}:{self.pid}"

    def forget_replies(self, below: int) -> None:
        """Drops the answers that have arrived."""
        self.answered_below = max(self.answered_below, below)
        for number in [n for n in self.replies if n < below]:
            del self.replies[number]

    def whereabouts(self) -> dict[str, Any]:
        """Where it runs and what became of it, for `stats`."""
        names = ("host", "pid", "node", "is_alive", "why_left")
        return {name: getattr(self, name) for name in names}

    def state_dict(self) -> dict[str, Any]:
        """Plain values, without the replies."""
        own = {name: value for name, value in vars(self).items() if name != "replies"}
        return own | {"lost": [[*identity, why] for identity, why in self.lost.items()]}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Client:
        """The client whose state that is."""
        client = cls(**{name: value for name, value in state.items() if name != "lost"})
        client.lost = {Identity(*identity): why for *identity, why in state["lost"]}
        return client


@dataclass
class Worker:
    """A name that groups are drawn under, with what it has done.

    Attributes:
        name: the name.
        client: key of the client that draws under it.
        held: groups in flight with it: serial number, and when they were drawn (Unix time, s).
        last_call: when it was last heard of (Unix time, s).
        num_draws: draws answered.
        num_drawn: groups drawn.
        num_completed: groups completed.
        num_discarded: groups discarded.
        num_returned: groups given back to the buffer.
        num_requeued: groups taken from it because it died, left, or a state was loaded.
        durations: seconds from draw to settlement of the last groups.
    """

    name: str
    client: str
    held: dict[int, float] = field(default_factory=dict)
    last_call: float = 0.0
    num_draws: int = 0
    num_drawn: int = 0
    num_completed: int = 0
    num_discarded: int = 0
    num_returned: int = 0
    num_requeued: int = 0
    durations: deque[float] = field(default_factory=lambda: deque(maxlen=_DURATIONS_KEPT))

    def take(self, serials: range, now: float) -> None:
        """It was handed these groups."""
        self.held.update(dict.fromkeys(serials, now))
        self.last_call = now

    def settle(self, serial: int, now: float) -> None:
        """It is done with a group."""
        self.durations.append(max(now - self.held.pop(serial), 0.0))
        self.last_call = now

    def oldest_age(self, now: float) -> float | None:
        """Seconds since the draw of the group that it holds longest; None: it holds none."""
        return max(now - min(self.held.values()), 0.0) if self.held else None

    @property
    def median_seconds(self) -> float | None:
        """Seconds from draw to settlement, the median of the last groups; None: none yet."""
        return median(self.durations) if self.durations else None

    def stats(self, now: float, slow_after: float) -> dict[str, Any]:
        """What it holds and has done, for `stats`; times in seconds.

        Args:
            now: the time (Unix time, s).
            slow_after: age of a group that makes it slow.
        """
        oldest = self.oldest_age(now)
        names = ("draws", "drawn", "completed", "discarded", "returned", "requeued")
        return {
            "name": self.name,
            "is_slow": oldest is not None and oldest > slow_after,
            "num_in_flight": len(self.held),
            **{f"num_{name}": getattr(self, f"num_{name}") for name in names},
            "oldest_seconds": oldest,
            "median_seconds": self.median_seconds,
            "last_call_seconds": max(now - self.last_call, 0.0),
        }

    def state_dict(self) -> dict[str, Any]:
        """Plain values."""
        held = [list(pair) for pair in self.held.items()]
        return vars(self) | {"held": held, "durations": list(self.durations)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Worker:
        """The worker whose state that is."""
        worker = cls(**(dict(state) | {"held": {}, "durations": deque(maxlen=_DURATIONS_KEPT)}))
        worker.held = dict(state["held"])
        worker.durations.extend(state["durations"])
        return worker
