"""The data source of a run: groups of samples from the dataset, topped up from a buffer.

Order, indices and state are slime's to the last number; what it loses or does silently is
refused or said here.
"""

from __future__ import annotations

import logging
import operator
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rolloutds import buffer as buffer_rules
from rolloutds.buffer_policies import Capacity, apply_on_aborted
from rolloutds.checkpoints import native
from rolloutds.config import DataSourceConfig
from rolloutds.cursor import Cursor
from rolloutds.dataset import Dataset
from rolloutds.errors import ConfigError, GroupError, ReadOnlyError
from rolloutds.filters import BufferFilter, load_function, pop_first
from rolloutds.groups import SampleTemplate
from rolloutds.in_flight import DrawLog, DrawnGroup, InFlightLedger
from rolloutds.row_groups import RowNames, describe, revive
from rolloutds.sample import SampleGroup
from rolloutds.snapshots import Snapshots
from rolloutds.state_copy import StateCopier
from rolloutds.storage import require_local
from rolloutds.torch_file import require_torch
from rolloutds.torch_file.pickled import collector_paused

_logger = logging.getLogger("rolloutds")


class DataSource(ABC):
    """What a rollout manager asks of its data source."""

    @abstractmethod
    def get_samples(self, num_samples: int) -> list[SampleGroup]:
        """The next `num_samples` groups, ``[num_samples, n_samples_per_prompt]``."""

    @abstractmethod
    def add_samples(self, samples: list[SampleGroup]) -> None:
        """Takes groups back, to be served again."""

    @abstractmethod
    def save(self, rollout_id: int) -> None:
        """Saves the state as of that rollout."""

    @abstractmethod
    def load(self, rollout_id: int | None = None) -> None:
        """Resumes from the state of that rollout."""

    @abstractmethod
    def __len__(self) -> int:
        """Prompts in the dataset."""


@dataclass(frozen=True)
class _Draw:
    """Groups about to be handed out: again, from the buffer, fresh; nothing has moved yet."""

    num_again: int
    picked: list[SampleGroup]
    groups: list[SampleGroup]
    described: list[DrawnGroup]  # of each group, for the ledger; empty where none is kept
    cursor: Cursor

    @property
    def num_fresh(self) -> int:
        return len(self.groups) - self.num_again - len(self.picked)


