"""Cursor files: our own, and those of other systems.

A dialect is one class with its file, and one line in `DIALECTS`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rolloutds.checkpoints.base import (
    UNLIKE,
    CursorFile,
    Dialect,
    FoundFile,
    ends_like,
    find_layout,
    id_beside,
    id_in_path,
)
from rolloutds.checkpoints.listing import (
    DAMAGED,
    FOREIGN,
    OK,
    Entry,
    Listing,
    make_listing,
)
from rolloutds.checkpoints.many import ReadFile, read_many
from rolloutds.checkpoints.prime_rl import PrimeRLDialect
from rolloutds.checkpoints.slime_form import RolloutdsDialect, SlimeDialect
from rolloutds.checkpoints.stateful_dataloader import StatefulDataLoaderDialect
from rolloutds.errors import (
    CheckpointError,
    MissingStateError,
    RolloutDSError,
    TorchFileError,
)

_STEP_LAYOUTS = ("global_step_{id}/data.pt", "data.pt")
_NEMO_LAYOUTS = tuple(
    folder + name
    for folder in ("step_{id}/", "")
    for name in ("train_dataloader.pt", "train_dataloader_{name}.pt")
)

DIALECTS: Mapping[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        RolloutdsDialect(),
        SlimeDialect(),
        StatefulDataLoaderDialect(
            "verl",
            "verl",
            layouts=_STEP_LAYOUTS,
            neighbours=("../latest_checkpointed_iteration.txt",),
        ),
        StatefulDataLoaderDialect(
            "skyrl",
            "SkyRL",
            layouts=_STEP_LAYOUTS,
            neighbours=("../latest_ckpt_global_step.txt", "trainer_state.pt"),
        ),
        StatefulDataLoaderDialect("nemo-rl", "NeMo-RL", layouts=_NEMO_LAYOUTS),
        StatefulDataLoaderDialect(
            "openrlhf",
            "OpenRLHF",
            layouts=("global_step{id}/mp_rank_00_model_states.pt",),
            wraps="an object with data_loader_state_dict",
        ),
        StatefulDataLoaderDialect(
            "areal", "AReaL", layouts=("dataloader_info.pkl",), has_ranks=True
        ),
        PrimeRLDialect(),
    )
}
"""Every dialect by the name that ``--dialect`` takes: one line each."""


def open_file(path: Path, *, dialect_name: str | None = None) -> CursorFile:
    """A cursor file, read safely and recognised.

    Args:
        path: the file.
        dialect_name: the dialect it is taken for, whatever it looks like.

    Raises:
        TorchFileError: it is damaged, or no such file at all.
        CheckpointError: it is readable and of no known dialect.
    """
    return as_cursor_file(path, read_value(path), dialect_name=dialect_name)


def read_value(path: Path) -> Any:
    """What is in a cursor file, whatever it is.

    Raises:
        TorchFileError: it is damaged, or no such file at all.
    """
    from rolloutds import torch_file

    is_pickle = path.suffix == ".pkl"
    return torch_file.read_pickle(path) if is_pickle else torch_file.read(path)


def as_cursor_file(path: Path, value: Any, *, dialect_name: str | None = None) -> CursorFile:
    """A value that was read from `path`, recognised.

    Raises:
        CheckpointError: it is of no known dialect.
    """
    candidates = [DIALECTS[dialect_name]] if dialect_name else recognise(value, path)
    if not candidates:
        raise unknown(path, value)
    dialect = candidates[0]
    try:
        position = dialect.position(value)
        status = path.stat()
    except CheckpointError as error:
        error.where = error.where or str(path)
        raise
    except OSError as error:
        raise TorchFileError(f"cannot be read ({error.strerror})", where=str(path)) from error
    return CursorFile(
        path=path,
        rollout_id=id_of(path),
        value=value,
        dialect=dialect,
        candidates=candidates,
        position=position,
        modified=status.st_mtime,
        num_bytes=status.st_size,
    )


def id_of(path: Path) -> int | None:
    """The number in the file's name, else the one that AReaL writes beside it."""
    rollout_id = id_in_path(path, _all_layouts())
    return rollout_id if rollout_id is not None else id_beside(path)


