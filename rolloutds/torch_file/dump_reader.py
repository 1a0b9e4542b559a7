"""Reading a rollout dump: its lists of numbers packed, its NumPy scalars kept as such."""

from __future__ import annotations

import os
from typing import Any

from rolloutds.torch_file.ahead import tried_ahead
from rolloutds.torch_file.archive import OpenFile
from rolloutds.torch_file.budget import Budget
from rolloutds.torch_file.pickled import Pickle, open_pickle
from rolloutds.torch_file.reader import load_tried, read_opened
from rolloutds.torch_file.unpickler import SafeUnpickler


def read_dump(path: str | os.PathLike[str], *, budget: Budget = Budget()) -> Any:  # noqa: B008 - frozen
    """As `read`, with lists of numbers packed and with NumPy scalars as `ScalarValue`.

    Lists of numbers may come back as `PackedList`, which `unpacked` turns: a dump takes about its
    own size in memory this way, where `read` takes several times that. Scalars are numbers and
    text all the same: only a writer looks at what else they are.

    Raises:
        TorchFileError: as for `read`.
    """
    tried = tried_ahead(str(path))
    if tried is None:
        return read_opened(_as_dump(open_pickle(OpenFile(path), budget, is_packed=True)), budget)
    tried.pickle.check()
    return load_tried(_as_dump(tried.pickle), tried.error)


def _as_dump(found: Pickle) -> Pickle:
    return _DumpPickle(found.file, found.archive, is_packed=True)


class _DumpPickle(Pickle):
    def _unpickler(self) -> SafeUnpickler:
        unpickler = super()._unpickler()
        unpickler.keep_scalars()
        return unpickler
