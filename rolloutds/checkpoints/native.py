"""The state file of a data source: slime's keys on top, ours under one extra key.

slime, miles and vime load it unchanged; theirs load here, with a warning for what they lack.
"""

from __future__ import annotations

import copy
import logging
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import rolloutds.torch_file as torch_file
from rolloutds.checkpoints.native_parts import (
    GroupReader,
    Part,
    foreign_class,
    read_discarded,
    read_fingerprint,
    shown,
)
from rolloutds.cursor import Cursor
from rolloutds.errors import (
    CheckpointError,
    ConfigError,
    MissingStateError,
    StateMismatchError,
    TorchFileError,
    UnsavableValueError,
)
from rolloutds.fingerprint import Fingerprint, compare
from rolloutds.in_flight import DrawnGroup

_logger = logging.getLogger("rolloutds")

OUR_KEY = "rolloutds"
FORMAT_VERSION = 1
_FILE_NAME = re.compile(r"global_dataset_state_dict_(0|[1-9][0-9]*)\.pt")
_REQUIRED_KEYS = ("sample_offset", "epoch_id", "sample_index", "metadata")


class Run(NamedTuple):
    """What a state is held against: the data and settings of the run that loads it.

    Attributes:
        num_rows: rows served in an epoch; None without a dataset.
        fingerprint: the dataset's; None without one.
        n_samples_per_prompt: samples a group.
        has_buffer: whether the source has one.
        ignore_mismatch: whether differences are said only (`on_state_mismatch`).
        num_rows_unfiltered: rows before the length filter, to which groups are named; None with a
            dataset: not checked.
    """

    num_rows: int | None
    fingerprint: Fingerprint | None
    n_samples_per_prompt: int
    has_buffer: bool
    ignore_mismatch: bool
    num_rows_unfiltered: int | None = None


@dataclass
class SavedState:
    """A state that was read and fits the run.

    Attributes:
        cursor: the four numbers.
        metadata: free-form values.
        buffer: the waiting groups.
        in_flight: groups that were handed out and not settled, to be served first.
        num_completed: groups completed so far.
        num_discarded: groups discarded so far, by reason.
        warnings: what the user should know.
    """

    cursor: Cursor
    metadata: dict[str, Any]
    buffer: list[DrawnGroup] = field(default_factory=list)
    in_flight: list[DrawnGroup] = field(default_factory=list)
    num_completed: int = 0
    num_discarded: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def our_part(
    *,
    fingerprint: Fingerprint | None,
    n_samples_per_prompt: int,
    buffer: list[DrawnGroup],
    in_flight: dict[str, Any],
) -> dict[str, Any]:
    """What we save beside the reference's keys, as plain values."""
    return {
        "format_version": FORMAT_VERSION,
        "fingerprint": copy.deepcopy(fingerprint),
        "n_samples_per_prompt": n_samples_per_prompt,
        # Samples as they are, as in a buffer file; an untouched group is named by its row.
        "buffer": [group.samples or group.state_dict() for group in buffer],
        "in_flight": in_flight,
    }


# --- files --------------------------------------------------------------------------------


def state_folder(folder: str | Path) -> Path:
    """Where the state files of a checkpoint folder are."""
    return Path(folder).expanduser() / "rollout"


def state_path(folder: str | Path, rollout_id: int) -> Path:
    """The state file of a rollout."""
    return state_folder(folder) / f"global_dataset_state_dict_{rollout_id}.pt"


def checked_id(rollout_id: Any, *, least: int = 0) -> int:
    """A rollout id as a plain number.

    Raises:
        ConfigError: it is no whole number, or below `least`.
    """
    try:
        number = operator.index(rollout_id)
    except TypeError as error:
        raise ConfigError(f"rollout id {rollout_id!r}", expected="a whole number") from error
    if number < least:
        raise ConfigError(f"rollout id {number}", expected=f"{least} or more")
    return number


