"""Shared sources for tests: in this process, or on the tests' Ray."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
import uuid
from pathlib import Path
from typing import Any

from rolloutds.integrations.ray import SharedDataSource
from rolloutds.integrations.ray.actor import Setup, SourceActor
from rolloutds.integrations.ray.client import SharedClient, process_facts
from rolloutds.integrations.ray.options import SharedOptions


class LocalConnection:
    """The way to a source in this process; everything is pickled on the way, as with Ray."""

    def __init__(self, args: Any, folder: Path, options: SharedOptions | None = None) -> None:
        run = f"run-{uuid.uuid4().hex}"
        self._setup = Setup(args, options or SharedOptions(), str(folder), run, "none")
        self._actor = SourceActor(pickle.loads(pickle.dumps(self._setup)))
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self.told: list[tuple[Any, ...]] = []

    def call(self, method: str, *arguments: Any) -> Any:
        sent = pickle.loads(pickle.dumps(arguments))
        with self._lock:
            answer = self._loop.run_until_complete(self._actor.call(method, *sent))
        error, result, _ = pickle.loads(pickle.dumps(answer))
        if error is not None:
            raise error
        return result

    def tell(self, method: str, *arguments: Any) -> None:
        self.told.append((method, *arguments))

    def facts(self) -> dict[str, Any]:
        return process_facts()

    def restart(self) -> None:
        """The actor dies and is made again from its journal."""
        self._stop()
        self._actor = SourceActor(self._setup)

    def _stop(self) -> None:
        logging.getLogger("rolloutds").removeHandler(self._actor._remarks)
        if self._actor._dispatcher is not None:
            self._actor._dispatcher.close()

    def close(self) -> None:
        self._stop()
        self._loop.close()


class LocalSources:
    """Makes shared sources in this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[LocalConnection] = []

    def __call__(self, args: Any) -> SharedClient:
        if not hasattr(args, "track_in_flight"):
            args.track_in_flight = False  # as the plain source
        self._made.append(LocalConnection(args, self._folder))
        self._made[-1].call("meet", self._made[-1]._setup)
        return SharedClient(args, self._made[-1])

    def close(self) -> None:
        for connection in self._made:
            connection.close()


class RaySources:
    """Makes shared sources on Ray."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[SharedDataSource] = []

    def __call__(self, args: Any) -> SharedDataSource:
        if not hasattr(args, "track_in_flight"):
            args.track_in_flight = False
        name = f"test-{uuid.uuid4().hex[:12]}"
        self._made.append(SharedDataSource(args, name=name, state_folder=self._folder))
        return self._made[-1]

    def close(self) -> None:
        for source in self._made:
            source.shut_down()
