"""What a saved state serves next: groups in flight, then the buffer, then the dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

from rolloutds.checkpoints.native import SavedState
from rolloutds.checkpoints.stateful_dataloader import LoaderState
from rolloutds.cursor import Cursor
from rolloutds.errors import CheckpointError
from rolloutds.group_forms import first_sample
from rolloutds.in_flight import DrawnGroup
from rolloutds.row_groups import revive
from rolloutds.sample import Sample, SampleGroup
from rolloutds.torch_file import TensorValue, to_live
from rolloutds.torch_file.tensors import load_torch

if TYPE_CHECKING:
    from rolloutds.dataset import Dataset
    from rolloutds.readers.base import Place

Origin = Literal["in flight", "buffer", "dataset"]

Pick = Callable[[list[SampleGroup], int], Sequence[SampleGroup]]
"""Takes at most so many groups out of a buffer: a buffer filter with its settings filled in."""

_READ_AT_ONCE = 32


@dataclass(frozen=True)
class UpcomingGroup:
    """A group that a resumed run is served.

    Attributes:
        origin: where it comes from.
        group_index: its index; None when it carries none.
        first_index: index of its first sample.
        num_samples: samples in it.
        sample: its first sample.
        epoch_id: the epoch it is drawn from; None when it was drawn before.
        sample_offset: its offset in that epoch.
        place: file and line of its row; None when that is not known.
        row_id: id of its row; None when that is not known.
    """

    origin: Origin
    group_index: int | None
    first_index: int | None
    num_samples: int
    sample: Sample
    epoch_id: int | None = None
    sample_offset: int | None = None
    place: Place | None = None
    row_id: int | None = None


def upcoming(
    saved: SavedState, dataset: Dataset, num_groups: int, *, pick: Pick
) -> Iterator[UpcomingGroup]:
    """The next groups of a state, in the order that a run resumed from it gets them.

    Args:
        saved: the state; its buffer is not changed.
        dataset: the rows it continues on.
        num_groups: how many.
        pick: takes from the buffer.

    Raises:
        DataError: a row cannot be read.
    """
    size = dataset.config.n_samples_per_prompt
    drawn = saved.in_flight[:num_groups]
    for described, group in zip(drawn, revive(drawn, dataset, size), strict=True):
        yield _waiting("in flight", group, described, dataset)
    left = num_groups - len(drawn)
    buffer = revive(saved.buffer, dataset, size) if left else []
    described_by = {id(g): d for d, g in zip(saved.buffer, buffer, strict=True)} if left else {}
    picked = pick(buffer, left) if buffer else []
    for group in picked:
        yield _waiting("buffer", group, described_by[id(group)], dataset)
    yield from _drawn(saved.cursor, dataset, left - len(picked))


def _waiting(
    origin: Origin, group: SampleGroup, described: DrawnGroup, dataset: Dataset
) -> UpcomingGroup:
    first, row = first_sample(group), described.row_position
    place = None if row is None else dataset.rows.place(row)
    return UpcomingGroup(
        origin=origin,
        group_index=described.group_index,
        first_index=described.first_index,
        num_samples=len(group),
        sample=first,
        place=place,
        row_id=described.row_id if place is None else place.row_id,
    )


def _drawn(cursor: Cursor, dataset: Dataset, num_groups: int) -> Iterator[UpcomingGroup]:
    size, num_rows = dataset.config.n_samples_per_prompt, len(dataset)
    while num_groups > 0:
        taken = min(num_groups, _READ_AT_ONCE)
        slots = [
            (span.epoch_id, offset)
            for span in cursor.spans(taken, num_rows)
            for offset in range(span.start, span.stop)
        ]
        rows = [_row_position(dataset, *slot) for slot in slots]
        for i, template in enumerate(dataset.templates(rows)):
            group_index = cursor.sample_group_index + i
            first_index = cursor.sample_index + i * size
            place = dataset.rows.place(rows[i])
            yield UpcomingGroup(
                origin="dataset",
                group_index=group_index,
                first_index=first_index,
                num_samples=size,
                sample=template.make(group_index, first_index),
                epoch_id=slots[i][0],
                sample_offset=slots[i][1],
                place=place,
                row_id=place.row_id,
            )
        cursor = cursor.advanced(taken, num_rows, size)
        num_groups -= taken


def _row_position(dataset: Dataset, epoch_id: int, offset: int) -> int:
    epoch = epoch_id if dataset.config.rollout_shuffle else None
    return dataset.row_positions(epoch, offset, offset + 1)[0]


# --- data loaders -------------------------------------------------------------------------


def upcoming_rows(state: LoaderState, num_rows: int, count: int) -> list[int]:
    """Positions in the dataset of the rows that a data loader's sampler yields next.

    The order of the epoch is drawn again from the generator's state in the file, as torchdata's
    RandomSampler draws it; when the epoch ends, the next one follows from the same generator.

    Args:
        state: the loader's state.
        num_rows: rows of the dataset.
        count: how many rows.

    Raises:
        CheckpointError: the order is not in the file, or it does not fit the number of rows.
        MissingExtraError: torch is not installed.
    """
    return list(islice(loader_rows(state, num_rows), count))


def row_groups(positions: Sequence[int], dataset: Dataset | None) -> list[UpcomingGroup]:
    """Rows of a data loader as groups; without the data, their positions stand for their ids."""
    if dataset is None:
        return [
            UpcomingGroup("dataset", None, None, 1, Sample(), row_id=position)
            for position in positions
        ]
    rows = [dataset.row_positions(None, position, position + 1)[0] for position in positions]
    places = [dataset.rows.place(row) for row in rows]
    return [
        UpcomingGroup("dataset", None, None, 1, template.make(), place=place, row_id=place.row_id)
        for place, template in zip(places, dataset.templates(rows), strict=True)
    ]


def loader_rows(state: LoaderState, num_rows: int) -> Iterator[int]:
    """As `upcoming_rows`, without an end.

    Raises:
        CheckpointError: the order is not in the file, or it does not fit the number of rows.
        MissingExtraError: torch is not installed.
    """
    # A finished epoch leaves rows that made no whole batch unserved: they are dropped.
    served = num_rows if state.is_finished else state.yielded
    for _, order in epoch_orders(state, num_rows):
        yield from order[served:]
        served = 0


def epoch_orders(state: LoaderState, num_rows: int) -> Iterator[tuple[bytes, list[int]]]:
    """The orders of the state's epoch and of those that follow, each with what it is drawn from.

    Raises:
        CheckpointError: the order is not in the file, or it does not fit the number of rows.
        MissingExtraError: torch is not installed.
    """
    if state.generator is None:
        raise CheckpointError(
            "the order is not in the file: the sampler left no generator state",
            expected="torchdata's own RandomSampler (torchdata.stateful_dataloader.sampler)",
            hint="torch's RandomSampler draws its order from a seed that is not saved",
        )
    if state.yielded is None:
        raise CheckpointError(
            f"{state.steps_since_snapshot} batches were served after the workers' snapshot, and "
            "their size is not in the file",
            expected="a snapshot every batch (snapshot_every_n_steps=1)",
        )
    if state.yielded > num_rows or num_rows < 1:
        raise CheckpointError(
            f"{state.yielded} rows of the epoch were served, and the dataset has {num_rows}",
            hint="give the number of rows the run had with --num-rows",
        )
    return _orders(state.generator, num_rows, num_unused=1 if state.num_workers else 0)


def _orders(
    generator_state: TensorValue, num_rows: int, *, num_unused: int
) -> Iterator[tuple[bytes, list[int]]]:
    torch = load_torch(needed_for="rebuilding the order of a data loader")
    generator = torch.Generator()
    try:
        generator.set_state(to_live(generator_state))
    except RuntimeError as error:
        raise CheckpointError(
            f"the generator's state is refused ({str(error).splitlines()[0]})",
            expected="the state of torch's CPU generator",
        ) from error
    while True:
        before = generator.get_state().numpy().tobytes()
        yield before, torch.randperm(num_rows, generator=generator).tolist()
        # A loader with workers makes its sampler's iterator twice an epoch, and uses the second.
        for _ in range(num_unused):
            torch.randperm(num_rows, generator=generator)
