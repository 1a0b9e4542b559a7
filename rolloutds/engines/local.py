"""Tasks in this process, or in several processes of this machine."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
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
    in_order,
    named,
)
from rolloutds.engines.worker import Task
from rolloutds.errors import EngineError

_PROTOCOL: Final = pickle.HIGHEST_PROTOCOL
_WORKER: Final = "from rolloutds.engines.worker import main; main()"


class LocalEngine(Engine):
    """One process is the caller's own; more are fresh interpreters, started when needed.

    A task whose process dies is tried again in a new one.

    Args:
        num_processes: tasks at a time.
    """

    is_local = True

    def __init__(self, num_processes: int = 1) -> None:
        self.num_tasks = num_processes
        self.is_in_process = num_processes <= 1
        self._idle: list[_Process] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._num_maps = 0

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
        if self.is_in_process:
            yield from _here(function, items, common, names, on_done)
            return
        self._num_maps += 1
        path = self.folder() / f"common-{self._num_maps}"
        path.write_bytes(pickle.dumps(common, _PROTOCOL))
        lanes = _ProcessLanes(function, path, self._idle)
        try:
            yield from in_order(lanes, self.num_tasks, items, names, on_done)
        finally:
            path.unlink(missing_ok=True)

    def partitions(self, num_buckets: int) -> Partitions:
        """Buckets in temporary files, one file a task."""
        return _FilePartitions(self, num_buckets)

    def folder(self) -> Path:
        """A folder for what is too large for a pipe; it is removed with the engine."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="rolloutds-")
        return Path(self._folder.name)

    def close(self) -> None:
        """Ends the processes."""
        while self._idle:
            self._idle.pop().end()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _here(
    function: Function,
    items: Iterable[Any],
    common: Any,
    names: Iterable[str] | None,
    on_done: Done | None,
) -> Iterator[Any]:
    for item, name in named(items, names):
        result = function(common, item)
        if on_done is not None:
            on_done(name)
        yield result
        del result  # or it would live on while the next one is made


class _Process:
    """A fresh interpreter with a socket to it; a copy of this one could hold locks of its threads.

    Args:
        folder: for its temporary files; it removes it where this process ends without doing so.

    Attributes:
        connection: this end.
    """

    def __init__(self, folder: Path) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._process = _started(theirs.fileno(), folder)
            self.connection = Connection(ours.detach())

    def send(self, task: Task) -> None:
        """Hands a task over; what is wrong with the process shows when it is waited for."""
        message = pickle.dumps(task, _PROTOCOL)
        with contextlib.suppress(OSError):
            self.connection.send_bytes(message)

    def receive(self) -> Outcome | None:
        """The outcome of its task; None when it died over it."""
        try:
            outcome: Outcome = pickle.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            return None
        return outcome

    def end(self) -> int:
        """Ends it, whatever it does; returns its exit code."""
        self._process.kill()
        self.connection.close()
        return self._process.wait()

    def exit_code(self) -> int:
        """The exit code of a process that closed its socket."""
        self.connection.close()
        return self._process.wait()


def _started(descriptor: int, folder: Path) -> subprocess.Popen[bytes]:
    importable = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _WORKER, str(descriptor), str(folder)],
        stdin=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        env={**os.environ, "PYTHONPATH": importable},
        start_new_session=True,  # the user's Ctrl-C is for this process, which ends that one
    )


