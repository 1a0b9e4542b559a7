"""A replay in a process of its own: whatever the filter does, this process goes on.

The time limit inside the process stops Python code. Code in C that never comes back, a filter
that catches everything, or one that ends the process are seen from outside only.
"""

from __future__ import annotations

import contextlib
import enum
import faulthandler
import io
import mmap
import os
import pickle
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from rolloutds.errors import RolloutDSError
from rolloutds.filters import load_function
from rolloutds.replay import (
    GroupNumber,
    Replay,
    ReplayRound,
    ReplaySettings,
    ReplayWatch,
    Taken,
    describe_error,
    expected_size,
    number_of,
    replay,
)
from rolloutds.replay_codes import ReplayFinding, ReplayFindings

_GRACE_SECONDS = 2.0
"""What the process has, beyond the time limit, to stop a call by itself and say so."""
_ENDING_SECONDS = 0.5
"""What it has to end when it has closed its pipe."""
_TICK = 0.2
_PIECE = 1 << 16
_HEAD = 8
_KEPT_FRAMES = 4

# Held here: a filter may put something else in their modules.
_clock, _dumps, _write, _exit = time.monotonic, pickle.dumps, os.write, os._exit
_own_id, _stat = os.getpid, os.fstat


class _Word(NamedTuple):
    """What the child says: that a call begins or ended, what was found, or how it all ended."""

    kind: str
    value: Any = None


Say = Callable[[_Word], None]
_RUNS_FILTER = ("import", "call", "look")


class _EndedError(Exception):
    """The child did not end well; the text says how."""

    def __init__(self, code: str, how: str, frames: Sequence[str] = ()) -> None:
        super().__init__(how)
        self.code = code
        self.frames = list(frames)


def replay_in_child(
    filter_path: str,
    groups: Sequence[Any],
    *,
    args: Any,
    settings: ReplaySettings,
    refill: Sequence[Any] = (),
) -> Replay:
    """Loads a filter and replays it in a forked process.

    What the filter prints goes to stderr. A call that does not end is stopped there; if that
    fails, the process is killed, and the result holds the rounds until then.

    Args:
        filter_path: ``mod.fn``, ``mod:fn`` or ``file.py:fn``; its module is imported there.
        groups: as for `replay`.
        args: as for `replay`.
        settings: as for `replay`.
        refill: as for `replay`.

    Raises:
        FilterError: the filter cannot be loaded.
        GroupError: one of the groups is no group.
    """

    def work(say: Say) -> Replay:
        say(_Word("import"))  # which is running it, too
        buffer_filter = load_function(filter_path)
        say(_Word("done"))
        teller = _Teller(say)
        watch = ReplayWatch(teller.on_call, teller.on_look, teller.on_round)
        return replay(
            buffer_filter,
            groups,
            args=args,
            settings=settings,
            refill=refill,
            filter_name=filter_path,
            watch=watch,
        )

    size = expected_size(groups, settings)
    partial = Replay(filter_path, size, len(groups), ended="error", num_left=len(groups))
    findings: list[ReplayFinding] = []
    limit = settings.time_limit
    try:
        for word in _words_of(work, None if limit is None else limit + _GRACE_SECONDS):
            if word.kind == "result":
                result: Replay = word.value
                return result
            if word.kind == "round":
                _take_over(partial, word.value)
            elif word.kind == "found":
                findings = word.value
    except _EndedError as ended:
        number = len(partial.rounds) + 1
        found = ReplayFinding(ended.code, str(ended), number, num_groups=1, frames=ended.frames)
        partial.findings = [found, *findings]
        partial.never_served = _not_served(partial, [*groups, *refill[: partial.num_refilled]])
        return partial
    raise RuntimeError("the process of the replay ended without a result")


def _not_served(partial: Replay, groups: Sequence[Any]) -> list[GroupNumber]:
    served = {taken.position for done in partial.rounds for taken in done.returned}
    return [number_of(g, at) for at, g in enumerate(groups) if at not in served]


def _take_over(partial: Replay, done: ReplayRound) -> None:
    partial.rounds.append(done)
    partial.num_left = done.num_left
    partial.num_refilled += done.num_refilled


