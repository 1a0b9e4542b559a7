"""Reading `.pt` files: recognise them, try them out in a limited child, then read them here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rolloutds.errors import TorchFileError
from rolloutds.torch_file.archive import OpenFile
from rolloutds.torch_file.budget import Budget
from rolloutds.torch_file.pickled import Pickle, collector_paused, open_pickle
from rolloutds.torch_file.trial import Trial, try_out

# All files of a batch are open at once; macOS lets a process have 256.
_BATCH_FILES = 100


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
    return read_opened(open_pickle(OpenFile(path), budget), budget)


def read_pickle(path: str | os.PathLike[str], *, budget: Budget = Budget()) -> Any:  # noqa: B008 - frozen
    """As `read`, for a file that may also be a plain pickle (``.pkl``).

    Raises:
        TorchFileError: as for `read`.
    """
    return read_opened(open_pickle(OpenFile(path), budget, may_be_plain=True), budget)


def read_many(
    paths: Sequence[str | os.PathLike[str]],
    *,
    budget: Budget = Budget(),  # noqa: B008 - frozen
    may_be_plain: bool = False,
) -> list[Any]:
    """The values in many files, in their order; for one that cannot be read, its `TorchFileError`.

    One child process tries out many files, which costs a tenth of `read` for each of them where
    they are small. A file that fails its trial fails alone.

    Args:
        paths: the files.
        budget: limits on each of them.
        may_be_plain: whether they may also be plain pickles, as for `read_pickle`.
    """
    values: list[Any] = []
    for start in range(0, len(paths), _BATCH_FILES):
        values += _read_batch(paths[start : start + _BATCH_FILES], budget, may_be_plain)
    return values


def read_opened(found: Pickle, budget: Budget) -> Any:
    """The value of an opened pickle, once a child has read it well.

    Raises:
        TorchFileError: as for `read`.
    """
    with Trial([found], budget) as trial:
        found.check()  # takes a second for each gigabyte, and the child is at work
        return load_tried(found, trial.outcome())  # the child ends meanwhile


def load_tried(found: Pickle, error: TorchFileError | None) -> Any:
    """The value of a pickle, by what came of its trial.

    Raises:
        TorchFileError: the trial's.
    """
    if error is not None:
        raise error
    with collector_paused():
        return found.load()


def _checked(path: str | os.PathLike[str], budget: Budget, **options: bool) -> Pickle:
    found = open_pickle(OpenFile(path), budget, **options)
    found.check()
    return found


def _read_batch(
    paths: Sequence[str | os.PathLike[str]],
    budget: Budget,
    may_be_plain: bool,  # noqa: FBT001 - named at the public door
) -> list[Any]:
    opened: list[Any] = []
    for path in paths:
        try:
            opened.append(_checked(path, budget, may_be_plain=may_be_plain))
        except TorchFileError as error:
            opened.append(error)
    errors = iter(try_out([found for found in opened if isinstance(found, Pickle)], budget))
    with collector_paused():
        return [
            _loaded(found, next(errors)) if isinstance(found, Pickle) else found for found in opened
        ]


def _loaded(found: Pickle, error: TorchFileError | None) -> Any:
    try:
        return error or found.load()
    except TorchFileError as changed:  # since the trial
        return changed
