"""The actor: a dispatcher on Ray, which hears when a process of its workers dies."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from dataclasses import dataclass
from typing import Any, Final

from rolloutds.config import SETTINGS, DataSourceConfig
from rolloutds.errors import ConfigError, RolloutDSError
from rolloutds.integrations.ray.dispatcher import Dispatcher
from rolloutds.integrations.ray.errors import SharedSourceError
from rolloutds.integrations.ray.journal import Journal
from rolloutds.integrations.ray.options import SharedOptions
from rolloutds.integrations.ray.wire import Served
from rolloutds.integrations.ray.workers import Request, Ticket
from rolloutds.source import RolloutDataSourceWithBuffer

MAX_CALLS: Final = 10_000
"""Calls that may be open at a time, draws that wait for room included."""

_logger = logging.getLogger("rolloutds")
_UNAVAILABLE_SECONDS: Final = 1.0
_READS: Final = frozenset({"look", "metadata", "stats", "state_dict"})
_STEPS: Final = frozenset(
    {
        "abandon",
        "add",
        "join",
        "leave",
        "load",
        "load_state_dict",
        "save",
        "settle",
        "snapshot",
        "update_metadata",
    }
)


@dataclass(frozen=True)
class Setup:
    """What a shared source is made from; a restarted actor gets the same.

    Attributes:
        args: the run's settings.
        options: limits.
        folder: where the journal lies.
        run: name of the journal, unlike that of any other run.
        namespace: of the actor and of the lifelines.
    """

    args: Any
    options: SharedOptions
    folder: str
    run: str
    namespace: str

    def dispatcher(self, *, is_restart: bool) -> Dispatcher:
        """The shared source, as its journal left it.

        Args:
            is_restart: whether there was one before, whose journal must be there.
        """
        source = source_class(self.options.source)(self.args)
        return Dispatcher(source, self.journal(), self.options, is_restart=is_restart)

    def journal(self) -> Journal:
        """Its journal."""
        return Journal(self.folder, self.run, durable=self.options.durable)

    def differences(self, other: Setup) -> list[str]:
        """How another's settings and limits differ, a line each."""
        own, others = self._choices(), other._choices()
        return _differences(DataSourceConfig.from_args(self.args), other.args) + [
            f"{name}: there {value!r}, here {others[name]!r}"
            for name, value in own.items()
            if value != others[name]
        ]

    def _choices(self) -> dict[str, Any]:
        return vars(self.options) | {"state_folder": self.folder}


def _differences(config: DataSourceConfig, args: Any) -> list[str]:
    other = DataSourceConfig.from_args(args)
    return [
        f"{s.name}: there {getattr(config, s.name)!r:.80}, here {getattr(other, s.name)!r:.80}"
        for s in SETTINGS
        if getattr(config, s.name) != getattr(other, s.name)
    ]


def source_class(path: str | None) -> type[RolloutDataSourceWithBuffer]:
    """The class of the source inside.

    Raises:
        ConfigError: there is no such class, or it is none with a buffer.
    """
    if path is None:
        return Served
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{path!r} ({error})", where="source", expected="module.Class") from error
    if not (isinstance(found, type) and issubclass(found, RolloutDataSourceWithBuffer)):
        raise ConfigError(
            f"{path!r}", where="source", expected="a subclass of RolloutDataSourceWithBuffer"
        )
    return found


Answer = tuple[Exception | None, Any, list[tuple[int, str]]]
"""An error to raise at the caller's, or a result, and what was said meanwhile."""


