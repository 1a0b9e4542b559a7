"""The worker's side of a shared source: the plain source's methods, answered from elsewhere."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, Self

from rolloutds import buffer as buffer_rules
from rolloutds.config import DataSourceConfig
from rolloutds.cursor import Cursor
from rolloutds.errors import ConfigError, GroupError, RolloutDSError
from rolloutds.group_forms import first_sample
from rolloutds.in_flight import check_reason, identity_of
from rolloutds.integrations.ray import wire
from rolloutds.integrations.ray.errors import LeftError, SharedSourceError
from rolloutds.integrations.ray.options import check_seconds
from rolloutds.integrations.ray.wire import Claim
from rolloutds.integrations.ray.workers import Request
from rolloutds.sample import SampleGroup
from rolloutds.source import DataSource
from rolloutds.torch_file.pickled import collector_paused

_logger = logging.getLogger("rolloutds")
_ATTEMPTS: Final = 3


class Connection(Protocol):
    """A way to the shared source."""

    def call(self, method: str, *arguments: Any) -> Any:
        """What the source answers; its errors are raised here."""

    def tell(self, method: str, *arguments: Any) -> None:
        """Calls without waiting; it returns at once, wherever the collector interrupted."""

    def facts(self) -> dict[str, Any]:
        """`host`, `pid`, `node` and `lifeline` of this process."""


def process_facts() -> dict[str, Any]:
    """Where this process runs, with nobody who watches it."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "node": "", "lifeline": None}


class InFlightCounts:
    """How many groups are in flight, and how the others ended.

    Attributes:
        num_completed: groups completed.
        num_discarded: groups discarded, by reason.
    """

    def __init__(self, seen: dict[str, Any]) -> None:
        self._num_in_flight: int = seen["num_in_flight"]
        self.num_completed: int = seen["num_completed"]
        self.num_discarded: dict[str, int] = seen["num_discarded"]

    def __len__(self) -> int:
        return self._num_in_flight


