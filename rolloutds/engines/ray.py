"""Tasks on a Ray cluster: one that is named, one this process has joined, or one started here.

The driver holds references and results. The first argument of the tasks is put into Ray's
object store once, and loaded once a worker process; buckets stay in the store.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rolloutds.engines.base import (
    TRIES_AGAIN,
    Done,
    Engine,
    Function,
    Lanes,
    Outcome,
    Partitions,
    attempt,
    in_order,
)
from rolloutds.errors import EngineError, MissingExtraError

_PATIENCE: Final = 10.0
_INLINE_BYTES: Final = 100 << 10


class RayEngine(Engine):
    """Tasks of one CPU each.

    Args:
        address: of the cluster to join; None: the one this process has joined, else the one that
            ``RAY_ADDRESS`` names, else one is started here, and ended when the engine is closed.
        num_tasks: tasks in flight; None: one a CPU the cluster has now.

    Raises:
        MissingExtraError: Ray is not installed.
        EngineError: the cluster cannot be joined.
    """

    def __init__(self, address: str | None = None, num_tasks: int | None = None) -> None:
        self._is_ours = _join(address)
        self.num_tasks = num_tasks or _num_cpus()

    def map(
        self,
        function: Function,
        items: Iterable[Any],
        *,
        common: Any = None,
        names: Iterable[str] | None = None,
        on_done: Done | None = None,
    ) -> Iterator[Any]:
        """Calls a function with each item."""
        lanes = _RayLanes(_submitter(_run_task, function, common))
        return in_order(lanes, self.num_tasks, items, names, on_done)

    def partitions(self, num_buckets: int) -> Partitions:
        """Buckets in the object store."""
        return _RayPartitions(self, num_buckets)

    def close(self) -> None:
        """Leaves the cluster, and ends it where it was started here."""
        import ray

        if self._is_ours:
            ray.shutdown()
            self._is_ours = False


def _join(address: str | None) -> bool:
    """Joins a cluster or starts one; returns whether this process has to leave it."""
    # Only for a cluster that starts here; a running one has its own settings.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # unset, Ray warns of it
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", extra="ray", needed_for="--engine ray") from None
    if ray.is_initialized():
        return False
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    own = {"include_dashboard": False} if address == "local" else {}
    try:
        knock(address)
        ray.init(address, log_to_driver=False, configure_logging=False, **own)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        said = str(error).partition("\n")[0]
        raise EngineError(
            f"the Ray cluster cannot be joined: {said}",
            where=address,
            hint="`ray status` on its head shows whether it runs; without --ray-address one is "
            "started here",
        ) from error
    return True


def knock(address: str) -> None:
    """Raises at once where nobody listens: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()


def _num_cpus() -> int:
    import ray

    return max(int(ray.cluster_resources().get("CPU", 1)), 1)


class _Shared:
    """The first argument of tasks, in the object store; a worker process loads it once."""

    def __init__(self, value: Any) -> None:
        import ray

        self._reference = ray.put(value)
        self._folder = str(Path.cwd())

    def load(self) -> Any:
        """The argument; from now on paths lead from the folder they do in the driver."""
        import ray

        key = self._reference.hex()
        if key not in _loaded:
            _loaded.clear()
            _loaded[key] = ray.get(self._reference)
            with contextlib.suppress(OSError):  # a node without it: whole paths are the same there
                os.chdir(self._folder)
        return _loaded[key]


_loaded: dict[str, Any] = {}


def _run_task(function: Function, shared: _Shared, item: Any) -> Outcome:
    return attempt(function, shared.load(), item)


def _split_task(function: Function, shared: _Shared, numbered: tuple[int, Any]) -> Any:
    """The outcome, and each bucket as a result of its own."""
    num_buckets, item = numbered
    outcome = attempt(function, shared.load(), item)
    if outcome.error is not None:
        return (outcome, *[None] * num_buckets)
    value, buckets = outcome.value
    return (Outcome(value), *map(_stored, buckets))


def _stored(bucket: Any) -> Any:
    """A bucket with what keeps it in the store: Ray hands smaller results to the driver."""
    size = memoryview(bucket).nbytes
    return bucket, bytes(_INLINE_BYTES if 0 < size <= _INLINE_BYTES else 0)