class SourceActor:
    """The methods that Ray calls.

    Nothing awaits in the middle of a change, so every change is atomic. Errors of ours are
    answers: Ray would wrap them, and log them as the actor's.

    Args:
        setup: what the source is made from.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._dispatcher: Dispatcher | None = None
        self._began = False
        self._waiting: dict[Ticket, asyncio.Future[Any]] = {}
        self._watched: dict[str, asyncio.Task[None]] = {}
        self._remarks = _Remarks()
        logging.getLogger("rolloutds").addHandler(self._remarks)

    async def call(self, method: str, *arguments: Any) -> Answer:
        """One call of a client: its method and arguments."""
        try:
            return None, await self._answer(method, arguments), self._remarks.taken()
        except RolloutDSError as error:
            return error, None, self._remarks.taken()

    async def _answer(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if method == "is_stillborn":
            return not self._began and not _is_restarted()
        if method == "end":
            return self._end()
        may_begin = method == "meet" and arguments[0].run == self._setup.run
        dispatcher = self._opened(may_begin=may_begin)
        if method in _READS:
            return self._read(dispatcher, method)
        if method in _STEPS:
            try:
                result = getattr(dispatcher, method)(*arguments)
            finally:
                self._deliver(dispatcher.outcomes())
            self._watch_all()
            return result
        return await getattr(self, f"_{method}")(*arguments)

    def _opened(self, *, may_begin: bool = False) -> Dispatcher:
        # Not in __init__: an error there would reach nobody as itself.
        if self._dispatcher is not None and self._dispatcher.is_lost:
            self._dispatcher.close()
            self._dispatcher = None
        if self._dispatcher is None:
            is_restart = self._began or (_is_restarted() and not may_begin)
            self._dispatcher = self._setup.dispatcher(is_restart=is_restart)
            self._began = True
            self._watch_all()
        return self._dispatcher

    def _read(self, dispatcher: Dispatcher, method: str) -> Any:
        found = getattr(dispatcher, method)()
        return found | _whereabouts() if method == "stats" else found

    async def _meet(self, setup: Setup) -> None:
        """Checks that a client means this source."""
        differences = self._setup.differences(setup)
        if differences:
            raise SharedSourceError(
                "the one that runs has other settings:\n  " + "\n  ".join(differences),
                hint="give it another name, or end the one that runs (shut_down)",
            )

    async def _draw(
        self,
        request: Request,
        worker: str,
        num_samples: int,
        rollout_id: int | None,
        timeout: float | None,
    ) -> Any:
        dispatcher = self._opened()
        dispatcher.draw(request, worker, num_samples, rollout_id)
        outcomes = dispatcher.outcomes()
        at_once = outcomes.pop(request.ticket, None)
        self._deliver(outcomes)
        if at_once is not None:
            return _unwrapped(at_once)
        loop = asyncio.get_running_loop()
        future = self._waiting.setdefault(request.ticket, loop.create_future())
        try:
            return await asyncio.wait_for(asyncio.shield(future), timeout)
        except TimeoutError:
            error = dispatcher.give_up(request, timeout or 0.0)
            if error is None:
                return await future
            self._waiting.pop(request.ticket, None)
            raise error from None

    def _deliver(self, outcomes: dict[Ticket, Any]) -> None:
        for ticket, outcome in outcomes.items():
            future = self._waiting.pop(ticket, None)
            if future is None or future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    def _end(self) -> None:
        """Removes the journal, whatever it is like: the run is over."""
        if self._dispatcher is not None:
            self._dispatcher.close()
        self._setup.journal().remove()

    # --- deaths ---------------------------------------------------------------------------

    def _watch_all(self) -> None:
        for client in self._opened().clients():
            if client.lifeline is not None and client.lifeline not in self._watched:
                task = asyncio.ensure_future(self._watch(client.lifeline))
                self._watched[client.lifeline] = task

    async def _watch(self, lifeline: str) -> None:
        """Waits for the end of a process, and gives back what its clients hold."""
        while await _outlives(lifeline, self._setup.namespace):
            await asyncio.sleep(_UNAVAILABLE_SECONDS)
        while not self._bury(lifeline):
            await asyncio.sleep(_UNAVAILABLE_SECONDS)
        del self._watched[lifeline]

    def _bury(self, lifeline: str) -> bool:
        """Gives back what a dead process held; False: it could not be written down."""
        try:
            dispatcher = self._opened()
        except RolloutDSError:
            return False
        try:
            for client in dispatcher.clients():
                if client.lifeline == lifeline:
                    dispatcher.leave(client.key, f"the process {client.place} died")
        except RolloutDSError:  # a full disk, mostly, which may have room again
            return False
        finally:
            self._deliver(dispatcher.outcomes())
        return True


def _unwrapped(outcome: Any) -> Any:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


async def _outlives(lifeline: str, namespace: str) -> bool:
    """Whether a process cannot be reached but may be there still; False: it is dead."""
    import ray

    try:
        await ray.get_actor(lifeline, namespace=namespace).hold.remote()
    except ray.exceptions.ActorUnavailableError:
        return True
    except (ray.exceptions.RayActorError, ValueError):
        return False
    except Exception as error:  # whatever else: it says nothing about the process
        _logger.debug("%s cannot be watched: %s", lifeline, error)
    return True


def _is_restarted() -> bool:
    """Whether this process is an actor that Ray started again."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    context = ray.get_runtime_context()
    return context.get_actor_id() is not None and context.was_current_actor_reconstructed


def _whereabouts() -> dict[str, Any]:
    from rolloutds.integrations.ray.client import process_facts

    facts = process_facts()
    return {"host": facts["host"], "pid": facts["pid"]}


class _Remarks(logging.Handler):
    """What the library says, for the worker that asked."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append((record.levelno, record.getMessage()))

    def taken(self) -> list[tuple[int, str]]:
        """What was said since the last time."""
        said, self._said = self._said, []
        return said
