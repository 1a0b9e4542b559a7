"""What a run's dumps say it trained on, held against the order it should have had.

A group's index says where in the order it was drawn: epoch ``index // num_rows``, offset
``index % num_rows``, as long as the dataset was the same from the start. Its dump says what was
really trained on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from rolloutds.dataset import Dataset
from rolloutds.engines import Engine
from rolloutds.engines.base import Done
from rolloutds.errors import EmptyDatasetError, RolloutDSError
from rolloutds.readers.base import Place
from rolloutds.rollouts import open_groups
from rolloutds.rollouts.base import ReadGroup

_ROWS_READ_AT_ONCE = 256


class DumpedGroup(NamedTuple):
    """What an audit needs of a group in a dump; small, beside the group itself.

    Attributes:
        group_index: as the dump says; None where it says nothing.
        rollout: the rollout (or file) it was in.
        prompt: of its first sample.
    """

    group_index: int | None
    rollout: str
    prompt: Any


def dumped_groups(groups: Iterable[ReadGroup]) -> Iterator[DumpedGroup]:
    """What an audit needs of groups, which are let go of; evaluations are passed over."""
    for group in groups:
        if not group.is_eval:
            rollout = group.place.file if group.rollout_id is None else str(group.rollout_id)
            samples = group.samples
            yield DumpedGroup(group.group_index, rollout, samples[0].prompt if samples else None)
        del group  # or it would live on while the next one is read


def read_dumps(
    files: Sequence[str],
    engine: Engine,
    *,
    n_samples_per_prompt: int,
    on_done: Done | None = None,
) -> Iterator[DumpedGroup]:
    """The groups of dumps, a file read by one task.

    Each file is read by itself: two that contradict each other are what an audit is to find.

    Args:
        files: the dumps.
        engine: what reads them.
        n_samples_per_prompt: size of a group, for files that do not say where one ends.
        on_done: is told each file that is done.

    Raises:
        DataError: a dump cannot be read.
        GroupError: a group is malformed.
        EngineError: the processes that read one file died each time.
    """
    tasks = engine.map(_read_dump, files, common=n_samples_per_prompt, names=files, on_done=on_done)
    for groups, error in tasks:
        yield from groups
        if error is not None:
            raise error


def _read_dump(n_samples_per_prompt: int, file: str) -> tuple[list[DumpedGroup], Exception | None]:
    """The groups of a file, up to the error that ended it."""
    found: list[DumpedGroup] = []
    try:
        found.extend(dumped_groups(open_groups(file, n_samples_per_prompt=n_samples_per_prompt)))
    except (RolloutDSError, OSError) as error:
        return found, error
    return found, None


@dataclass(frozen=True)
class DrawnRow:
    """A group of the order: its index, and the row it is made from."""

    group_index: int
    epoch_id: int
    sample_offset: int
    place: Place


@dataclass(frozen=True)
class Repeat:
    """A group that was trained on more than once, and the rollouts (or files) it was in."""

    drawn: DrawnRow
    rollouts: list[str]


@dataclass(frozen=True)
class OtherText:
    """A group whose dump has another prompt than its row.

    Attributes:
        drawn: the group as the order has it.
        rollout: the rollout (or file) of the dump.
        found: the prompt in the dump.
        found_at: the first row of the dataset that has that prompt; None when none has.
    """

    drawn: DrawnRow
    rollout: str
    found: Any
    found_at: Place | None


@dataclass
class EpochCount:
    """Rows of one epoch: drawn, trained once, repeated, waiting, and in no dump."""

    num_drawn: int = 0
    num_once: int = 0
    num_repeated: int = 0
    num_waiting: int = 0
    num_missing: int = 0


@dataclass
class Audit:
    """What became of the groups a run drew.

    Attributes:
        num_rows: rows of an epoch.
        num_drawn: groups drawn, as the newest state says; without one, up to the last in a dump.
        num_dumped: groups in the dumps.
        num_once: groups trained on exactly once.
        repeats: groups trained on more than once.
        missing: groups drawn, in no dump, and not waiting.
        num_waiting: groups in no dump that wait in the newest state's buffer or in flight.
        num_discarded: groups that state counts as discarded; they are among `missing`.
        other_texts: groups with another prompt than their row's.
        num_without_index: groups of dumps that have no index, so that nothing is known of them.
        num_beyond: groups of dumps with an index that was not drawn yet.
        epochs: the same by epoch.
    """

    num_rows: int
    num_drawn: int
    num_dumped: int = 0
    num_once: int = 0
    repeats: list[Repeat] = field(default_factory=list)
    missing: list[DrawnRow] = field(default_factory=list)
    num_waiting: int = 0
    num_discarded: int = 0
    other_texts: list[OtherText] = field(default_factory=list)
    num_without_index: int = 0
    num_beyond: int = 0
    epochs: dict[int, EpochCount] = field(default_factory=dict)


def audit(
    dataset: Dataset,
    groups: Iterable[DumpedGroup],
    *,
    num_drawn: int | None = None,
    waiting: Iterable[int] = (),
    num_discarded: int = 0,
) -> Audit:
    """Compares dumped groups with the order of the dataset.

    Args:
        dataset: the rows and settings the run had from its start.
        groups: the groups of its dumps.
        num_drawn: groups drawn so far (`sample_group_index` of a state).
        waiting: indices of groups in that state's buffer or in flight.
        num_discarded: groups that state counts as discarded.

    Raises:
        EmptyDatasetError: the dataset has no rows.
        DataError: a dump or a row cannot be read.
    """
    if not len(dataset):
        raise EmptyDatasetError("no rows to hold the dumps against")
    order = _Order(dataset)
    seen: dict[int, list[str]] = {}
    texts: dict[int, tuple[str, Any]] = {}
    result = Audit(num_rows=len(dataset), num_drawn=num_drawn or 0, num_discarded=num_discarded)
    left = iter(groups)
    while batch := list(islice(left, _ROWS_READ_AT_ONCE)):
        _note_dumped(batch, seen, result)
        texts.update(_differing(batch, order))
    if num_drawn is None:
        result.num_drawn = max(seen, default=-1) + 1
    _sort_out(result, seen, set(waiting), order)
    result.other_texts = _other_texts(texts, order)
    return result


class _Order:
    """Group index to row, as the run drew them."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def row_position(self, group_index: int) -> int:
        epoch_id, offset = divmod(group_index, len(self.dataset))
        epoch = epoch_id if self.dataset.config.rollout_shuffle else None
        return self.dataset.row_positions(epoch, offset, offset + 1)[0]

    def drawn(self, group_index: int) -> DrawnRow:
        epoch_id, offset = divmod(group_index, len(self.dataset))
        place = self.dataset.rows.place(self.row_position(group_index))
        return DrawnRow(group_index, epoch_id, offset, place)


