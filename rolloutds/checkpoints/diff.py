"""What differs between two saved states, and which rows were consumed between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from rolloutds.checkpoints.base import CursorFile
from rolloutds.checkpoints.slime_form import (
    SlimeDialect,
    buffered_groups,
    group_index_in,
    in_flight_groups,
    our_part_of,
)
from rolloutds.checkpoints.stateful_dataloader import LoaderState, loader_states, read_loader_state
from rolloutds.checkpoints.tree import Tree, TreeLimits
from rolloutds.checkpoints.upcoming import epoch_orders
from rolloutds.cursor import Cursor, Span
from rolloutds.errors import CheckpointError
from rolloutds.torch_file import TensorValue

if TYPE_CHECKING:
    from rolloutds.dataset import Dataset

_LIMITS = TreeLimits(max_items=100_000, max_listed=100_000)
_MOST_ROWS = 20_000_000
_MOST_EPOCHS = 1_000
_WAITING = ("rolloutds.buffer", "rolloutds.in_flight.groups")


@dataclass(frozen=True)
class Change:
    """One field that differs.

    Attributes:
        name: its place in the file.
        old: its value in the first file, in plain words or numbers; None where it is absent.
        new: its value in the second.
        difference: new less old, for numbers; else what came and went, in words.
    """

    name: str
    old: Any
    new: Any
    difference: int | float | str | None


@dataclass(frozen=True)
class Consumed:
    """The rows between two states.

    Attributes:
        is_backwards: whether the second state stands before the first.
        num_rows: how many rows lie between them.
        spans: which positions of which epochs they are; empty where epochs are not numbered.
        row_ids: their ids, in the order they were served.
        files: the file of each; None without the data, or when there is one file only.
    """

    is_backwards: bool
    num_rows: int
    spans: Sequence[Span]
    row_ids: Sequence[int]
    files: Sequence[str] | None = None


def changes(old: CursorFile, new: CursorFile) -> list[Change]:
    """The fields that differ, in the order of the files."""
    before, after = _fields(old), _fields(new)
    names = list(dict.fromkeys([*before, *after]))
    found = [
        Change(name, *_plain_pair(before.get(name), after.get(name)))
        for name in names
        if not _is_same(before.get(name), after.get(name), name in before, name in after)
    ]
    return [*found, *_waiting_changes(old, new)]


def _fields(file: CursorFile) -> dict[str, Any]:
    fields = dict(Tree(_LIMITS).flat(file.value))
    if not isinstance(file.dialect, SlimeDialect):
        return fields
    return {name: value for name, value in fields.items() if not name.startswith(_WAITING)}


def _is_same(old: Any, new: Any, was_there: bool, is_there: bool) -> bool:  # noqa: FBT001 - private
    if was_there != is_there:
        return False
    if isinstance(old, TensorValue) and isinstance(new, TensorValue):
        return _tensor_identity(old) == _tensor_identity(new)
    if type(old) is not type(new):
        return False
    if type(old) in (bool, int, float, str, bytes, type(None)):
        return bool(old == new)
    return Tree().leaf(old) == Tree().leaf(new)


def _tensor_identity(tensor: TensorValue) -> tuple[Any, ...]:
    return tensor.dtype, tuple(tensor.shape), tensor.offset, tensor.storage.read()


def _plain_pair(old: Any, new: Any) -> tuple[Any, Any, int | float | str | None]:
    shown = Tree().plain(old), Tree().plain(new)
    if _is_number(old) and _is_number(new):
        return *shown, new - old
    if isinstance(old, TensorValue) and isinstance(new, TensorValue):
        return *shown, "other contents"
    return *shown, None


def _is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and value.bit_length() <= 128)


def _waiting_changes(old: CursorFile, new: CursorFile) -> Iterator[Change]:
    for name, groups_of in (("buffer", buffered_groups), ("in_flight", in_flight_groups)):
        if not our_part_of(old.value) and not our_part_of(new.value):
            return
        before = [group_index_in(group) for group in groups_of(old.value)]
        after = [group_index_in(group) for group in groups_of(new.value)]
        if before == after:
            continue
        came = [index for index in after if index not in set(before)]
        went = [index for index in before if index not in set(after)]
        parts = [f"came: {_named(came)}"] if came else []
        parts += [f"went: {_named(went)}"] if went else []
        text = "; ".join(parts) or "another order"
        yield Change(f"rolloutds.{name}", f"{len(before)} groups", f"{len(after)} groups", text)


def _named(indices: Sequence[int | None]) -> str:
    shown = ", ".join("?" if index is None else str(index) for index in indices[:20])
    return f"{shown} and {len(indices) - 20:,} more" if len(indices) > 20 else shown


# --- rows between -------------------------------------------------------------------------


def consumed(
    old: CursorFile, new: CursorFile, *, dataset: Dataset | None, num_rows: int | None
) -> Consumed:
    """The rows that were drawn from the dataset between two states.

    Args:
        old: the first state.
        new: the second one.
        dataset: the rows; needed for states whose order is not in the file.
        num_rows: rows of the dataset, where it is not named.

    Raises:
        CheckpointError: the states cannot say, or lie too far apart.
        MissingExtraError: the order of a data loader is asked for and torch is not installed.
    """
    if isinstance(old.dialect, SlimeDialect) and isinstance(new.dialect, SlimeDialect):
        if dataset is None:
            raise CheckpointError("the rows between two states need the data")
        return _between_cursors(old, new, dataset)
    states = [_only_loader(file) for file in (old, new)]
    total = num_rows if dataset is None else len(dataset)
    return _between_loaders(states[0], states[1], total or 0, dataset)


def _between_cursors(old: CursorFile, new: CursorFile, dataset: Dataset) -> Consumed:
    total = len(dataset)
    places = [_groups_before(file, total) for file in (old, new)]
    first, count = min(places), abs(places[1] - places[0])
    _check_count(count)
    spans = Cursor(*divmod(first, total)).spans(count, total) if total else []
    rows = [row for span in spans for row in _rows(dataset, span)]
    return Consumed(places[1] < places[0], count, spans, *_ids_of(dataset, rows))


def _groups_before(file: CursorFile, num_rows: int) -> int:
    epoch_id, offset = file.position.epoch_id, file.position.offset
    if epoch_id is None or offset is None:
        raise CheckpointError("its epoch or offset is missing or impossible", where=str(file.path))
    return epoch_id * num_rows + min(offset, num_rows)


def _check_count(count: int) -> None:
    if count > _MOST_ROWS:
        raise CheckpointError(
            f"{count:,} rows lie between the two states", expected=f"at most {_MOST_ROWS:,}"
        )


def _rows(dataset: Dataset, span: Span) -> list[int]:
    epoch_id = span.epoch_id if dataset.config.rollout_shuffle else None
    return dataset.row_positions(epoch_id, span.start, span.stop)


def _ids_of(dataset: Dataset, rows: Sequence[int]) -> tuple[list[int], list[str] | None]:
    ids = [dataset.rows.row_id(row) for row in rows]
    if len(dataset.rows.files) == 1:
        return ids, None
    return ids, [dataset.rows.place(row).file for row in rows]


def _only_loader(file: CursorFile) -> LoaderState:
    states = loader_states(file.value)
    if len(states) != 1:
        raise CheckpointError(
            f"holds {len(states)} loader states",
            where=str(file.path),
            expected="one, to tell the rows between two files",
        )
    return read_loader_state(states[0])


def _between_loaders(
    old: LoaderState, new: LoaderState, num_rows: int, dataset: Dataset | None
) -> Consumed:
    if new.generator is None or new.yielded is None:
        raise CheckpointError("the order is not in the second file")
    target = new.generator.storage.read()
    found: list[int] = []
    orders = islice(epoch_orders(old, num_rows), _MOST_EPOCHS)
    for number, (state, order) in enumerate(orders):
        is_last = state == target
        start = (old.yielded or 0) if number == 0 else 0
        stop = new.yielded if is_last else len(order)
        if is_last and stop < start:
            break
        found += order[start:stop]
        _check_count(len(found))
        if is_last:
            rows = found if dataset is None else [_row(dataset, position) for position in found]
            ids, files = (rows, None) if dataset is None else _ids_of(dataset, rows)
            return Consumed(
                is_backwards=False, num_rows=len(ids), spans=[], row_ids=ids, files=files
            )
    raise CheckpointError(
        "the second state does not follow from the first",
        expected="a later state of the same run, and the number of rows it had",
    )


def _row(dataset: Dataset, position: int) -> int:
    return dataset.row_positions(None, position, position + 1)[0]