def _reduce_task(function: Function, shared: _Shared, *pieces: Any) -> Outcome:
    return attempt(function, shared.load(), [bucket for bucket, _ in pieces])


Submit = Callable[[Any], Any]


def _submitter(task: Callable[..., Any], function: Function, common: Any, **options: Any) -> Submit:
    """Submits an item: gives the reference of its outcome, and of its buckets."""
    import ray

    remote = ray.remote(task).options(max_retries=TRIES_AGAIN, **options)
    shared = _Shared(common)
    return lambda item: remote.remote(function, shared, item)


class _RayLanes(Lanes):
    """Submits tasks and waits for their outcomes, which stay in the cluster until taken."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._running: dict[Any, tuple[int, str]] = {}
        self._names: dict[int, str] = {}

    def start(self, number: int, name: str, item: Any) -> None:
        """Submits a task."""
        self._running[self._submit(item)] = number, name

    def wait(self) -> Sequence[tuple[int, Any]]:
        """Waits for one outcome, and gives all there are."""
        import ray

        references = list(self._running)
        ready, _ = ray.wait(references, num_returns=1, fetch_local=False)
        more, _ = ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)
        found = []
        for reference in dict.fromkeys([*ready, *more]):
            number, name = self._running.pop(reference)
            self._names[number] = name
            found.append((number, reference))
        return found

    def take(self, number: int, handle: Any) -> Outcome:
        """Fetches an outcome."""
        import ray

        name = self._names.pop(number)
        try:
            outcome: Outcome = ray.get(handle)
        except ray.exceptions.RayTaskError as error:  # outside of the function: our own bug
            return Outcome(None, error.cause)
        except ray.exceptions.RayError as error:
            return Outcome(None, _failed(name, error))
        return outcome

    def close(self) -> None:
        """Cancels what still runs."""
        import ray

        for reference in self._running if ray.is_initialized() else ():
            ray.cancel(reference, force=True)
        self._running.clear()


def _failed(name: str, error: Exception) -> EngineError:
    said = str(error).strip().partition("\n")[0]
    return EngineError(
        f"its task failed on the Ray cluster, tried again {TRIES_AGAIN} times: "
        f"{type(error).__name__}{f': {said}' if said else ''}",
        where=name,
        hint="the logs of the worker say more (`ray logs`); it may need more memory than its node "
        "has: try fewer --jobs",
    )


class _RayPartitions(Partitions):
    """Buckets in the object store: each a result of its task, so that Ray makes a lost one anew."""

    def __init__(self, engine: RayEngine, num_buckets: int) -> None:
        super().__init__(num_buckets)
        self._engine = engine
        self._pieces: dict[int, list[Any]] = {}

    def map(
        self,
        function: Function,
        items: Iterable[Any],
        *,
        common: Any = None,
        names: Iterable[str] | None = None,
        on_done: Done | None = None,
    ) -> Iterator[Any]:
        """Calls a function with each item."""
        submit = _submitter(_split_task, function, common, num_returns=1 + self.num_buckets)
        count = 0

        def submit_and_note(item: Any) -> Any:
            nonlocal count
            outcome, *pieces = submit((self.num_buckets, item))
            self._pieces[count] = pieces
            count += 1
            return outcome

        lanes = _RayLanes(submit_and_note)
        return in_order(lanes, self._engine.num_tasks, items, names, on_done)

    def reduce(self, function: Function, *, common: Any = None, name: str) -> Iterator[Any]:
        """Calls a function with each bucket."""
        import ray

        remote = ray.remote(_reduce_task).options(max_retries=TRIES_AGAIN)
        shared = _Shared(common)
        lanes = _RayLanes(lambda bucket: remote.remote(function, shared, *self._taken(bucket)))
        buckets = range(self.num_buckets)
        return in_order(lanes, self._engine.num_tasks, buckets, self.bucket_names(name), None)

    def _taken(self, bucket: int) -> list[Any]:
        """The references to the pieces of a bucket, which this process lets go of."""
        taken = []
        for pieces in self._pieces.values():
            taken.append(pieces[bucket])
            pieces[bucket] = None
        return taken

    def close(self) -> None:
        """Lets go of the buckets."""
        self._pieces = {}