class _ProcessLanes(Lanes):
    """One task a process.

    Args:
        function: what each task does.
        common: path of its first argument, in the engine's folder.
        idle: processes that wait for a task; they come back here.
    """

    def __init__(self, function: Function, common: Path, idle: list[_Process]) -> None:
        self._function = function
        self._common = str(common)
        self._folder = common.parent
        self._idle = idle
        self._busy: dict[Connection, tuple[_Process, int, str, Task, int]] = {}

    def start(self, number: int, name: str, item: Any) -> None:
        """Begins a task in an idle process, or in a new one."""
        self._give(number, name, Task(self._function, self._common, item), 0)

    def _give(self, number: int, name: str, task: Task, tries: int) -> None:
        process = self._idle.pop() if self._idle else _Process(self._folder)
        # Noted first: an interrupt from here on finds the process to end.
        self._busy[process.connection] = (process, number, name, task, tries)
        process.send(task)

    def wait(self) -> Sequence[tuple[int, Outcome]]:
        """Waits for processes that have an outcome; starts anew those that died."""
        done = []
        for connection in wait(list(self._busy)):
            process, number, name, task, tries = self._busy[connection]  # type: ignore[index]
            outcome = process.receive()
            del self._busy[process.connection]
            if outcome is not None:
                self._idle.append(process)
                done.append((number, outcome))
            elif tries < TRIES_AGAIN:
                process.exit_code()
                self._give(number, name, task, tries + 1)
            else:
                done.append((number, Outcome(None, _died(name, process.exit_code(), tries + 1))))
        return done

    def take(self, number: int, handle: Outcome) -> Outcome:
        """The outcome."""
        del number
        return handle

    def close(self) -> None:
        """Ends the processes that are still at it."""
        for process, *_ in self._busy.values():
            process.end()
        self._busy.clear()


def _died(name: str, code: int, tries: int) -> EngineError:
    how = f"exit code {code}" if code >= 0 else _signal_name(-code)
    hint = "it may need more memory than there is: try fewer --jobs"
    if code >= 0:
        hint = "what the process said is above; --jobs 1 shows it with a traceback"
    return EngineError(f"its process died {tries} times ({how})", where=name, hint=hint)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _FilePartitions(Partitions):
    """Buckets in temporary files: one after the other in one file a task."""

    def __init__(self, engine: LocalEngine, num_buckets: int) -> None:
        super().__init__(num_buckets)
        self._engine = engine
        self._folder = tempfile.TemporaryDirectory(prefix="buckets-", dir=engine.folder())
        self._sizes: list[list[int]] = []

    def map(
        self,
        function: Function,
        items: Iterable[Any],
        *,
        common: Any = None,
        names: Iterable[str] | None = None,
        on_done: Done | None = None,
    ) -> Iterator[Any]:
        """Calls a function with each item; its task writes the buckets."""
        both = (function, common, self._folder.name)
        pairs = [(item, name) for item, name in named(items, names)]
        kept = self._engine.map(
            _write_buckets,
            enumerate(item for item, _ in pairs),
            common=both,
            names=[name for _, name in pairs],
            on_done=on_done,
        )
        for result, sizes in kept:
            self._sizes.append(sizes)
            yield result

    def reduce(self, function: Function, *, common: Any = None, name: str) -> Iterator[Any]:
        """Calls a function with each bucket, read from the files."""
        both = (function, common, self._folder.name, self._sizes)
        names = self.bucket_names(name)
        return self._engine.map(_read_bucket, range(self.num_buckets), common=both, names=names)

    def close(self) -> None:
        """Removes the files."""
        self._folder.cleanup()


def _bucket_file(folder: str, number: int) -> Path:
    return Path(folder, f"{number:08}")


def _write_buckets(common: Any, item: Any) -> tuple[Any, list[int]]:
    function, first, folder = common
    number, second = item
    result, buckets = function(first, second)
    with _bucket_file(folder, number).open("wb") as file:
        sizes = [file.write(bucket) for bucket in buckets]
    return result, sizes


def _read_bucket(common: Any, bucket: int) -> Any:
    function, first, folder, all_sizes = common
    pieces = []
    for number, sizes in enumerate(all_sizes):
        with _bucket_file(folder, number).open("rb") as file:
            file.seek(sum(sizes[:bucket]))
            pieces.append(file.read(sizes[bucket]))
    return function(first, pieces)