class _Teller:
    """Tells of each call and round, and of what was found whenever there is more."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._num_said = 0
        self._last_look: float | None = None

    def on_call(self) -> None:
        self._last_look = None
        self._say(_Word("call"))

    def on_look(self) -> None:
        now = _clock()
        if self._last_look is None or now - self._last_look > _TICK:
            self._last_look = now
            self._say(_Word("look"))

    def on_round(self, done: ReplayRound, findings: ReplayFindings) -> None:
        self._last_look = None
        self._say(_Word("round", done))
        if len(findings) > self._num_said:
            self._num_said = len(findings)
            self._say(_Word("found", findings.all))


# --- what is said -------------------------------------------------------------------------


class _Doing(enum.IntEnum):
    """What the child is at, for a parent that hears no more of it; MUTE: it has lost its pipe."""

    OWN_WORK = 0
    IMPORT = 1
    CALL = 2
    LOOK = 3
    MUTE = 4


_BEGINS = {"import": _Doing.IMPORT, "call": _Doing.CALL, "look": _Doing.LOOK}
_AT = {
    _Doing.OWN_WORK: "between two calls",
    _Doing.IMPORT: "while its module was imported",
    _Doing.CALL: "in the call",
    _Doing.LOOK: "when its samples were compared after the call",
    _Doing.MUTE: "in the call",
}


class _SpoiltError(Exception):
    """Something came through the pipe that the child did not say."""


class _Line:
    """A pipe, and a byte of shared memory for what the child is at; made before the fork.

    A filter may close any file and write to any: each word begins with a mark that nothing else
    begins with, and the byte can be read when the pipe is gone.
    """

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self._mark = os.urandom(_HEAD)
        self._pipe = _identity(self.writer)
        self._shared = mmap.mmap(-1, 1)

    @property
    def doing(self) -> _Doing:
        return _Doing(self._shared[0])

    def speaker(self) -> Say:
        """What this process says words with, and none that it forks."""
        own_id = _own_id()

        def say(word: _Word) -> None:
            if _own_id() != own_id:
                _exit(0)  # a fork that the filter made, and that came back from it
            self._shared[0] = _BEGINS.get(word.kind, _Doing.OWN_WORK)
            data = _dumps(word)
            try:
                self._send(self._mark + len(data).to_bytes(_HEAD, "little") + data)
            except OSError:
                self._shared[0] = _Doing.MUTE
                _exit(1)

        return say

    def _send(self, data: bytes) -> None:
        if _identity(self.writer) != self._pipe:
            raise OSError  # another file in its place
        while data:
            data = data[_write(self.writer, data) :]

    def take_word(self, held: bytearray) -> _Word | None:
        """Takes the first word off what came through the pipe; None while it is not whole.

        Raises:
            _SpoiltError: something else came.
        """
        if not self._mark.startswith(held[:_HEAD]):
            raise _SpoiltError
        size = int.from_bytes(held[_HEAD : 2 * _HEAD], "little")
        if len(held) < 2 * _HEAD + size or len(held) < 2 * _HEAD:
            return None
        try:
            word: _Word = _Unpickler(io.BytesIO(held[2 * _HEAD : 2 * _HEAD + size])).load()
        except Exception as error:
            raise _SpoiltError from error
        del held[: 2 * _HEAD + size]
        return word


def _identity(descriptor: int) -> tuple[int, int]:
    found = _stat(descriptor)
    return found.st_dev, found.st_ino


class _Unpickler(pickle.Unpickler):
    """For words only: what the filter's process says is not to run anything in this one."""

    def find_class(self, module: str, name: str) -> Any:
        if module not in _SPOKEN_OF or "." in name:
            raise pickle.UnpicklingError(f"{module}.{name}")
        found = super().find_class(module, name)
        if module != RolloutDSError.__module__ and found not in _SPOKEN:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return found


_SPOKEN = (_Word, Replay, ReplayRound, ReplayFinding, Taken)
_SPOKEN_OF = {RolloutDSError.__module__, *(kind.__module__ for kind in _SPOKEN)}


# --- the process --------------------------------------------------------------------------


def _words_of(work: Callable[[Say], Any], patience: float | None) -> Iterator[_Word]:
    """What a forked child says while it does the work; it is killed when nobody listens on."""
    line = _Line()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    with warnings.catch_warnings():
        # The child runs Python code only; other threads' locks are not waited for.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        os.close(line.reader)
        _run_child(work, line.speaker())
    os.close(line.writer)
    child = _Child(pid, line)
    try:
        yield from child.words(patience)
        ended = child.how_it_ended()
    finally:
        os.close(line.reader)
        child.kill()
    raise _EndedError("RPL006", ended)


