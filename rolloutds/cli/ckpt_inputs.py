"""What the ``ckpt`` commands are given: a file or folder, and the data to hold it against."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rolloutds import checkpoints
from rolloutds.checkpoints.base import CursorFile, FoundFile
from rolloutds.checkpoints.slime_form import SlimeDialect, fingerprint_in
from rolloutds.cli import output
from rolloutds.cli.options import Invocation, say_left_out
from rolloutds.config import ResolvedConfig, resolve
from rolloutds.errors import (
    CheckpointError,
    ConfigError,
    MissingStateError,
    RolloutDSError,
    TorchFileError,
)
from rolloutds.sample_files import sample_data_folder
from rolloutds.storage import local_path, require_local

if TYPE_CHECKING:
    from rolloutds.checkpoints.native import SavedState
    from rolloutds.checkpoints.upcoming import Pick, UpcomingGroup
    from rolloutds.checkpoints.verify import Against
    from rolloutds.dataset import Dataset
    from rolloutds.sample import SampleGroup


_LARGEST_GROUP = 1 << 16
"""A file that claims larger groups is not believed: a group is made in memory."""


class Named(NamedTuple):
    """A file or folder, and the settings that go with it."""

    path: Path
    resolved: ResolvedConfig


def named_path(invocation: Invocation, path: str | None) -> Named:
    """The path given, else `load` or `save` of the config, else the sample run.

    Raises:
        ConfigError: a setting is wrong, or there is no sample run either.
        CheckpointError: the launch script names it, and it is not here.
    """
    config_file = Path(invocation.config_file) if invocation.config_file else None
    resolved = _resolved(invocation, config_file)
    folder = path or resolved.config.load or resolved.config.save
    if folder is None:
        sample = sample_data_folder() / "rolloutds.toml"
        resolved = _resolved(invocation, sample if sample.is_file() else None)
        folder = resolved.config.load
        if folder is None:
            raise ConfigError(
                "no cursor file or checkpoint folder is named", hint="name one, or set --load"
            )
        output.say(f"no checkpoint named: using the sample run ({folder})", label="note")
    for notice in resolved.notices:
        output.say(notice, label="note")
    if resolved.config.hf_checkpoint is not None:
        say_left_out(resolved, "trust_remote_code")
    if path is None:
        invocation.check_checkpoint_folder(folder)
    folder = local_path(folder)
    require_local(folder, where="PATH" if path is not None else "load")
    return Named(Path(folder).expanduser(), resolved)


def _resolved(invocation: Invocation, config_file: Path | None) -> ResolvedConfig:
    return resolve(
        invocation.flags,
        environment=os.environ,
        config_file=config_file,
        start_folder=Path.cwd(),
        script=invocation.script,
    )


# --- files --------------------------------------------------------------------------------


class Bad(NamedTuple):
    """A file that was passed over, and why."""

    found: FoundFile
    error: RolloutDSError


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The file a command looks at.

    Attributes:
        file: the file as it was read; None when it is of no known dialect.
        path: where it is.
        value: what is in a file of no known dialect.
        error: why it is of no known dialect.
        newer_bad: newer files of the folder that cannot be used.
    """

    path: Path
    file: CursorFile | None
    value: Any = None
    error: RolloutDSError | None = None
    newer_bad: Sequence[Bad] = ()

    def require(self) -> CursorFile:
        """The file.

        Raises:
            CheckpointError: it is of no known dialect.
        """
        if self.file is None:
            raise self.error or CheckpointError("holds no cursor", where=str(self.path))
        return self.file


def choose(
    path: Path, rollout_id: int | None, dialect: str | None, *, passes_bad: bool = True
) -> Chosen:
    """The file that is meant: the one named, the one of that id, or the newest of a folder.

    Args:
        path: a file or folder.
        rollout_id: the id in the folder.
        dialect: the dialect it is taken for.
        passes_bad: whether a newest file that cannot be used makes way for the one before it.

    Raises:
        MissingStateError: there is no such file.
        TorchFileError: it is damaged; the hint names the last good one before it.
        ConfigError: an id is given for a file.
    """
    if not path.is_dir():
        if not path.exists():
            raise MissingStateError(
                "no such file or folder",
                where=str(path),
                hint="`rolloutds ckpt list DIR` shows what is there",
            )
        if rollout_id is not None:
            raise ConfigError("--id is given, and the path is a file", where=str(path))
        return _open(path, dialect)
    found = _files_in(path)
    if rollout_id is not None:
        return _open(_of_id(path, found, rollout_id).path, dialect)
    if not passes_bad:
        return _open(found[-1].path, dialect)
    return _newest_good(found, dialect)