class RolloutDataSource(DataSource):
    """Groups from the dataset, in order, epoch after epoch.

    Every public method is atomic: it may be called from several threads, and one that fails
    changes nothing.

    Args:
        args: any object with the run's settings (`DataSourceConfig`); the same names, types and
            defaults as slime's.

    Attributes:
        args: the object as it was given; filters receive it.
        config: its settings, checked.
        dataset: the rows, or None when the global dataset is off or no data is named.
        epoch_id: epoch the next group comes from (or the one just finished).
        sample_offset: groups of that epoch already served.
        sample_group_index: index the next group gets.
        sample_index: index the next sample gets.
        metadata: free-form values saved with the state.
        in_flight: ledger of groups handed out (`track_in_flight`).

    Raises:
        ConfigError: a setting is wrong, or a state would lie behind a URL.
        DataError: the prompt data cannot be used.
        MissingExtraError: `save` is set and torch is not installed.
    """

    def __init__(self, args: Any) -> None:
        self.args = args
        self.config = DataSourceConfig.from_args(args)
        self._lock = threading.RLock()
        self.epoch_id = 0
        self.sample_offset = 0
        self.sample_group_index = 0
        self.sample_index = 0
        self.metadata: dict[str, Any] = {}
        self.in_flight = InFlightLedger()
        self._draw_log = DrawLog()
        # Saves go one after the other, so that the file is the last one's; draws go on meanwhile.
        self._save_lock = threading.RLock()
        self._snapshots = Snapshots()
        self._has_said_nothing_saved = False
        for name in ("save", "load"):
            if (folder := getattr(self.config, name)) is not None:
                require_local(folder, where=name)
        if self.config.save is not None:
            # Found out now, not when the first checkpoint is due.
            require_torch(needed_for="saving the state of the data source")
        self.dataset = self._open_dataset()

    def _open_dataset(self) -> Dataset | None:
        if not self.config.rollout_global_dataset or self.config.prompt_data is None:
            return None
        dataset = self._make_dataset()
        for notice in dataset.notices:
            _logger.warning(notice.text)
        if self.config.rollout_shuffle:
            dataset.shuffle(self.epoch_id)
        if self.config.dump_details is not None and dataset.tokenizer is not None:
            dataset.tokenizer.save_pretrained(f"{self.config.dump_details}/tokenizer")
        return dataset

    # What an integration changes, to serve samples of a framework's own class.

    def _make_dataset(self) -> Dataset:
        return Dataset(self.config)

    def _describe(self, group: SampleGroup, copier: StateCopier) -> DrawnGroup:
        return describe(group, copier)

    def _revive(self, drawn: Sequence[DrawnGroup]) -> list[SampleGroup]:
        return revive(drawn, self.dataset, self.config.n_samples_per_prompt)

    def __len__(self) -> int:
        """Prompts in the dataset, 0 without one."""
        return 0 if self.dataset is None else len(self.dataset)

    @property
    def cursor(self) -> Cursor:
        """The four numbers together."""
        return Cursor(self.epoch_id, self.sample_offset, self.sample_group_index, self.sample_index)

    @cursor.setter
    def cursor(self, cursor: Cursor) -> None:
        self.epoch_id = cursor.epoch_id
        self.sample_offset = cursor.sample_offset
        self.sample_group_index = cursor.sample_group_index
        self.sample_index = cursor.sample_index
        if self.dataset is not None and self.config.rollout_shuffle:
            self.dataset.shuffle(cursor.epoch_id)

    # --- drawing --------------------------------------------------------------------------

    def get_samples(self, num_samples: int, rollout_id: int | None = None) -> list[SampleGroup]:
        """The next groups.

        Groups that were in flight when the state was saved come first, then the dataset's: the
        rest of the epoch, then as many epochs as it takes.

        Args:
            num_samples: how many groups.
            rollout_id: the rollout they are for; a buffer filter receives it.

        Returns:
            Exactly `num_samples` groups, ``[num_samples, n_samples_per_prompt]``.

        Raises:
            ConfigError: `num_samples` is negative, or no whole number.
            EmptyDatasetError: the dataset has no row.
            DataError: a row cannot be read any more; the cursor has not moved.
        """
        with self._lock:
            draw = self._draw(num_samples, rollout_id)
            self._hand_out(draw, rollout_id)
            return draw.groups

    def _draw(self, num_samples: int, rollout_id: int | None) -> _Draw:
        num_samples = _checked_number(num_samples)
        waiting = self.in_flight.waiting[: max(num_samples, 0)]
        copied = [replace(d, samples=StateCopier().copy(d.samples)) for d in waiting]
        again = self._revive(copied)
        picked = self._pick(num_samples - len(again), rollout_id)
        num_fresh = num_samples - len(again) - len(picked)
        positions, cursor = self._advance(num_fresh)
        fresh = self._make(positions)
        described: list[DrawnGroup] = []
        if self.config.track_in_flight:
            rows = [*[None] * len(picked), *positions]
            described = [*waiting, *self._describe_all([*picked, *fresh], rows)]
        return _Draw(len(again), picked, [*again, *picked, *fresh], described, cursor)

    def _describe_all(
        self, groups: Sequence[SampleGroup], positions: Sequence[int | None]
    ) -> Iterator[DrawnGroup]:
        copier = StateCopier()
        for group, position in zip(groups, positions, strict=True):
            if position is None:
                yield self._describe(group, copier)
            else:
                yield _named(group, position)

    def _pick(self, num_groups: int, rollout_id: int | None) -> list[SampleGroup]:
        return []

    def _hand_out(self, draw: _Draw, rollout_id: int | None) -> None:
        self.cursor = draw.cursor
        if self.config.track_in_flight:
            self.in_flight.record(draw.described, draw.groups)
        elif rollout_id is not None and self.config.save is not None:
            self._draw_log.record(rollout_id, draw.groups)
        del self.in_flight.waiting[: draw.num_again]

    def _advance(self, num_groups: int) -> tuple[list[int | None], Cursor]:
        """Row of each new group (None: blank), and the cursor after them."""
        size = self.config.n_samples_per_prompt
        if self.dataset is None:
            self.cursor.spans(num_groups, 1)  # refuses a negative number
            return [None] * num_groups, self.cursor.counted(num_groups, size)
        num_rows, shuffled = len(self.dataset), self.config.rollout_shuffle
        positions: list[int | None] = [
            position
            for epoch_id, start, stop in self.cursor.spans(num_groups, num_rows)
            for position in self.dataset.row_positions(epoch_id if shuffled else None, start, stop)
        ]
        return positions, self.cursor.advanced(num_groups, num_rows, size)

    def _make(self, positions: Sequence[int | None]) -> list[SampleGroup]:
        size = self.config.n_samples_per_prompt
        with collector_paused():
            if self.dataset is None:
                templates = [SampleTemplate({})] * len(positions)
            else:
                templates = self.dataset.templates([p for p in positions if p is not None])
            return [
                template.make_group(self.sample_group_index + i, self.sample_index + i * size, size)
                for i, template in enumerate(templates)
            ]

    # --- groups that come back ------------------------------------------------------------

    def add_samples(self, samples: list[SampleGroup]) -> None:
        """Refused: this source has no buffer.

        Raises:
            ReadOnlyError: always.
        """
        raise ReadOnlyError(
            f"{type(self).__name__} is read-only: it takes no groups back",
            hint="use RolloutDataSourceWithBuffer",
        )

    def complete(self, groups: list[SampleGroup]) -> None:
        """Takes trained groups out of the ledger (`track_in_flight`).

        Raises:
            GroupError: one of them is not in flight; nothing is changed then.
        """
        with self._lock:
            self._require_ledger("complete")
            self.in_flight.complete(groups)

    def discard(self, groups: list[SampleGroup], reason: str) -> None:
        """Takes rejected groups out of the ledger and counts them by `reason`.

        Raises:
            GroupError: one of them is not in flight; nothing is changed then.
        """
        with self._lock:
            self._require_ledger("discard")
            self.in_flight.discard(groups, reason)

    def _require_ledger(self, method: str) -> None:
        if not self.config.track_in_flight:
            raise GroupError(
                f"{method}() was called and groups in flight are not tracked",
                hint="set track_in_flight",
            )

    # --- metadata -------------------------------------------------------------------------

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        """Adds to the free-form values saved with the state."""
        with self._lock:
            self.metadata.update(metadata)

    def get_metadata(self) -> dict[str, Any]:
        """The free-form values saved with the state."""
        return self.metadata

    # --- state ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The whole state as plain values; it shares nothing that a run edits.

        The reference's five keys are on top, ours are under ``"rolloutds"``.
        """
        copier = StateCopier()
        with collector_paused(), self._lock:
            cursor = self.cursor
            metadata = copier.copy(self.metadata)
            buffer = self._buffered(copier)
            in_flight = copier.copy(self.in_flight.state_dict())
        # What is left reads rows: draws need not wait for it.
        if self.dataset is not None and buffer:
            buffer = self._row_names(self.dataset, cursor).shorten(buffer)
        return {
            **cursor.state_dict(),
            "metadata": metadata,
            native.OUR_KEY: native.our_part(
                fingerprint=self.dataset.fingerprint if self.dataset else None,
                n_samples_per_prompt=self.config.n_samples_per_prompt,
                buffer=buffer,
                in_flight=in_flight,
            ),
        }

    def _buffered(self, copier: StateCopier) -> list[DrawnGroup]:
        return []

    def _row_names(self, dataset: Dataset, cursor: Cursor) -> RowNames:
        return RowNames(
            dataset,
            cursor,
            self.config.n_samples_per_prompt,
            shuffled=self.config.rollout_shuffle,
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over a state; `state_dict` then gives the same.

        Raises:
            CheckpointError: it lacks a key, or does not belong to this run; nothing is changed.
        """
        copied = StateCopier().copy(state)
        with self._lock:
            self._take_over(native.read_state(copied, where="state", run=self._run()))

    def _run(self) -> native.Run:
        return native.Run(
            num_rows=None if self.dataset is None else len(self.dataset),
            num_rows_unfiltered=None if self.dataset is None else len(self.dataset.rows),
            fingerprint=None if self.dataset is None else self.dataset.fingerprint,
            n_samples_per_prompt=self.config.n_samples_per_prompt,
            has_buffer=False,
            ignore_mismatch=self.config.on_state_mismatch == "ignore",
        )

    def _take_over(self, saved: native.SavedState) -> None:
        """Replaces the whole state; all that can fail comes before anything changes."""
        groups = self._revive(saved.buffer)
        if self.dataset is not None and self.config.rollout_shuffle:
            self.dataset.order_of(saved.cursor.epoch_id)
        for warning in saved.warnings:
            _logger.warning(warning)
        ledger = InFlightLedger()
        ledger.waiting = list(saved.in_flight)
        ledger.num_completed = saved.num_completed
        ledger.num_discarded = saved.num_discarded
        self._fill_buffer(groups)
        self.in_flight = ledger
        self._draw_log = DrawLog()
        self._snapshots = Snapshots()
        self.metadata = saved.metadata
        self.cursor = saved.cursor

    def _fill_buffer(self, groups: list[SampleGroup]) -> None:
        """Replaces what is in the buffer; here there is none."""

    def snapshot(self, rollout_id: int) -> None:
        """Pins the state as of that rollout, for a `save` that comes after later draws.

        A pinned state is kept until a later rollout is saved. Without a folder to save in nothing
        is pinned.
        """
        rollout_id = native.checked_id(rollout_id)
        if self._saves_anything() and self.config.save is not None:
            with self._lock:
                self._snapshots.pin(rollout_id, self.state_dict())

    def save(self, rollout_id: int) -> None:
        """Writes the state as of that rollout: the pinned one if there is one, else the live one.

        The file is ``{save}/rollout/global_dataset_state_dict_{rollout_id}.pt``. It is replaced as
        a whole: at no instant is there no good file. Other threads draw on meanwhile.

        Raises:
            ConfigError: no folder to save in, or no rollout's id.
            CheckpointError: the snapshot of that rollout was dropped, or the write failed; the
                old file is there.
            UnsavableValueError: a value is not plain data; the message names its key.
        """
        if not self._saves_anything():
            self._say_nothing_saved()
            return
        rollout_id = native.checked_id(rollout_id)
        with self._save_lock, collector_paused():
            path = native.write_state(self.config.save, rollout_id, self._state_as_of(rollout_id))
            with self._lock:
                self._snapshots.drop_before(rollout_id)
                self._draw_log.forget_through(rollout_id)
            if self.config.keep_last is not None:
                native.prune(path.parent.parent, rollout_id, keep_last=self.config.keep_last)

    def _state_as_of(self, rollout_id: int) -> dict[str, Any]:
        with self._lock:
            pinned = self._snapshots.state_of(rollout_id)
            if pinned is not None:
                return pinned
            self._say_not_covered(rollout_id)
            return self.state_dict()

    def _say_not_covered(self, rollout_id: int) -> None:
        num_groups = self._draw_log.num_after(rollout_id, self._in_buffer())
        if num_groups:
            _logger.warning(
                "the state of rollout %d does not cover %d groups in flight, drawn for later "
                "rollouts: a resume skips them; call snapshot(rollout_id) after each rollout, or "
                "set track_in_flight",
                rollout_id,
                num_groups,
            )

    def _in_buffer(self) -> list[SampleGroup]:
        return []

    def load(self, rollout_id: int | None = None) -> None:
        """Resumes from the state saved for that rollout; it replaces the whole state.

        Nothing happens when `load` is not set. -1 and None are a fresh start: the state of a new
        source.

        Raises:
            ConfigError: it is no rollout's id, nor -1 or None.
            MissingStateError: there is no such file; the message lists the ids there are.
            TorchFileError: it is damaged.
            StateMismatchError: it belongs to other data or settings.
            CheckpointError: it lacks a key, or a value is not what belongs there.
        """
        if self.config.load is None:
            return
        if not self._saves_anything():
            self._say_nothing_saved()
            return
        rollout_id = native.checked_id(-1 if rollout_id is None else rollout_id, least=-1)
        fresh = self.config.on_missing_state == "fresh"
        state = (
            native.load_state(self.config.load, rollout_id, missing_is_fresh=fresh)
            if rollout_id >= 0
            else None
        )
        path = native.state_path(self.config.load, rollout_id)
        with self._lock, collector_paused():
            self._take_over(
                native.SavedState(Cursor(), {})
                if state is None
                else native.read_state(state, where=str(path), run=self._run())
            )

    def _saves_anything(self) -> bool:
        return self.config.rollout_global_dataset

    def _say_nothing_saved(self) -> None:
        if not self._has_said_nothing_saved:
            self._has_said_nothing_saved = True
            _logger.warning(
                "rollout_global_dataset is off: %s saves and loads no state", type(self).__name__
            )


