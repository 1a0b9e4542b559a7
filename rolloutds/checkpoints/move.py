"""A state moved to another place in the data: a new state, its counters those that belong there."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rolloutds import torch_file
from rolloutds.checkpoints.base import CursorFile, Finding, is_count
from rolloutds.checkpoints.native import OUR_KEY, our_part
from rolloutds.checkpoints.slime_form import (
    REFERENCE_KEYS,
    SlimeDialect,
    buffered_groups,
    fingerprint_in,
    group_index_in,
    in_flight_groups,
    our_part_of,
)
from rolloutds.checkpoints.verify import Against, examine
from rolloutds.cursor import Cursor
from rolloutds.errors import CheckpointError, ConfigError, StateMismatchError

Waiting = Literal["refuse", "drop", "keep"]
"""What becomes of groups that wait in a state that is moved."""


@dataclass(frozen=True)
class Target:
    """Where a state is moved to.

    Attributes:
        epoch_id: the epoch.
        sample_offset: groups of it already served.
        num_rows: rows of an epoch.
        n_samples_per_prompt: samples in a group.
        fingerprint: the identity of the data it is moved in.
    """

    epoch_id: int
    sample_offset: int
    num_rows: int
    n_samples_per_prompt: int
    fingerprint: dict[str, Any] | None

    @property
    def cursor(self) -> Cursor:
        """The four numbers of a run that drew every group up to there."""
        return Cursor.at(
            self.epoch_id, self.sample_offset, self.num_rows, self.n_samples_per_prompt
        )


def target_of(
    file: CursorFile, epoch_id: int, sample_offset: int, against: Against | None
) -> Target:
    """Where a move goes, with the rows and the group size of the state and the data.

    Raises:
        CheckpointError: the state is of a system whose counters are not ours to make.
        ConfigError: the place does not exist, or neither state nor call say what is needed.
        StateMismatchError: the state belongs to other data.
    """
    if not isinstance(file.dialect, SlimeDialect):
        raise CheckpointError(
            f"a state of {file.systems}",
            where=str(file.path),
            expected="one of rolloutds, slime, miles or vime",
        )
    fingerprint = fingerprint_in(file.value)
    if against is not None:
        _check_belongs(file, against)
    elif fingerprint is None:
        raise ConfigError(
            "the state has no fingerprint, so nothing says how long an epoch is",
            where=str(file.path),
            hint="name the data with --prompt-data; the new state will carry its fingerprint",
        )
    num_rows = against.num_rows if against else file.position.num_rows
    size = against.n_samples_per_prompt if against else None
    size = size or file.position.n_samples_per_prompt
    if num_rows is None or size is None:
        raise ConfigError(
            "the state does not say how many samples a group has"
            if size is None
            else "the state does not say how many rows an epoch has",
            where=str(file.path),
            hint="give --n-samples-per-prompt and --prompt-data, as the run has them",
        )
    if sample_offset > num_rows:
        raise ConfigError(
            f"offset {sample_offset} is beyond the {num_rows} rows of an epoch",
            expected=f"0 to {num_rows}",
        )
    identity = dict(against.fingerprint) if against else fingerprint
    return Target(epoch_id, sample_offset, num_rows, size, identity)


def _check_belongs(file: CursorFile, against: Against) -> None:
    other = [f for f in examine(file, against) if f.code in ("CKPT010", "CKPT013")]
    if other:
        raise StateMismatchError(
            [_sentence(finding) for finding in other],
            where=str(file.path),
            hint="name the data and settings that the run had",
        )


def _sentence(finding: Finding) -> str:
    return f"{finding.field}: {finding.what}"


def moved_state(
    file: CursorFile, target: Target, *, buffer: Waiting, in_flight: Waiting
) -> dict[str, Any]:
    """The state as it is at the target, with a note of what was changed under ``"moved"``.

    Args:
        file: the state; it is not changed.
        target: where it is moved to.
        buffer: what becomes of the groups in the buffer.
        in_flight: what becomes of the groups in flight.

    Raises:
        ConfigError: groups wait and nothing says what is to become of them, or they are kept
            though their indices will be given again.
    """
    groups = _waiting(file, target, "buffer", buffered_groups(file.value), buffer)
    flying = _waiting(file, target, "in flight", in_flight_groups(file.value), in_flight)
    state = {key: value for key, value in file.value.items() if key != OUR_KEY}
    ours = dict(our_part_of(file.value)) or our_part(
        fingerprint=None, n_samples_per_prompt=0, buffer=[], in_flight=_no_ledger()
    )
    ledger = ours["in_flight"] if isinstance(ours.get("in_flight"), dict) else _no_ledger()
    ours |= {
        "fingerprint": target.fingerprint,
        "n_samples_per_prompt": target.n_samples_per_prompt,
        "buffer": groups,
        "in_flight": ledger | {"groups": flying},
        "moved": _note(file, buffer, in_flight),
    }
    return {"metadata": {}} | state | target.cursor.state_dict() | {OUR_KEY: ours}


def _no_ledger() -> dict[str, Any]:
    return {"groups": [], "num_completed": 0, "num_discarded": {}}


def _waiting(
    file: CursorFile, target: Target, name: str, groups: Sequence[Any], choice: Waiting
) -> list[Any]:
    if not groups or choice == "drop":
        return []
    flag = name.replace(" ", "-")
    if choice == "refuse":
        raise ConfigError(
            f"{len(groups)} groups are {'in the buffer' if name == 'buffer' else name}",
            where=str(file.path),
            hint=f"--drop-{flag} leaves them out of the new state, --keep-{flag} keeps them",
        )
    drawn = target.cursor.sample_group_index
    again = [i for i in map(group_index_in, groups) if i is not None and i >= drawn]
    if again:
        raise ConfigError(
            f"group {again[0]} ({name}) has an index that is given again from {drawn} on",
            where=str(file.path),
            hint=f"moving back needs --drop-{flag}: its rows are served again anyway",
        )
    return list(groups)


def _note(file: CursorFile, buffer: Waiting, in_flight: Waiting) -> dict[str, Any]:
    value = file.value
    before = our_part_of(value).get("moved")
    note: dict[str, Any] = {
        "from": {key: value[key] for key in REFERENCE_KEYS[:4] if is_count(value.get(key))},
        "file": file.path.name,
        "num_dropped_buffer": len(buffered_groups(value)) if buffer == "drop" else 0,
        "num_dropped_in_flight": len(in_flight_groups(value)) if in_flight == "drop" else 0,
        "at": datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds"),
    }
    return note | ({"before": before} if isinstance(before, dict) else {})


def write_moved(path: Path, new: Path, state: dict[str, Any]) -> None:
    """Writes a moved state to a new file.

    Raises:
        ConfigError: there is something at that path.
        CheckpointError: it cannot be written.
        MissingExtraError: torch is not installed.
    """
    if new.exists() or new.is_symlink():
        what = "is the state itself" if new.exists() and new.samefile(path) else "is there already"
        raise ConfigError(
            what, where=str(new), expected="a new file", hint="a state is never changed in place"
        )
    if not new.parent.is_dir():
        raise ConfigError("no such folder", where=str(new.parent))
    torch_file.write(new, state)
