"""Many dumps, one after the other: the next is tried out while this process is at the last."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import NamedTuple

from rolloutds.errors import TorchFileError
from rolloutds.torch_file.archive import OpenFile
from rolloutds.torch_file.budget import Budget
from rolloutds.torch_file.pickled import Pickle, open_pickle
from rolloutds.torch_file.trial import Trial

# All files of a batch are open at once; macOS lets a process have 256.
_BATCH_FILES = 100


class Tried(NamedTuple):
    """A file that a child has read: the pickle in it, and why it must not be read here."""

    pickle: Pickle
    error: TorchFileError | None


@contextmanager
def trials_ahead(paths: Sequence[str], *, budget: Budget = Budget()) -> Iterator[None]:  # noqa: B008 - frozen
    """Within it, whoever reads these dumps in this order finds each one tried out already.

    What is read in another order, or is no ``.pt`` file, is read as without it.

    Args:
        paths: the files.
        budget: limits on each of them.
    """
    ahead = _TrialsAhead(paths, budget)
    token = _ahead.set(ahead)
    try:
        yield
    finally:
        _ahead.reset(token)
        ahead.end()


def tried_ahead(path: str) -> Tried | None:
    """What came of the trial of a file, waited for; None when it was not tried."""
    ahead = _ahead.get()
    return None if ahead is None else ahead.take(path)


class _TrialsAhead:
    def __init__(self, paths: Sequence[str], budget: Budget) -> None:
        self._budget = budget
        self._left = iter(list(paths))
        self._open: deque[tuple[str, Pickle]] = deque()
        self._trial: Trial | None = None
        self._begin()

    def _begin(self) -> None:
        """Starts a child on the next files."""
        self.end()
        for path in islice(self._left, _BATCH_FILES):
            try:
                found = open_pickle(OpenFile(path), self._budget, is_packed=True)
            except TorchFileError:
                continue  # whoever reads it says what it is
            self._open.append((path, found))
        if self._open:
            self._trial = Trial([found for _, found in self._open], self._budget)

    def take(self, path: str) -> Tried | None:
        if self._trial is None or path not in [name for name, _ in self._open]:
            return None
        while self._open[0][0] != path:  # passed over, by who reads in another order
            self._next()
        tried = self._next()
        if not self._open:
            self._begin()
        return tried

    def _next(self) -> Tried:
        assert self._trial is not None
        return Tried(self._open.popleft()[1], self._trial.outcome())

    def end(self) -> None:
        if self._trial is not None:
            self._trial.end()
        self._trial = None


_ahead: ContextVar[_TrialsAhead | None] = ContextVar("_ahead", default=None)
