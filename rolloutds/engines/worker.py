"""A process of the local engine.

It is given the descriptor of a socket, reads pickled tasks from it and writes pickled outcomes. It
ends when the other end is gone, in the middle of a task too, and takes the folder for temporary
files with it: nothing outlives the command that started it, however that ended. Both ends are this package; nothing else is ever read this way.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import shutil
import sys
import tempfile
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from rolloutds.engines.base import Function, Outcome, attempt


class Task(NamedTuple):
    """One item, and what to do with it.

    Attributes:
        function: what to do.
        common: path of the pickled first argument.
        item: the second.
    """

    function: Function
    common: str
    item: Any


class Common:
    """The first arguments of tasks; the last one stays loaded, so that each is read once."""

    def __init__(self) -> None:
        self._path = ""
        self._value: Any = None

    def load(self, path: str) -> Any:
        """The argument that lies in a file."""
        if path != self._path:
            self._value = None  # two at a time would take twice the memory
            self._value = pickle.loads(Path(path).read_bytes())
            self._path = path
        return self._value


def run(message: bytes, common: Common) -> Outcome:
    """Does one pickled task."""
    try:
        task: Task = pickle.loads(message)
        first = common.load(task.common)
    except Exception as error:  # a function that this process does not find, for one
        return Outcome(None, RuntimeError(f"{type(error).__name__}: {error}"))
    return attempt(task.function, first, task.item)


def _packed(outcome: Outcome) -> bytes:
    try:
        return pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # a result that does not travel is a bug that has to be seen
        return pickle.dumps(Outcome(None, RuntimeError(f"{type(error).__name__}: {error}")))


def serve(connection: Connection) -> None:
    """Does tasks until the other end is gone."""
    common = Common()
    try:
        while True:
            connection.send_bytes(_packed(run(connection.recv_bytes(), common)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass


def main() -> None:
    """Serves the descriptor that the command line names; temporary files go to the folder there."""
    with contextlib.suppress(OSError):
        os.dup2(2, 1)  # stdout is for the command's result, whatever a task's libraries print
    descriptor, folder = int(sys.argv[1]), sys.argv[2]
    tempfile.tempdir = folder
    threading.Thread(target=_end_with, args=(descriptor, folder), daemon=True).start()
    serve(Connection(descriptor))


def _end_with(descriptor: int, folder: str) -> None:
    """Ends this process when the other end of its socket is gone, however it went.

    The other end kills its processes before it hangs up. If it did not, it was ended itself, and
    nobody else is left to remove its folder.
    """
    hang_up = select.poll()
    hang_up.register(descriptor, 0)  # no event is asked for: hanging up is always told
    hang_up.poll()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)
