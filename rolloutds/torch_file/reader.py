"""Reading a `.pt` file: recognise it, try it out in a limited child, then read it here."""

from __future__ import annotations

import os
from typing import Any

from rolloutds.torch_file.archive import OpenFile
from rolloutds.torch_file.budget import Budget
from rolloutds.torch_file.pickled import collector_paused, open_pickle
from rolloutds.torch_file.trial import try_out


def read(path: str | os.PathLike[str], *, budget: Budget = Budget()) -> Any:  # noqa: B008 - frozen
    """The value in a file that `torch.save` wrote, without torch and without running anything.

    Plain values come back as they are (OrderedDict, defaultdict and Counter as dict, NumPy
    scalars as the Python number or text they equal, dates and times as themselves). Tensors
    come back as `TensorValue`, NumPy arrays as `ArrayValue`, anything else as an inert
    `ForeignObject` or `ForeignClass`. What the file shares is shared in the result: a list that
    occurs twice is one object, so a small file can describe a value that is huge when printed
    and circular; whoever walks it should visit each object once.

    Args:
        path: the file.
        budget: limits; a child process holds to them before anything is read here.

    Raises:
        TorchFileError: the file is missing, damaged, of another form or beyond the budget.
    """
    return _read(OpenFile(path), budget, plain=False)


def read_pickle(path: str | os.PathLike[str], *, budget: Budget = Budget()) -> Any:  # noqa: B008 - frozen
    """As `read`, for a file that may also be a plain pickle (``.pkl``).

    Raises:
        TorchFileError: as for `read`.
    """
    return _read(OpenFile(path), budget, plain=True)


def _read(file: OpenFile, budget: Budget, *, plain: bool) -> Any:
    found = open_pickle(file, budget, plain=plain)
    found.check()
    try_out(found, budget)
    with collector_paused():
        return found.load()
