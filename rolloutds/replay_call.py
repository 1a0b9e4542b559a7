"""Running a filter's code: stopped at a time limit, with what it did to the global random state."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
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


class Limit:
    """Stops Python code in the main thread of a process with `TimeUp`; elsewhere it does nothing.

    Args:
        seconds: how long what is inside may take; None: no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._previous: Any = None
        self._is_on = False

    def __enter__(self) -> Limit:
        is_main = threading.current_thread() is threading.main_thread()
        self._is_on = self._seconds is not None and is_main
        if self._is_on:
            self._previous = signal.signal(signal.SIGALRM, _stop)
            self.restart()
        return self

    def restart(self) -> None:
        """Gives what follows the whole time again."""
        if self._is_on:
            # Again and again: what catches everything is stopped at the next chance.
            signal.setitimer(signal.ITIMER_REAL, self._seconds or 0.0, _AGAIN_SECONDS)

    def __exit__(self, *error: object) -> None:
        if self._is_on:
            self._is_on = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._previous)


def _stop(number: int, frame: FrameType | None) -> None:
    raise TimeUp


def call(function: Callable[[], Any], limit: Limit, *, sees_reseeding: bool = True) -> Call:
    """Calls `function`; whatever it raises is part of the result."""
    before = _random_states() if sees_reseeding else {}
    outcome = Call()
    started = _clock()
    try:
        with limit:
            outcome.value = function()
    except BaseException as error:  # SystemExit as well: it would end the run
        if isinstance(error, KeyboardInterrupt) and _is_from_user():
            raise
        outcome.error = error
        outcome.frames, outcome.looked_at = _own_frames(error.__traceback__)
        # It holds the frames, and with them everything the filter had.
        error.__traceback__ = None
    outcome.seconds = _clock() - started
    if sees_reseeding:
        outcome.reseeded = _reseeded(before, _random_states())
    return outcome


def _is_from_user() -> bool:
    """Whether an interrupt is one of the terminal's, and not one that the filter raised."""
    return signal.getsignal(signal.SIGINT) is not signal.SIG_DFL


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
