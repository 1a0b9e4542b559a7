"""Reading a rollout dump: its lists of numbers packed, its NumPy scalars kept as such."""

from __future__ import annotations

import os
from typing import Any

from rolloutds.torch_file.archive import OpenFile
from rolloutds.torch_file.budget import Budget
from rolloutds.torch_file.pickled import Pickle, collector_paused, open_pickle
from rolloutds.torch_file.trial import try_out
from rolloutds.torch_file.unpickler import SafeUnpickler


def read_dump(path: str | os.PathLike[str], *, budget: Budget = Budget()) -> Any:  # noqa: B008 - frozen
    """As `read_packed`, with NumPy scalars as `ScalarValue` and not as what they equal.

    They are numbers and text all the same: only a writer looks at what else they are.

    Raises:
        TorchFileError: as for `read`.
    """
    found = open_pickle(OpenFile(path), budget, is_packed=True)
    dump = _DumpPickle(found.file, found.archive, is_packed=True)
    dump.check()
    (error,) = try_out([dump], budget)
    if error is not None:
        raise error
    with collector_paused():
        return dump.load()


class _DumpPickle(Pickle):
    def _unpickler(self) -> SafeUnpickler:
        unpickler = super()._unpickler()
        unpickler.keep_scalars()
        return unpickler