class RolloutDataSourceWithBuffer(RolloutDataSource):
    """Groups from a buffer of returned groups first, then from the dataset.

    Args:
        args: any object with the run's settings; `buffer_filter_path` names the filter that
            picks from the buffer (`pop_first` without one).

    Attributes:
        buffer: the waiting groups, oldest first.
        buffer_filter: the function that picks from it.
        num_removed_not_returned: groups that filters removed from the buffer and did not return.
        capacity: the most the buffer holds.
        num_by_policy: groups that were reset, dropped or evicted on their way in, by reason.
    """

    def __init__(self, args: Any) -> None:
        super().__init__(args)
        self.buffer: list[SampleGroup] = []
        self._members = buffer_rules.Members()
        self.num_removed_not_returned = 0
        self.capacity = Capacity.parse(self.config.buffer_capacity, self.config.buffer_eviction)
        self.num_by_policy: Counter[str] = Counter()
        path = self.config.buffer_filter_path
        self.buffer_filter: BufferFilter = pop_first if path is None else load_function(path)

    def get_buffer_length(self) -> int:
        """Groups waiting in the buffer."""
        return len(self.buffer)

    def get_samples(self, num_samples: int, rollout_id: int | None = None) -> list[SampleGroup]:
        """The next groups: in flight at the save, then what the filter picks, then the dataset's.

        Args:
            num_samples: how many groups.
            rollout_id: the rollout they are for; the filter receives it.

        Returns:
            Exactly `num_samples` groups, ``[num_samples, n_samples_per_prompt]``.

        Raises:
            FilterError: the filter raised, or returned what it must not; the buffer's members and
                order and the cursor are as before.
            ConfigError: `num_samples` is negative, or no whole number.
            EmptyDatasetError: the dataset has no row.
        """
        return super().get_samples(num_samples, rollout_id)

    def _draw(self, num_samples: int, rollout_id: int | None) -> _Draw:
        before = list(self.buffer)
        try:
            draw = super()._draw(num_samples, rollout_id)
        except BaseException:
            self.buffer[:] = before
            raise
        self._count_removed(before, draw.picked)
        self._warn_of_blanks(draw.num_fresh, len(draw.picked))
        return draw

    def _pick(self, num_groups: int, rollout_id: int | None) -> list[SampleGroup]:
        if num_groups <= 0 or not self.buffer:
            return []
        return buffer_rules.pick(self.buffer_filter, self.args, rollout_id, self.buffer, num_groups)

    def _count_removed(self, before: list[SampleGroup], picked: list[SampleGroup]) -> None:
        num_removed = buffer_rules.num_removed(before, self.buffer, picked)
        if num_removed:
            self.num_removed_not_returned += num_removed
            _logger.warning(
                "%s removed %d groups from the buffer without returning them",
                buffer_rules.name_of(self.buffer_filter),
                num_removed,
            )

    def _warn_of_blanks(self, num_fresh: int, num_picked: int) -> None:
        if self.dataset is None and num_fresh and (num_picked or self.num_removed_not_returned):
            _logger.warning(
                "the buffer gave %d groups and there is no dataset: %d blank groups were added",
                num_picked,
                num_fresh,
            )

    def add_samples(self, samples: list[SampleGroup]) -> None:
        """Puts groups in the buffer, all or none.

        Aborted groups are kept, reset or dropped as `on_aborted` says, and a buffer that is over
        `buffer_capacity` gives up groups as `buffer_eviction` says; both are counted.

        Args:
            samples: groups of `n_samples_per_prompt` samples each; [] does nothing.

        Raises:
            GroupError: not lists of samples, a group of another size, or one that is in the buffer
                already; nothing is added.
        """
        if samples == []:
            return
        buffer_rules.check_groups(samples, self.config.n_samples_per_prompt)
        with self._lock:
            self._members.check_new(samples, self.buffer)
            returning = self.in_flight.returning(samples)
            kept = apply_on_aborted(samples, self.config.on_aborted)
            self.buffer.extend(kept.groups)
            self._members.note(kept.groups, self.buffer)
            self.in_flight.give_back(returning)
            self.num_by_policy += kept.counts
            self._evict()

    def _evict(self) -> None:
        """Takes out what the buffer has no room for; it is counted and said."""
        if not self.capacity.is_limited:
            return
        start, stop, counts = self.capacity.fit(self.buffer)
        self.buffer[:] = self.buffer[start:stop]
        self.num_by_policy += counts
        for reason, count in counts.items():
            _logger.warning("%d groups were evicted from the buffer: %s", count, reason)

    def _saves_anything(self) -> bool:
        return True

    def _in_buffer(self) -> list[SampleGroup]:
        return self.buffer

    def _buffered(self, copier: StateCopier) -> list[DrawnGroup]:
        return [self._describe(group, copier) for group in self.buffer]

    def _run(self) -> native.Run:
        return super()._run()._replace(has_buffer=True)

    def _fill_buffer(self, groups: list[SampleGroup]) -> None:
        if self.buffer:
            _logger.warning(
                "%d groups in the buffer are dropped: a loaded state replaces them",
                len(self.buffer),
            )
        self.buffer[:] = groups
        self._members.note(groups, self.buffer)


def _checked_number(num_samples: Any) -> int:
    try:
        return operator.index(num_samples)  # a NumPy integer must not get into the cursor
    except TypeError as error:
        raise ConfigError(
            f"{num_samples!r:.60} groups asked for", expected="a whole number"
        ) from error


def _named(group: SampleGroup, row_position: int) -> DrawnGroup:
    first = group[0]
    return DrawnGroup(first.group_index, first.index, row_position, first.row_id)