def _files_in(folder: Path) -> list[FoundFile]:
    """By ascending id; of several with one id the plainest name is the last."""
    found = reversed(checkpoints.require_files(folder))
    return sorted(found, key=lambda file: -1 if file.rollout_id is None else file.rollout_id)


def _of_id(folder: Path, found: Sequence[FoundFile], rollout_id: int) -> FoundFile:
    ids = [file.rollout_id for file in found if file.rollout_id is not None]
    for file in reversed(found):
        if file.rollout_id == rollout_id:
            return file
    nearest = min(ids, key=lambda i: abs(i - rollout_id), default=None)
    shown = ", ".join(map(str, ids if len(ids) <= 8 else ids[-8:]))
    raise MissingStateError(
        f"no file of id {rollout_id}; there {'are' if ids else 'is none'} {shown}",
        where=str(folder),
        hint=None if nearest is None else f"--id {nearest} is the nearest",
    )


def _open(path: Path, dialect: str | None) -> Chosen:
    try:
        value = checkpoints.read_value(path)
    except TorchFileError as error:
        error.hint = _hint_last_good(path, dialect) or error.hint
        raise
    try:
        return Chosen(path, checkpoints.as_cursor_file(path, value, dialect_name=dialect))
    except CheckpointError as error:
        return Chosen(path, None, value, error)


def _newest_good(found: Sequence[FoundFile], dialect: str | None) -> Chosen:
    bad: list[Bad] = []
    for file in reversed(found):
        try:
            opened = checkpoints.open_file(file.path, dialect_name=dialect)
        except (TorchFileError, CheckpointError) as error:
            bad.append(Bad(file, error))
        else:
            return Chosen(file.path, opened, newer_bad=bad)
    newest = bad[0].error
    newest.hint = f"none of the {len(bad)} files in the folder can be used"
    raise newest


def _hint_last_good(path: Path, dialect: str | None) -> str | None:
    """Which file of the same folder was the last good one before a damaged one."""
    before = [file for file in checkpoints.files_beside(path) if file.path != path.absolute()]
    own = checkpoints.id_of(path)
    for file in reversed([f for f in before if own is None or (f.rollout_id or -1) < own]):
        try:
            checkpoints.open_file(file.path, dialect_name=dialect)
        except (TorchFileError, CheckpointError):
            continue
        return f"the last good one before it is id {file.rollout_id}: {file.path}"
    return "there is no good one before it" if own is not None else None


def say_bad(chosen: Chosen) -> None:
    """Says which newer files cannot be used, and what is shown in their place."""
    for bad in chosen.newer_bad:
        output.say(bad.error.headline, label="error")
    if chosen.newer_bad and chosen.file is not None:
        output.say(f"the last good one is id {chosen.file.rollout_id}, shown here")


# --- data ---------------------------------------------------------------------------------