class _Child:
    """The process, as its parent sees it."""

    def __init__(self, pid: int, line: _Line) -> None:
        self._pid = pid
        self._line = line
        self._code: int | None = None
        self._is_over = False

    def words(self, patience: float | None) -> Iterator[_Word]:
        """Words until it ends or closes its pipe; patience is for the filter's code only."""
        held = bytearray()
        deadline: float | None = None
        while True:
            left = _TICK if deadline is None else max(0.0, deadline - _clock())
            if not self._has_said(min(left, _TICK)):
                if deadline is not None and _clock() >= deadline:
                    found = f"stopped from outside {self._at}: it did not end when interrupted"
                    raise _EndedError("RPL007", found)
                # What the filter forked may hold the pipe open: that it ended is seen here only.
                if self._has_ended() and not self._has_said(0):
                    return
                continue
            piece = os.read(self._line.reader, _PIECE)
            if not piece:
                return
            held += piece
            while held and (word := self._next(held)) is not None:
                runs_filter = word.kind in _RUNS_FILTER and patience is not None
                deadline = _clock() + (patience or 0.0) if runs_filter else None
                yield word

    def _has_said(self, seconds: float) -> bool:
        return bool(select.select([self._line.reader], [], [], seconds)[0])

    def _next(self, held: bytearray) -> _Word | None:
        try:
            word = self._line.take_word(held)
        except _SpoiltError as error:
            found = "the filter wrote to files that are not its own, the pipe of the replay too"
            raise _EndedError("RPL006", found) from error
        if word is not None and word.kind == "error":
            raise word.value
        if word is not None and word.kind == "broken":
            raise _EndedError("RPL006", *word.value)
        return word

    @property
    def _at(self) -> str:
        return _AT[self._line.doing]

    def how_it_ended(self) -> str:
        """What the filter did to the process, in words."""
        deadline = _clock() + _ENDING_SECONDS
        while not self._has_ended() and _clock() < deadline:
            time.sleep(_ENDING_SECONDS / 50)
        if not self._is_over or self._line.doing is _Doing.MUTE:
            return "the filter closed files that are not its own, the pipe of the replay too"
        if self._code is None:
            return f"the process ended {self._at}"
        if self._code >= 0:
            return f"the filter ended the process {self._at} (exit code {self._code})"
        if self._code == -signal.SIGKILL:
            why = "by the filter, or by the system for want of memory"
            return f"the process was killed {self._at} (SIGKILL: {why})"
        return f"the process was ended by {_signal_name(-self._code)} {self._at}"

    def _has_ended(self) -> bool:
        if not self._is_over:
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:  # the program around us ignores SIGCHLD
                self._is_over = True
                return True
            if pid:
                self._is_over = True
                self._code = os.waitstatus_to_exitcode(status)
        return self._is_over

    def kill(self) -> None:
        """Ends it, and what it forked."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        if not self._is_over:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _run_child(work: Callable[[Say], Any], say: Say) -> NoReturn:
    try:
        faulthandler.disable()
        for ending in (signal.SIGINT, signal.SIGTERM):  # not as the program around us has them
            signal.signal(ending, signal.SIG_DFL)
        _leave_the_terminal()
        _give_up_stdout()
        _go_first_when_memory_runs_out()
        with contextlib.redirect_stdout(sys.stderr):
            result = work(say)
        _flush()  # the parent ends this process when it has the result
        say(_Word("result", result))
    except RolloutDSError as error:
        say(_Word("error", error))
    except BaseException as error:  # the filter may have changed any module under our feet
        say(_Word("broken", (describe_error(error), _frames(error))))
    finally:
        _flush()
        # Nothing of the parent's (buffers, handlers, atexit) may run twice.
        _exit(0)


def _flush() -> None:
    for stream in (sys.__stdout__, sys.stderr):
        if stream is not None:
            with contextlib.suppress(Exception):
                stream.flush()


def _leave_the_terminal() -> None:
    """A process group of its own, so that what it forks ends with it; and nothing to read."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # it may write all the same
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


def _give_up_stdout() -> None:
    """Lets what is written past `sys.stdout` (by C code, by other programs) go to stderr, too."""
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _go_first_when_memory_runs_out() -> None:
    """Linux ends this process before any other one when a filter takes all memory there is."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _frames(error: BaseException) -> list[str]:
    found = traceback.extract_tb(error.__traceback__)[-_KEPT_FRAMES:]
    return [f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" for frame in found]
