"""`SharedDataSource`: one order, drawn from by every worker of a Ray cluster."""

from __future__ import annotations

import copy
import dataclasses
import functools
import logging
import os
import queue
import re
import threading
import uuid
from pathlib import Path
from typing import Any, Final

from rolloutds.config import DataSourceConfig
from rolloutds.errors import ConfigError, MissingExtraError, RolloutDSError
from rolloutds.integrations.ray.actor import MAX_CALLS, Setup, SourceActor
from rolloutds.integrations.ray.client import SharedClient, process_facts, say
from rolloutds.integrations.ray.errors import SharedSourceError
from rolloutds.integrations.ray.lifelines import lifeline
from rolloutds.integrations.ray.options import SharedOptions

_logger = logging.getLogger("rolloutds")

NAME: Final = "rolloutds"
"""Name of the actor, and of the namespace that it is in, unless told otherwise."""

_PATHS: Final = ("prompt_data", "save", "load", "dump_details")


class RayConnection:
    """The way to the actor of a shared source.

    Args:
        actor: its handle.
        name: its name.
        namespace: the namespace it is in.
    """

    def __init__(self, actor: Any, name: str, namespace: str) -> None:
        self._actor = actor
        self._name = name
        self._namespace = namespace
        _errands()  # its thread is not started by the collector

    def call(self, method: str, *arguments: Any) -> Any:
        """What the actor answers; its errors are raised here, as themselves.

        Raises:
            SharedSourceError: the actor is gone for good.
        """
        import ray

        try:
            error, result, remarks = ray.get(self._actor.call.remote(method, *arguments))
        except ray.exceptions.RayActorError as gone:
            raise SharedSourceError(
                f"the actor is gone ({type(gone).__name__})",
                where=f"shared source {self._name!r}",
                hint="make a new SharedDataSource, and load the last checkpoint",
            ) from gone
        say(remarks)
        if error is not None:
            raise error
        return result

    def tell(self, method: str, *arguments: Any) -> None:
        """Calls without waiting for an answer; it may be in the middle of anything."""
        _errands().put((self._actor, method, arguments))

    def facts(self) -> dict[str, Any]:
        """Where this process runs, and the name of its lifeline."""
        import ray

        node = ray.get_runtime_context().get_node_id()
        return process_facts() | {"node": node, "lifeline": lifeline(self._namespace)}

    def kill(self) -> None:
        """Ends the actor; it is not restarted."""
        import ray

        ray.kill(self._actor, no_restart=True)


@functools.cache
def _errands() -> queue.SimpleQueue[Any]:
    """Calls that nobody waits for: the collector asks for them, maybe in the middle of Ray's."""
    errands: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_run_errands, args=(errands,), name="rolloutds", daemon=True).start()
    return errands


def _run_errands(errands: queue.SimpleQueue[Any]) -> None:
    import ray

    while True:
        actor, method, arguments = errands.get()
        if ray.is_initialized():
            try:
                actor.call.remote(method, *arguments)
            except Exception as error:  # whatever Ray raises while it ends
                _logger.debug("%s was not said: %s", method, error)