class SharedClient(DataSource):
    """A data source whose groups come from one that several workers share.

    Args:
        args: the run's settings.
        connection: the way to it.
        worker: name that groups are drawn under; None: one that no other client has.
        timeout: seconds that a draw waits for room among the groups in flight; None: for ever.

    Attributes:
        args: the settings as they were given.
        config: the settings, checked.
        worker: name that groups are drawn under.
        timeout: seconds that a draw waits for room.
    """

    def __init__(
        self,
        args: Any,
        connection: Connection,
        *,
        worker: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self.args = args
        self.config = DataSourceConfig.from_args(args)
        self.timeout = _checked_timeout(timeout)
        self._connection = connection
        self._lock = threading.RLock()
        self._calls = _Calls()
        self._joined: set[str] = set()
        self._drawn = _Notes()
        self._given = _Notes()
        self._is_closed = False
        self.worker = _checked_name(worker) or self._calls.key
        self._leave = weakref.finalize(self, _tell_left, connection, self._calls)
        self._leave.atexit = False  # a process that ends is seen by its lifeline

    # --- calls ----------------------------------------------------------------------------

    def _ask(self, method: str, *arguments: Any) -> Any:
        """An answer that changes nothing."""
        self._require_open()
        return self._connection.call(method, *arguments)

    def _call(self, method: str, *arguments: Any) -> Any:
        """An answer to a request that changes something; made twice, it is answered alike."""
        self._require_open()
        with self._calls.request() as request:
            return self._connection.call(method, request, *arguments)

    def _require_open(self) -> None:
        if self._is_closed:
            raise SharedSourceError("it is closed", where=f"worker {self.worker!r}")

    def _as_worker(self, name: str | None, call: Callable[[str], Any]) -> Any:
        """Calls as a worker that has joined; one that was taken for dead joins again."""
        name = _checked_name(name) or self.worker
        for attempt in range(_ATTEMPTS):
            try:
                self._join(name)
                return call(name)
            except LeftError:
                if attempt + 1 == _ATTEMPTS:
                    raise
                self._start_over()
        raise AssertionError

    def _join(self, name: str) -> None:
        with self._lock:
            if name not in self._joined:
                facts = self._connection.facts()
                self._call("join", name, facts, self._calls.previous)
                self._joined.add(name)

    def _start_over(self) -> None:
        with self._lock:
            self._joined.clear()
            self._calls.start_over()

    # --- drawing --------------------------------------------------------------------------

    def get_samples(
        self,
        num_samples: int,
        rollout_id: int | None = None,
        *,
        worker: str | None = None,
        timeout: float | None = None,
    ) -> list[SampleGroup]:
        """The next groups, which nobody else gets; see `RolloutDataSourceWithBuffer.get_samples`.

        Args:
            num_samples: how many groups.
            rollout_id: the rollout they are for; the buffer filter receives it.
            worker: name they are drawn under; None: this client's.
            timeout: seconds to wait for room; None: this client's.

        Returns:
            Exactly `num_samples` groups, ``[num_samples, n_samples_per_prompt]``.

        Raises:
            CapacityError: there was no room in time; it says who holds what.
            ConfigError: `num_samples` is no whole number from 0, or more than the limits allow.
            SharedSourceError: the source cannot be reached, or another process took the name.
        """
        wait = _checked_timeout(self.timeout if timeout is None else timeout)
        groups: list[SampleGroup] = self._as_worker(
            worker, lambda name: self._draw(name, num_samples, rollout_id, wait)
        )
        return groups

    def _draw(self, *arguments: Any) -> list[SampleGroup]:
        self._require_open()
        with self._calls.request() as request:
            try:
                return self._received(self._connection.call("draw", request, *arguments))
            except RolloutDSError:
                raise
            except BaseException:  # Ctrl-C, mostly: nobody will ever have these groups
                with contextlib.suppress(Exception):
                    self._connection.call("abandon", request)
                raise

    def _received(self, reply: dict[str, Any]) -> list[SampleGroup]:
        with collector_paused():  # none of it is garbage
            groups: list[SampleGroup] = wire.unpacked(reply["groups"])
            for group, serial in zip(groups, reply["serials"] or (), strict=False):
                self._drawn.note(first_sample(group), serial)
        return groups

    # --- groups that come back ------------------------------------------------------------

    def add_samples(self, samples: list[SampleGroup], *, worker: str | None = None) -> None:
        """Puts groups in the buffer, all or none.

        Args:
            samples: groups of `n_samples_per_prompt` samples each; [] does nothing.
            worker: whose they are; None: this client's.

        Raises:
            GroupError: as the plain source, and for a group that the worker holds no more.
            UnsavableValueError: a value is not plain data.
        """
        if samples == []:
            return
        buffer_rules.check_groups(samples, self.config.n_samples_per_prompt)
        claims = self._claims(samples)
        self._check_not_given(samples)
        self._settling("add", samples, claims, worker)
        for sample in wire.samples_of(samples):
            self._given.note(sample, self.worker)

    def _check_not_given(self, groups: Sequence[SampleGroup]) -> None:
        for group in groups:
            if any(self._given.of(sample) for sample in wire.samples_of([group])):
                raise GroupError(
                    "given back, and it or one of its samples is in the buffer already",
                    where=f"group {identity_of(group).group_index}",
                    expected="each group once after every draw",
                    hint="nothing was added; what a draw gives is a new object",
                )

    def complete(self, groups: list[SampleGroup], *, worker: str | None = None) -> None:
        """Takes trained groups out of the ledger; only their numbers travel.

        Args:
            groups: the groups.
            worker: whose they are; None: this client's. A trainer settles for the worker that
                generated them.

        Raises:
            GroupError: one of them is not in flight with that worker; nothing is changed.
        """
        self._settle(groups, None, worker)

    def discard(self, groups: list[SampleGroup], reason: str, *, worker: str | None = None) -> None:
        """Takes rejected groups out of the ledger and counts them by `reason`.

        Args:
            groups: the groups.
            reason: why.
            worker: whose they are; None: this client's.

        Raises:
            GroupError: one of them is not in flight with that worker; nothing is changed.
        """
        check_reason(reason)
        self._settle(groups, reason, worker)

    def _settle(
        self, groups: Sequence[SampleGroup], reason: str | None, worker: str | None
    ) -> None:
        claims = self._claims(groups)
        if claims or not self.config.track_in_flight:
            self._settling("settle", claims, reason, worker)

    def _claims(self, groups: Sequence[SampleGroup]) -> list[Claim]:
        if not isinstance(groups, list | tuple):
            raise GroupError(f"{type(groups).__name__}", expected="a list of groups")
        return [Claim(identity_of(g), self._drawn.of(first_sample(g))) for g in groups]

    def _settling(self, method: str, *arguments: Any) -> None:
        """A client that was taken for dead has lost its groups: that is what it hears."""
        try:
            if not self._joined:
                self._join(self.worker)
            self._call(method, *arguments)
        except LeftError as error:
            raise GroupError(
                error.what,
                where=error.where,
                expected="groups that the worker still holds",
                hint="drop what was generated for them: another draw serves them again",
            ) from error

    # --- metadata -------------------------------------------------------------------------

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        """Adds to the free-form values saved with the state."""
        self._as_worker(None, lambda _: self._call("update_metadata", metadata))

    def get_metadata(self) -> dict[str, Any]:
        """A copy of the free-form values saved with the state."""
        metadata: dict[str, Any] = self._ask("metadata")
        return metadata

    # --- state ----------------------------------------------------------------------------

    def snapshot(self, rollout_id: int) -> None:
        """Pins the state as of that rollout, for a `save` that comes after later draws."""
        self._as_worker(None, lambda _: self._call("snapshot", rollout_id))

    def save(self, rollout_id: int) -> None:
        """Writes the run's checkpoint file of that rollout, as the plain source does."""
        self._as_worker(None, lambda _: self._call("save", rollout_id))

    def load(self, rollout_id: int | None = None) -> None:
        """Resumes from the checkpoint of that rollout; no worker holds a group any more."""
        self._as_worker(None, lambda _: self._call("load", rollout_id))
        if self.config.load is not None:
            self._forget_groups()

    def state_dict(self) -> dict[str, Any]:
        """The whole state as plain values, as the plain source gives it."""
        state: dict[str, Any] = self._ask("state_dict")
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over a state; no worker holds a group any more."""
        self._as_worker(None, lambda _: self._call("load_state_dict", state))
        self._forget_groups()

    def _forget_groups(self) -> None:
        self._drawn, self._given = _Notes(), _Notes()

    # --- what there is to see -------------------------------------------------------------

    def _look(self) -> dict[str, Any]:
        seen: dict[str, Any] = self._ask("look")
        return seen

    def stats(self) -> dict[str, Any]:
        """What the source and each worker stand at, as plain values; times in seconds."""
        stats: dict[str, Any] = self._ask("stats")
        return stats

    def __len__(self) -> int:
        """Prompts in the dataset, 0 without one."""
        num_rows: int = self._look()["num_rows"]
        return num_rows

    @property
    def cursor(self) -> Cursor:
        """The four numbers."""
        cursor: Cursor = self._look()["cursor"]
        return cursor

    @property
    def epoch_id(self) -> int:
        """Epoch the next group comes from."""
        return self.cursor.epoch_id

    @property
    def sample_offset(self) -> int:
        """Groups of that epoch already served."""
        return self.cursor.sample_offset

    @property
    def sample_group_index(self) -> int:
        """Index the next group gets."""
        return self.cursor.sample_group_index

    @property
    def sample_index(self) -> int:
        """Index the next sample gets."""
        return self.cursor.sample_index

    @property
    def metadata(self) -> dict[str, Any]:
        """A copy of the free-form values."""
        return self.get_metadata()

    @property
    def in_flight(self) -> InFlightCounts:
        """Counts of the ledger."""
        return InFlightCounts(self._look())

    @property
    def num_removed_not_returned(self) -> int:
        """Groups that filters removed from the buffer and did not return."""
        number: int = self._look()["num_removed_not_returned"]
        return number

    def get_buffer_length(self) -> int:
        """Groups waiting in the buffer."""
        length: int = self._look()["num_buffered"]
        return length

    @property
    def buffer_filter(self) -> Any:
        """Not to be had: the filter works where the buffer is.

        Raises:
            AttributeError: always; `buffer_filter_path` names the filter.
        """
        raise AttributeError("a shared source has its filter elsewhere: set buffer_filter_path")

    # --- the end --------------------------------------------------------------------------

    def close(self) -> None:
        """Leaves: what this client still holds is served to others first."""
        if not self._is_closed:
            self._leave.detach()
            with contextlib.suppress(SharedSourceError):  # it is gone, and its groups with it
                self._connection.call("leave", self._calls.key, _CLOSED)
            self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_CLOSED: Final = "it was closed"


def _checked_timeout(seconds: float | None) -> float | None:
    if seconds is not None:
        check_seconds("timeout", seconds)
    return seconds


def _checked_name(worker: str | None) -> str | None:
    if worker is not None and not isinstance(worker, str):
        raise ConfigError(f"{worker!r:.40}", where="worker", expected="text, or None")
    return worker


def _tell_left(connection: Connection, calls: _Calls) -> None:
    connection.tell("leave", calls.key, _CLOSED)


class _Calls:
    """Numbers the calls of a client, so that one made again is known."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.previous: str | None = None
        self._begin()

    def _begin(self) -> None:
        self.key = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._next = 0
        self._open: set[int] = set()

    def start_over(self) -> None:
        """Becomes another client."""
        with self._lock:
            self.previous = self.key
            self._begin()

    def request(self) -> _OpenCall:
        """The next request, open until it is answered."""
        with self._lock:
            number = self._next
            self._next += 1
            self._open.add(number)
            return _OpenCall(self, Request(self.key, number, min(self._open)))

    def answered(self, number: int) -> None:
        """That request needs no answer any more."""
        with self._lock:
            self._open.discard(number)


class _OpenCall:
    def __init__(self, calls: _Calls, request: Request) -> None:
        self._calls = calls
        self._request = request

    def __enter__(self) -> Request:
        return self._request

    def __exit__(self, *error: object) -> None:
        self._calls.answered(self._request.number)


class _Notes:
    """A value noted for an object, as long as that object is there."""

    def __init__(self) -> None:
        self._noted: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def note(self, key: Any, value: Any) -> None:
        """Notes a value; an object that cannot be watched is passed over."""
        noted, place = self._noted, id(key)
        try:
            noted[place] = (weakref.ref(key, lambda _: noted.pop(place, None)), value)
        except TypeError:
            return

    def of(self, key: Any) -> Any:
        """The value noted for this object, None without one."""
        reference, value = self._noted.get(id(key), (None, None))
        return value if reference is not None and reference() is key else None


def say(remarks: Iterable[tuple[int, str]]) -> None:
    """Repeats here what the source had to say."""
    for level, text in remarks:
        _logger.log(level, "%s", text)
