"""One call of a filter: stopped at a time limit, with what it did to the global random state."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any

_KEPT_FRAMES = 12
_REGENERATIONS = 1_000
"""Blocks of 624 words that a filter may honestly have drawn from the global generator."""
_AGAIN_SECONDS = 0.2

# Held here: a filter may put something else in their modules.
_clock = time.perf_counter
_get_state = random.getstate
_Twister = random.Random


class TimeUp(BaseException):
    """Ends a call. Not an `Exception`, so that a filter's ``except Exception`` does not catch it."""


@dataclass
class Call:
    """How a call went.

    Attributes:
        value: what it returned.
        seconds: how long it took.
        error: what it raised; `TimeUp` when it was stopped.
        frames: ``file:line in function: code`` of the filter's own frames, innermost last.
        looked_at: objects in variables of these frames, innermost frame first.
        reseeded: names of modules whose global random state was set.
    """

    value: Any = None
    seconds: float = 0.0
    error: BaseException | None = None
    frames: list[str] = field(default_factory=list)
    looked_at: list[Any] = field(default_factory=list)
    reseeded: list[str] = field(default_factory=list)


def call(function: Callable[[], Any], time_limit: float | None) -> Call:
    """Calls `function`; whatever it raises is part of the result.

    The limit acts in the main thread of a process only, and when Python code runs.
    """
    before = _random_states()
    outcome = Call()
    started = _clock()
    try:
        with _limited(time_limit):
            outcome.value = function()
    except BaseException as error:  # SystemExit as well: it would end the run
        if isinstance(error, KeyboardInterrupt) and _is_from_user():
            raise
        outcome.error = error
        outcome.frames, outcome.looked_at = _own_frames(error.__traceback__)
        # It holds the frames, and with them everything the filter had.
        error.__traceback__ = None
    outcome.seconds = _clock() - started
    outcome.reseeded = _reseeded(before, _random_states())
    return outcome


def _is_from_user() -> bool:
    """Whether an interrupt is one of the terminal's, and not one that the filter raised."""
    return signal.getsignal(signal.SIGINT) is not signal.SIG_DFL


@contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeUp

    previous = signal.signal(signal.SIGALRM, stop)
    # Again and again: a filter that catches everything is stopped at the next chance.
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _own_frames(trace: TracebackType | None) -> tuple[list[str], list[Any]]:
    """The frames below this module's, in words, and the objects they had in their variables."""
    found = [
        (frame, line)
        for frame, line in traceback.walk_tb(trace)
        if frame.f_globals.get("__name__") != __name__
    ]
    frames = [
        f"{entry.filename}:{entry.lineno} in {entry.name}: {entry.line}"
        for entry in traceback.StackSummary.extract(iter(found))
        if "rolloutds/replay" not in entry.filename
    ]
    looked_at = [
        value for frame, _ in reversed(found) for value in reversed(list(frame.f_locals.values()))
    ]
    return frames[-_KEPT_FRAMES:], looked_at


# --- global random state ------------------------------------------------------------------

_State = tuple[tuple[int, ...], int]
"""Words of a Mersenne Twister, and how many of them are used up."""


def _random_states() -> dict[str, _State]:
    words = _get_state()[1]
    states: dict[str, _State] = {"random": (words[:-1], words[-1])}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        with suppress(Exception):  # half imported, or another's in its place
            found = numpy.random.get_state(legacy=False)
            if isinstance(found, Mapping) and found.get("bit_generator") == "MT19937":
                state = found["state"]
                states["numpy.random"] = (tuple(state["key"].tolist()), int(state["pos"]))
    return states


def _reseeded(before: Mapping[str, _State], after: Mapping[str, _State]) -> list[str]:
    return [
        name for name in after if name in before and not _is_drawn_from(before[name], after[name])
    ]


def _is_drawn_from(before: _State, after: _State) -> bool:
    """Whether drawing numbers, and nothing else, leads from one state to the other."""
    if before[0] == after[0]:
        return after[1] >= before[1]
    twister = _Twister()
    # From the end of a block, each 624 words make a new one.
    twister.setstate((3, (*before[0], 624), None))
    for _ in range(_REGENERATIONS):
        twister.getrandbits(32 * 624)
        if twister.getstate()[1][:-1] == after[0]:
            return True
    return False
