"""Progress on stderr: only on a terminal, only for work that takes over half a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rolloutds.cli.output import stderr_is_terminal

_PATIENCE = 0.5
_BETWEEN = 0.1


class Progress:
    """A line that is written over and cleared at the end.

    Args:
        doing: what is going on ("searching").
        total: how much there is to do.
        clock: seconds that only grow.
    """

    def __init__(
        self, doing: str, total: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._doing = doing
        self._total = total
        self._clock = clock
        self._next = clock() + _PATIENCE
        self._is_shown = False

    def __call__(self, done: int) -> None:
        """Says how much is done, when it is time to."""
        if self._clock() < self._next or not stderr_is_terminal():
            return
        self._next = self._clock() + _BETWEEN
        self._is_shown = True
        percent = 100 * done // max(self._total, 1)
        sys.stderr.write(f"\r{self._doing} {done:,} of {self._total:,} ({percent} %)\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        """Takes the line away, so that what comes next starts on a clean one."""
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_shown = False