def saved_ids(folder: str | Path) -> list[int]:
    """Rollout ids with a state file, ascending."""
    try:
        paths = list(state_folder(folder).iterdir())
    except OSError:
        return []
    return sorted(
        int(match[1])
        for path in paths
        if (match := _FILE_NAME.fullmatch(path.name)) and path.is_file()
    )


def write_state(folder: str | None, rollout_id: int, state: dict[str, Any]) -> Path:
    """Writes a state file, whole or not at all.

    Raises:
        CheckpointError: no folder is named, or it cannot be written; an old file is untouched.
        UnsavableValueError: a value is not plain data.
    """
    if folder is None:
        raise ConfigError("`save` is not set", hint="name the checkpoint folder with `save`")
    path = state_path(folder, rollout_id)
    _check_loadable(state, str(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(
            f"cannot be made ({error.strerror})", where=str(path.parent), expected="a folder"
        ) from error
    torch_file.write(path, state)
    return path


def _check_loadable(state: Mapping[str, Any], where: str) -> None:
    """What `load` would refuse is refused now: the run that could still mend it is at hand."""
    ours, reader = Part(state[OUR_KEY], where, OUR_KEY), GroupReader()
    try:
        Part(state["metadata"], where, "metadata").mapping(any_key=True)
        for group in ours["buffer"].items():
            reader.buffered(group)
        for group in ours["in_flight"]["groups"].items():
            reader.drawn(group)
    except CheckpointError as error:
        raise UnsavableValueError(error.what, where=where, expected=error.expected) from error


def prune(folder: str | Path, rollout_id: int, *, keep_last: int) -> list[Path]:
    """Removes state files older than the `keep_last` newest up to `rollout_id`.

    Files of later rollouts (of a run that was resumed further back) are left alone. Files are
    counted, not read: the newest of them has just been written, and is good.
    """
    old = [i for i in saved_ids(folder) if i <= rollout_id][:-keep_last]
    paths = [state_path(folder, i) for i in old]
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            # The state that was asked for is written; an old file too many stops no run.
            _logger.warning("%s cannot be removed (%s)", path, error.strerror)
    return paths


def load_state(
    folder: str | Path, rollout_id: int, *, missing_is_fresh: bool
) -> dict[str, Any] | None:
    """The state saved for a rollout, unchecked; None for a fresh start in place of a missing file.

    Raises:
        MissingStateError: there is no such file.
        TorchFileError: it is damaged; the hint names the last good one.
    """
    path = state_path(folder, rollout_id)
    if not _is_there(path):
        if not missing_is_fresh:
            raise _missing(folder, rollout_id)
        _logger.warning("%s does not exist: starting at the first prompt", path)
        return None
    try:
        state = torch_file.read(path)
    except TorchFileError as error:
        error.hint = _hint_last_good(folder, rollout_id)
        raise
    if not isinstance(state, dict):
        raise CheckpointError(
            f"holds a {type(state).__name__}", where=str(path), expected="the state of a source"
        )
    return state


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise CheckpointError(
            f"cannot be opened ({error.strerror})", where=str(path), expected="a state file"
        ) from error


def _missing(folder: str | Path, rollout_id: int) -> MissingStateError:
    path, ids = state_path(folder, rollout_id), saved_ids(folder)
    found = f"there are states for rollouts {_listed(ids)}" if ids else "there is none at all"
    nearest = min(ids, key=lambda i: abs(i - rollout_id), default=None)
    return MissingStateError(
        f"no state for rollout {rollout_id}; {found}",
        where=str(path),
        hint=(f"load {nearest}, the nearest; " if nearest is not None else "")
        + "set on_missing_state=fresh to start at the first prompt",
    )


def _listed(ids: list[int]) -> str:
    if len(ids) <= 8:
        return ", ".join(map(str, ids))
    return f"{', '.join(map(str, ids[:3]))}, … {', '.join(map(str, ids[-3:]))} ({len(ids)} in all)"


def _hint_last_good(folder: str | Path, rollout_id: int) -> str:
    for good in reversed([i for i in saved_ids(folder) if i < rollout_id]):
        try:
            torch_file.read(state_path(folder, good))
        except TorchFileError:
            continue
        return f"the last good state before it is that of rollout {good}"
    return "there is no good state before it"


# --- contents -----------------------------------------------------------------------------


def read_state(state: Any, *, where: str, run: Run) -> SavedState:
    """The state as a run takes it over; nothing is taken when it does not fit.

    Raises:
        CheckpointError: a key is missing, or a value is not what belongs there.
        StateMismatchError: it belongs to other data or settings.
    """
    if not isinstance(state, Mapping):
        raise CheckpointError(shown(state), where=where, expected="the state of a source")
    try:
        return _read_state(state, where, run)
    except RecursionError as error:
        raise CheckpointError(
            "nested too deeply", where=where, expected="the state of a source"
        ) from error


def _read_state(state: Mapping[str, Any], where: str, run: Run) -> SavedState:
    warnings: list[str] = []
    cursor = _read_cursor(state, where, run, warnings)
    saved = SavedState(cursor, _read_metadata(state, where), warnings=warnings)
    if OUR_KEY not in state:
        warnings.append(f"{where}: written without a fingerprint; only its numbers are checked")
        _check_identities(cursor, where, run, warnings)
        return saved
    ours = Part(state[OUR_KEY], where, OUR_KEY)
    _check_version(ours, where)
    size = _read_ours(ours, saved)
    _check_fits(read_fingerprint(ours["fingerprint"]), size, saved, where, run)
    _check_rows(saved, where, run)
    return saved


def _read_cursor(state: Mapping[str, Any], where: str, run: Run, warnings: list[str]) -> Cursor:
    missing = [key for key in _REQUIRED_KEYS if key not in state]
    if missing:
        raise CheckpointError(
            f"lacks {', '.join(missing)}",
            where=where,
            expected=f"the keys {', '.join((*_REQUIRED_KEYS, 'sample_group_index'))}",
        )
    numbers = {key: Part(state[key], where, key).count() for key in _REQUIRED_KEYS[:3]}
    if "sample_group_index" in state:
        group_index = Part(state["sample_group_index"], where, "sample_group_index").count()
    else:
        group_index = _derived_group_index(numbers["sample_index"], where, run, warnings)
    offset = numbers["sample_offset"]
    if run.num_rows is not None and offset > run.num_rows:
        warnings.append(
            f"{where}: sample_offset {offset} is beyond the {run.num_rows} rows (the mark of a "
            f"short wrap, or of a larger dataset); {run.num_rows} is used, so the next draw begins "
            "the next epoch"
        )
        offset = run.num_rows
    return Cursor(numbers["epoch_id"], offset, group_index, numbers["sample_index"])


def _derived_group_index(sample_index: int, where: str, run: Run, warnings: list[str]) -> int:
    size = run.n_samples_per_prompt
    if sample_index % size:
        raise CheckpointError(
            f"lacks sample_group_index, and sample_index {sample_index} is no multiple of "
            f"n_samples_per_prompt {size}",
            where=where,
        )
    warnings.append(f"{where}: lacks sample_group_index; {sample_index // size} follows from n")
    return sample_index // size


def _read_metadata(state: Mapping[str, Any], where: str) -> dict[str, Any]:
    metadata = Part(state["metadata"], where, "metadata").mapping(any_key=True)
    _refuse_foreign(metadata, "metadata", where)
    return dict(torch_file.to_live(metadata))


def _refuse_foreign(value: Any, way: str, where: str) -> None:
    foreign = foreign_class(value, way)
    if foreign:
        raise CheckpointError(
            foreign,
            where=where,
            expected="plain values and tensors",
            hint="no class is loaded from a file: save plain values that it can be made from",
        )


def _check_identities(cursor: Cursor, where: str, run: Run, warnings: list[str]) -> None:
    group_index = cursor.sample_group_index
    if cursor.sample_index != group_index * run.n_samples_per_prompt:
        warnings.append(
            f"{where}: sample_index {cursor.sample_index} is not sample_group_index {group_index} "
            f"times n_samples_per_prompt {run.n_samples_per_prompt}: was n another before?"
        )
    if run.num_rows is None:
        return
    expected = cursor.epoch_id * run.num_rows + cursor.sample_offset
    if group_index != expected:
        warnings.append(
            f"{where}: sample_group_index is {group_index}, and {expected} groups lie before epoch "
            f"{cursor.epoch_id}, offset {cursor.sample_offset} of {run.num_rows} rows: was the "
            "dataset another before?"
        )


def _check_version(ours: Part, where: str) -> None:
    version = ours["format_version"]
    if version.value == FORMAT_VERSION and type(version.value) is int:
        return
    is_newer = type(version.value) is int and version.value > FORMAT_VERSION
    raise CheckpointError(
        f"state format version {shown(version.value)}",
        where=where,
        expected=f"version {FORMAT_VERSION}",
        hint="it was written by a newer rolloutds: install that one" if is_newer else None,
    )


def _read_ours(ours: Part, saved: SavedState) -> int:
    """Fills in our part; returns the group size that it was saved with."""
    _refuse_foreign(ours.mapping(), OUR_KEY, ours.file)
    in_flight, reader = ours["in_flight"], GroupReader()
    saved.buffer = [reader.buffered(group) for group in ours["buffer"].live().items()]
    saved.in_flight = [reader.drawn(group) for group in in_flight["groups"].live().items()]
    saved.num_completed = in_flight["num_completed"].count()
    saved.num_discarded = read_discarded(in_flight["num_discarded"])
    return ours["n_samples_per_prompt"].count()


def _check_fits(
    fingerprint: Fingerprint | None, size: int, saved: SavedState, where: str, run: Run
) -> None:
    refused = _group_differences(size, saved, run)
    for difference in compare(fingerprint, run.fingerprint):
        if difference.changes_order:
            refused.append(str(difference))
        else:
            saved.warnings.append(f"{where}: {difference}")
    if refused and not run.ignore_mismatch:
        raise StateMismatchError(
            refused,
            where=where,
            hint="resume with the data and settings the run had; "
            "on_state_mismatch=ignore resumes all the same",
        )
    saved.warnings += [f"{where}: {line} (ignored)" for line in refused]


def _group_differences(size: int, saved: SavedState, run: Run) -> list[str]:
    now, lines = run.n_samples_per_prompt, []
    for title, groups in (("the buffer", saved.buffer), ("flight", saved.in_flight)):
        sizes = {size if group.size is None else group.size for group in groups} - {now}
        if sizes:
            lines.append(f"group size in {title}: saved {sorted(sizes)}, now {now}")
    if saved.buffer and not run.has_buffer:
        lines.append(f"groups in the buffer: saved {len(saved.buffer)}, now no buffer")
    return lines


def _check_rows(saved: SavedState, where: str, run: Run) -> None:
    """Groups named by rows that this dataset does not have: refused, or left out and counted."""
    num_rows = 0 if run.num_rows is None else run.num_rows_unfiltered
    if num_rows is None:
        return
    for name in ("buffer", "in_flight"):
        groups: list[DrawnGroup] = getattr(saved, name)
        there = [g for g in groups if g.row_position is None or g.row_position < num_rows]
        num_beyond = len(groups) - len(there)
        if num_beyond and not run.ignore_mismatch:
            raise CheckpointError(
                f"{num_beyond} groups under {name} name rows beyond the {num_rows} of the dataset",
                where=where,
                expected="rows of the dataset",
                hint="the file was changed after it was written; use an earlier one",
            )
        if num_beyond:
            saved.warnings.append(
                f"{where}: {num_beyond} groups under {name} name rows beyond the {num_rows} of "
                "this dataset and are left out"
            )
            setattr(saved, name, there)