class SharedDataSource(SharedClient):
    """A data source that several processes of a Ray cluster share: each group goes to one of them.

    The first one made under a name starts the source, in an actor of its own; the others join it.
    Groups that a process holds when it dies come back to the front. The actor keeps a journal: one
    that dies is started again by Ray, and goes on where it was.

    It may be pickled. A copy in another process is another worker, unless `worker` names it: a
    name belongs to the one that joined under it last.

    Args:
        args: any object with the run's settings. Groups in flight are tracked unless it says
            ``track_in_flight=False``.
        name: name of the shared source.
        namespace: Ray's namespace it is in.
        worker: name of this worker; None: one that no other has.
        state_folder: where the journal lies; every machine that the actor may be restarted on
            must see it. None: the folder ``shared`` in `save`.
        max_in_flight_per_worker: groups that a worker may hold; a draw beyond waits.
        max_in_flight: groups that all workers may hold together; a draw beyond waits.
        slow_after: seconds after which a worker that still holds a group is called slow.
        timeout: seconds that a draw waits for room; None: for ever.
        durable: flush every record of the journal to the disk. Without it a killed process loses
            nothing, and a machine that fails may lose the last moments.
        source: class inside, as ``module.Class``; None: `RolloutDataSourceWithBuffer`.
        detached: the actor lives on when the process that made it ends; call `shut_down` at the
            end of the run.

    Raises:
        MissingExtraError: Ray is not installed.
        SharedSourceError: Ray is not running, or the source that runs has other settings.
        ConfigError: a setting is wrong, or there is no folder for the journal.
        DataError: the prompt data cannot be used.
    """

    def __init__(
        self,
        args: Any,
        *,
        name: str = NAME,
        namespace: str | None = None,
        worker: str | None = None,
        state_folder: str | os.PathLike[str] | None = None,
        max_in_flight_per_worker: int | None = None,
        max_in_flight: int | None = None,
        slow_after: float = 600.0,
        timeout: float | None = None,
        durable: bool = False,
        source: str | None = None,
        detached: bool = True,
    ) -> None:
        self._made_with = {
            "name": name,
            "namespace": namespace,
            "worker": worker,
            "state_folder": _absolute(state_folder),
            "max_in_flight_per_worker": max_in_flight_per_worker,
            "max_in_flight": max_in_flight,
            "slow_after": slow_after,
            "timeout": timeout,
            "durable": durable,
            "source": source,
            "detached": detached,
        }
        self.name = name
        options = SharedOptions(
            max_in_flight_per_worker, max_in_flight, slow_after, durable, source
        )
        tracked = _tracked(args)
        setup = _setup(tracked, options, name, namespace or NAME, state_folder)
        self._ray = _met(setup, name, detached=detached)
        super().__init__(tracked, self._ray, worker=worker, timeout=timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (type(self), self.args, self._made_with)

    def stats(self) -> dict[str, Any]:
        """What the source and each worker stand at, as plain values; times in seconds."""
        return {"name": self.name, "namespace": self._made_with["namespace"] or NAME} | (
            super().stats()
        )

    def shut_down(self) -> None:
        """Ends the shared source for every worker, and removes its journal."""
        if self._is_closed:
            return
        self._leave.detach()
        try:
            self._connection.call("end")
        finally:
            self._ray.kill()
            self._is_closed = True


def _made_again(cls: type[SharedDataSource], args: Any, made_with: dict[str, Any]) -> Any:
    source = cls.__new__(cls)
    SharedDataSource.__init__(source, args, **made_with)  # one that derives may take less
    return source


def _tracked(args: Any) -> Any:
    """The settings with groups in flight tracked, unless they say no, and whole paths."""
    changes: dict[str, Any] = {
        name: _absolute(value)
        for name in _PATHS
        if (value := getattr(args, name, None)) is not None
    }
    if not hasattr(args, "track_in_flight"):
        changes["track_in_flight"] = True
    if isinstance(args, DataSourceConfig):
        return dataclasses.replace(args, **changes)
    changed = copy.copy(args)
    for name, value in changes.items():
        try:
            setattr(changed, name, value)
        except AttributeError:  # a frozen dataclass
            object.__setattr__(changed, name, value)
    return changed


def _absolute(path: Any) -> Any:
    # The actor has a working folder of its own.
    if not isinstance(path, str | os.PathLike) or "://" in str(path):
        return path
    return os.path.abspath(Path(path).expanduser())  # noqa: PTH100 - it need not exist


def _setup(
    args: Any,
    options: SharedOptions,
    name: str,
    namespace: str,
    folder: str | os.PathLike[str] | None,
) -> Setup:
    save = DataSourceConfig.from_args(args).save
    if folder is None and save is None:
        raise ConfigError(
            "is not set, and `save` is not either",
            where="state_folder",
            expected="a folder for the journal of the shared source",
            hint="on storage that every machine sees",
        )
    found = folder if folder is not None else f"{save}/shared"
    run = f"{_file_name(name)}-{uuid.uuid4().hex[:12]}"
    return Setup(args, options, str(_absolute(found)), run, namespace)


def _file_name(name: str) -> str:
    """A name as a part of a file's."""
    return re.sub(r"[^\w.-]", "_", name)[:100]


def _met(setup: Setup, name: str, *, detached: bool) -> RayConnection:
    """The way to the shared source of that name, which is started if there is none."""
    ray = _running_ray()
    actor = (
        ray.remote(SourceActor)
        .options(
            name=name,
            namespace=setup.namespace,
            get_if_exists=True,
            lifetime="detached" if detached else None,
            num_cpus=0,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=MAX_CALLS,
        )
        .remote(setup)
    )
    if not hasattr(actor, "call"):
        raise SharedSourceError(
            "an actor of another kind has this name",
            where=f"shared source {name!r} in namespace {setup.namespace!r}",
            hint="give the shared source another name",
        )
    connection = RayConnection(actor, name, setup.namespace)
    try:
        connection.call("meet", setup)
    except SharedSourceError as error:
        error.where = error.where or f"shared source {name!r}"
        raise
    except RolloutDSError:
        if connection.call("is_stillborn"):
            connection.kill()  # it would stay in the way of one with better settings
        raise
    return connection


def _running_ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("ray", extra="ray", needed_for="a shared data source") from error
    if not ray.is_initialized():
        raise SharedSourceError(
            "Ray is not running in this process", hint="call ray.init(address=…) first"
        )
    return ray