def _note_dumped(batch: Sequence[DumpedGroup], seen: dict[int, list[str]], result: Audit) -> None:
    for group_index, rollout, _ in batch:
        result.num_dumped += 1
        if group_index is None or group_index < 0:
            result.num_without_index += 1
        else:
            seen.setdefault(group_index, []).append(rollout)


def _differing(batch: Sequence[DumpedGroup], order: _Order) -> dict[int, tuple[str, Any]]:
    indexed = [(i, rollout, prompt) for i, rollout, prompt in batch if i is not None and i >= 0]
    templates = order.dataset.templates([order.row_position(i) for i, _, _ in indexed])
    return {
        group_index: (rollout, prompt)
        for (group_index, rollout, prompt), template in zip(indexed, templates, strict=True)
        if not is_same_prompt(template.make().prompt, prompt)
    }


def is_same_prompt(expected: Any, found: Any) -> bool:
    """Whether a dump's prompt is the row's.

    Text and messages are compared by their contents, because a dump may hold the rendered prompt
    of a run whose chat template is not at hand.
    """
    if expected == found:
        return True
    if isinstance(expected, list) and isinstance(found, str):
        return all(text in found for text in _contents(expected))
    if isinstance(expected, str) and isinstance(found, list):
        return all(text in expected for text in _contents(found))
    return False


def _contents(messages: list[Any]) -> list[str]:
    contents = [m.get("content") if isinstance(m, dict) else None for m in messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    found = [text for text in (*contents, *texts) if isinstance(text, str)]
    return found or ["\0"]  # nothing to compare: never the same


def _sort_out(result: Audit, seen: dict[int, list[str]], waiting: set[int], order: _Order) -> None:
    for group_index in range(result.num_drawn):
        epoch = result.epochs.setdefault(group_index // result.num_rows, EpochCount())
        epoch.num_drawn += 1
        rollouts = seen.get(group_index, [])
        if len(rollouts) > 1:
            epoch.num_repeated += 1
            result.repeats.append(Repeat(order.drawn(group_index), rollouts))
        elif rollouts:
            epoch.num_once += 1
        elif group_index in waiting:
            epoch.num_waiting += 1
        else:
            epoch.num_missing += 1
            result.missing.append(order.drawn(group_index))
    result.num_once = sum(epoch.num_once for epoch in result.epochs.values())
    result.num_waiting = sum(epoch.num_waiting for epoch in result.epochs.values())
    result.num_beyond = sum(len(r) for i, r in seen.items() if i >= result.num_drawn)


def _other_texts(texts: dict[int, tuple[str, Any]], order: _Order) -> list[OtherText]:
    found = sorted(texts.items(), key=lambda item: item[0])
    places = _find_rows(order.dataset, [prompt for _, (_, prompt) in found])
    return [
        OtherText(order.drawn(group_index), rollout, prompt, place)
        for (group_index, (rollout, prompt)), place in zip(found, places, strict=True)
    ]


def _find_rows(dataset: Dataset, prompts: list[Any]) -> list[Place | None]:
    """The first row with each prompt, in one pass over the rows; no pass without prompts."""
    places: list[Place | None] = [None] * len(prompts)
    missing = list(range(len(prompts)))
    for start in range(0, len(dataset.rows) if prompts else 0, _ROWS_READ_AT_ONCE):
        positions = range(start, min(start + _ROWS_READ_AT_ONCE, len(dataset.rows)))
        for position, template in zip(positions, dataset.templates(positions), strict=True):
            expected = template.make().prompt
            for number in [n for n in missing if is_same_prompt(expected, prompts[n])]:
                places[number] = dataset.rows.place(position)
                missing.remove(number)
    return places