class Data:
    """The data a state is held against; opened when it is needed.

    Args:
        context: the call, for messages that repeat it.
        invocation: its shared options.
        resolved: its settings; what nobody set is taken from the state.
        file: the state.
    """

    def __init__(
        self, context: Any, invocation: Invocation, resolved: ResolvedConfig, file: CursorFile
    ) -> None:
        self._context = context
        self._invocation = invocation
        self._resolved, taken = _completed(resolved, file)
        self._taken = taken
        self._file = file

    @property
    def is_named(self) -> bool:
        """Whether anything names prompt data."""
        return self._resolved.config.prompt_data is not None

    @property
    def is_given(self) -> bool:
        """Whether this call names it, not a config file that lies around."""
        origin = self._resolved.origins["prompt_data"]
        return origin.startswith(("flag", "variable")) or (
            self.is_named and self._invocation.config_file is not None
        )

    @cached_property
    def dataset(self) -> Dataset:
        """The rows.

        Raises:
            ConfigError: no data is named.
            DataError: the data cannot be used.
        """
        from rolloutds.cli.guessed_keys import open_with_guessed_keys

        if not self.is_named:
            raise ConfigError(
                "this needs the prompt data, which is not named",
                hint="name it with --prompt-data, and the run's settings as for `peek`",
            )
        if self._taken:
            output.say(f"taken from the saved state: {', '.join(self._taken)}", label="note")
        return open_with_guessed_keys(self._context, self._invocation, self._resolved)

    @cached_property
    def against(self) -> Against:
        """What the state is held against."""
        from rolloutds.checkpoints.verify import Against

        size = self.dataset.config.n_samples_per_prompt
        is_set = self._resolved.is_set("n_samples_per_prompt")
        return Against(
            num_rows=len(self.dataset),
            num_rows_in_files=len(self.dataset.rows),
            fingerprint=self.dataset.fingerprint,
            n_samples_per_prompt=size if is_set else None,
        )

    # --- what comes next ------------------------------------------------------------------

    def upcoming(
        self, num_groups: int, num_rows: int | None, *, pick: Pick | None = None
    ) -> list[UpcomingGroup]:
        """The next groups of the state; `pick` takes from its buffer, first in first out if None.

        Raises:
            CheckpointError: the state cannot say, or does not fit the data.
            ConfigError: no data is named.
            DataError: the data cannot be used.
        """
        if isinstance(self._file.dialect, SlimeDialect):
            return self._upcoming_groups(num_groups, pick or _pick_first)
        if self._file.dialect.name == "prime-rl":
            raise CheckpointError(
                "prime-rl draws from its environments' own samplers: the file holds no order",
                where=str(self._file.path),
            )
        return self._upcoming_rows(num_groups, num_rows)

    def saved(self) -> SavedState:
        """The state as a run with this data takes it over.

        Raises:
            CheckpointError: it does not fit the data, or is not of slime's form.
            DataError: the data cannot be used.
        """
        from rolloutds.checkpoints import native

        config = self.dataset.config
        run = native.Run(
            num_rows=len(self.dataset),
            num_rows_unfiltered=len(self.dataset.rows),
            fingerprint=self.dataset.fingerprint,
            n_samples_per_prompt=config.n_samples_per_prompt,
            has_buffer=True,
            ignore_mismatch=config.on_state_mismatch == "ignore",
        )
        return native.read_state(self._file.value, where=str(self._file.path), run=run)

    def _upcoming_groups(self, num_groups: int, pick: Pick) -> list[UpcomingGroup]:
        from rolloutds.checkpoints.upcoming import upcoming

        return list(upcoming(self.saved(), self.dataset, num_groups, pick=pick))

    def _upcoming_rows(self, count: int, num_rows: int | None) -> list[UpcomingGroup]:
        from rolloutds.checkpoints.stateful_dataloader import loader_states, read_loader_state
        from rolloutds.checkpoints.upcoming import row_groups, upcoming_rows

        states = [read_loader_state(state) for state in loader_states(self._file.value)]
        if len(states) > 1 and states[0].has_order:
            raise CheckpointError(
                f"holds the states of {len(states)} ranks: what each serves depends on its share",
                where=str(self._file.path),
            )
        dataset = self.dataset if num_rows is None and states[0].has_order else None
        total = len(dataset) if dataset is not None else num_rows or 0
        try:
            return row_groups(upcoming_rows(states[0], total, count), dataset)
        except CheckpointError as error:
            error.where = str(self._file.path)
            raise


def _pick_first(buffer: list[SampleGroup], count: int) -> Sequence[SampleGroup]:
    from rolloutds.filters import pop_first

    return pop_first(None, None, buffer, count)


def _completed(resolved: ResolvedConfig, file: CursorFile) -> tuple[ResolvedConfig, list[str]]:
    """The settings, with what nobody set taken from the state; and the names of those."""
    found = {
        name: value
        for name, value in _settings_in(file).items()
        if not resolved.is_set(name) and value != getattr(resolved.config, name)
    }
    origins = {**resolved.origins, **dict.fromkeys(found, "the saved state")}
    config = dataclasses.replace(resolved.config, **found)
    return dataclasses.replace(resolved, config=config, origins=origins), sorted(found)


def _settings_in(file: CursorFile) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    size = file.position.n_samples_per_prompt
    if size and size <= _LARGEST_GROUP:
        settings["n_samples_per_prompt"] = size
    fingerprint = fingerprint_in(file.value) or {}
    for name, kind in (
        ("rollout_shuffle", bool),
        ("rollout_seed", int),
        ("rollout_max_prompt_len", int),
    ):
        if type(fingerprint.get(name)) is kind:
            settings[name] = fingerprint[name]
    if isinstance(fingerprint.get("template_digest"), str):
        settings["apply_chat_template"] = True
    keys = fingerprint.get("keys")
    for name in ("input_key", "label_key", "metadata_key", "tool_key"):
        if isinstance(keys, dict) and isinstance(keys.get(name), str):
            settings[name] = keys[name]
    if isinstance(keys, dict) and isinstance(keys.get("multimodal_keys"), dict):
        settings["multimodal_keys"] = keys["multimodal_keys"]
    return settings