def recognise(value: Any, path: Path) -> list[Dialect]:
    """The dialects a value looks most like; several when nothing tells them apart."""
    likeness = {name: dialect.likeness(value, path) for name, dialect in DIALECTS.items()}
    most = max(likeness.values())
    if most == UNLIKE:
        return []
    return [dialect for name, dialect in DIALECTS.items() if likeness[name] == most]


def unknown(path: Path, value: Any) -> CheckpointError:
    """The refusal of a file of no known dialect."""
    looked_for = dict.fromkeys(dialect.looked_for for dialect in DIALECTS.values())
    return CheckpointError(
        f"holds {_outline(value)}, and no cursor of a known dialect",
        where=str(path),
        expected="; or ".join(looked_for),
        hint="--raw shows what is in it; --dialect takes it for one all the same",
    )


def _outline(value: Any) -> str:
    if not isinstance(value, dict):
        return f"a {getattr(value, 'class_name', type(value).__name__)}"
    keys = [str(key) if isinstance(key, str | int) else type(key).__name__ for key in value]
    shown = ", ".join(key[:40] for key in keys[:8]) or "nothing"
    return f"an object with {shown}" + (f" and {len(keys) - 8} more" if len(keys) > 8 else "")


def find_files(folder: Path) -> list[FoundFile]:
    """Every file below `folder` that lies and is named as a cursor file, layout by layout."""
    return [found for layout in _all_layouts() for found in find_layout(folder, layout)]


def require_files(folder: Path) -> list[FoundFile]:
    """As `find_files`, and at least one.

    Raises:
        MissingStateError: there is no such folder, or no cursor file in it.
    """
    found = find_files(folder)
    if not found:
        raise _nothing_found(folder)
    return found


def files_beside(path: Path) -> list[FoundFile]:
    """The files that lie beside a cursor file as its own layout has it, itself included."""
    for layout in sorted(_all_layouts(), key=len, reverse=True):
        if "{id}" in layout and ends_like(path, layout):
            return find_layout(path.absolute().parents[layout.count("/")], layout)
    return []


def _all_layouts() -> list[str]:
    return list(dict.fromkeys(layout for d in DIALECTS.values() for layout in d.layouts))


def list_folder(folder: Path, *, dialect_name: str | None = None) -> Listing:
    """The cursor files of a folder, each read and recognised; damaged ones are entries too.

    Raises:
        MissingStateError: there is no such folder, or no cursor file in it.
    """
    found = require_files(folder)
    read = read_many([file.path for file in found])
    entries = [_entry(file, done, dialect_name) for file, done in zip(found, read, strict=True)]
    return make_listing(folder, entries)


def _entry(found: FoundFile, read: ReadFile, dialect_name: str | None) -> Entry:
    state, file = DAMAGED, None
    error: RolloutDSError | None = read.error
    if error is None:
        try:
            file, state = as_cursor_file(found.path, read.value, dialect_name=dialect_name), OK
        except (CheckpointError, TorchFileError) as refused:
            state, error = FOREIGN, refused
    num_bytes, modified = _size_and_time(found.path)
    if file is not None:
        found = found._replace(rollout_id=file.rollout_id)
    return Entry(found, state, file, error, num_bytes, modified)


def _size_and_time(path: Path) -> tuple[int | None, float | None]:
    try:
        status = path.stat()
    except OSError:
        return None, None
    return status.st_size, status.st_mtime


def _closed_folder(folder: Path) -> Path | None:
    """The folder, or one in it, whose files may not be listed; None without one."""
    try:
        folders = [folder, *(path for path in folder.iterdir() if path.is_dir())]
    except PermissionError:
        return folder
    return next((path for path in folders if not os.access(path, os.R_OK | os.X_OK)), None)


def _nothing_found(folder: Path) -> MissingStateError:
    if folder.exists() and not folder.is_dir():
        return MissingStateError(
            "is a file",
            where=str(folder),
            expected="a folder of cursor files",
            hint="`rolloutds ckpt show` shows one file",
        )
    if not folder.is_dir():
        return MissingStateError("no such file or folder", where=str(folder))
    closed = _closed_folder(folder)
    if closed is not None:
        return MissingStateError("cannot be looked into (Permission denied)", where=str(closed))
    return MissingStateError(
        "no cursor file in this folder",
        where=str(folder),
        expected="; ".join(_all_layouts()),
        hint="name the folder that the run saves in, or a file",
    )
