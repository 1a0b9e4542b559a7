"""A replay in a process of its own: whatever the filter does, this process goes on.

The time limit inside the process stops Python code. Code in C that never comes back, a filter
that catches everything, or one that ends the process are seen from outside only.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
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
    describe_error,
    expected_size,
    number_of,
    replay,
)
from rolloutds.replay_codes import ReplayFinding, ReplayFindings

_GRACE_SECONDS = 2.0
"""What the process has, beyond the time limit, to stop a call by itself and say so."""
_PIECE = 1 << 16
_HEAD = 8
_KEPT_FRAMES = 4


class _Word(NamedTuple):
    """What the child says: that a call begins or ended, what was found, or how it all ended."""

    kind: str
    value: Any = None


Say = Callable[[_Word], None]


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
        say(_Word("call"))  # importing is running it, too
        buffer_filter = load_function(filter_path)
        say(_Word("done"))
        watch = ReplayWatch(lambda: say(_Word("call")), _Teller(say).on_round)
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
    """Tells of each round, and of what was found whenever there is more."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._num_said = 0

    def on_round(self, done: ReplayRound, findings: ReplayFindings) -> None:
        self._say(_Word("round", done))
        if len(findings) > self._num_said:
            self._num_said = len(findings)
            self._say(_Word("found", findings.all))


# --- the process --------------------------------------------------------------------------


def _words_of(work: Callable[[Say], Any], patience: float | None) -> Iterator[_Word]:
    """What a forked child says while it does the work; it is killed when nobody listens on."""
    reader, writer = os.pipe()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    with warnings.catch_warnings():
        # The child runs Python code only; other threads' locks are not waited for.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        os.close(reader)
        _run_child(work, writer)
    os.close(writer)
    is_over = False
    try:
        yield from _read_words(reader, patience)
        is_over = True
    finally:
        os.close(reader)
        if not is_over:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        code = _wait(pid)
    raise _EndedError("RPL006", f"the filter ended the process ({_how(code)})")


def _wait(pid: int) -> int:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return 0  # the program around us ignores SIGCHLD


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _read_words(reader: int, patience: float | None) -> Iterator[_Word]:
    """Words until the child closes its end; patience is for calls, not for what is between."""
    held = bytearray()
    deadline: float | None = None
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([reader], [], [], left)[0]:
            raise _EndedError(
                "RPL007", "stopped from outside: the call did not end when it was interrupted"
            )
        piece = os.read(reader, _PIECE)
        if not piece:
            return
        held += piece
        while (word := _next_word(held)) is not None:
            is_call = word.kind == "call" and patience is not None
            deadline = time.monotonic() + (patience or 0.0) if is_call else None
            if word.kind == "error":
                raise word.value
            if word.kind == "broken":
                raise _EndedError("RPL006", *word.value)
            yield word


def _next_word(held: bytearray) -> _Word | None:
    size = int.from_bytes(held[:_HEAD], "little")
    if len(held) < _HEAD or len(held) < _HEAD + size:
        return None
    try:
        word = _Unpickler(io.BytesIO(held[_HEAD : _HEAD + size])).load()
    except Exception as error:
        raise _EndedError("RPL006", "the process of the filter said what makes no sense") from error
    del held[: _HEAD + size]
    return word if isinstance(word, _Word) else None


class _Unpickler(pickle.Unpickler):
    """For words only: what the filter's process says is not to run anything in this one."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] != "rolloutds":
            raise pickle.UnpicklingError(f"{module}.{name}")
        return super().find_class(module, name)


def _run_child(work: Callable[[Say], Any], writer: int) -> NoReturn:
    own_id = os.getpid()

    def say(word: _Word) -> None:
        if os.getpid() != own_id:
            os._exit(0)  # a fork that the filter made, and that came back from it
        data = pickle.dumps(word)
        data = len(data).to_bytes(_HEAD, "little") + data
        while data:
            data = data[os.write(writer, data) :]

    try:
        faulthandler.disable()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _give_up_stdout()
        _go_first_when_memory_runs_out()
        with contextlib.redirect_stdout(sys.stderr):
            say(_Word("result", work(say)))
    except RolloutDSError as error:
        say(_Word("error", error))
    except BaseException as error:  # the filter may have changed any module under our feet
        say(_Word("broken", (describe_error(error), _frames(error))))
    finally:
        for stream in (sys.__stdout__, sys.stderr):
            if stream is not None:
                with contextlib.suppress(Exception):
                    stream.flush()
        # Nothing of the parent's (buffers, handlers, atexit) may run twice.
        os._exit(0)


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
