"""Groups as a table, one line each: which group, which row, and the head of its prompt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rolloutds.dataset import Dataset
from rolloutds.peek import PeekedGroup, prompt_characters, prompt_head
from rolloutds.reports.json_text import value_text
from rolloutds.reports.model import Border, Cells, Column, Table

PROMPT_LIMIT = 100
"""Most columns of a prompt's head, where there is no screen to fit it to."""

LABEL_LIMIT = 32
SOURCE_LIMIT = 24

_SOURCE_KEYS = (
    "source",
    "data_source",
    "dataset",
    "dataset_name",
    "domain",
    "ability",
    "subject",
    "category",
    "task",
    "env",
)


class _GroupColumn(NamedTuple):
    """A column, and what a group has to say in it."""

    column: Column
    text: Callable[[PeekedGroup], str]


def listing_table(
    groups: Iterable[PeekedGroup], dataset: Dataset, *, draws_rollouts: bool
) -> Table:
    """Groups in the order they are served, a border drawn where an epoch begins.

    Args:
        groups: the groups, read as the table is.
        dataset: the rows they come from.
        draws_rollouts: whether a border is drawn where a rollout begins, too.
    """
    columns = [_POSITION, *_identity(dataset), _PROMPT, _TOKENS, _CHARACTERS, _LABEL, _SOURCE]
    rows = _bordered(groups, columns, draws_rollouts=draws_rollouts)
    return Table([column for column, _ in columns], rows)


def appearances_table(groups: Iterable[PeekedGroup], dataset: Dataset) -> Table:
    """Groups from here and there in a run, with when each is trained in place of its length."""
    columns = [_POSITION, *_WHEN, *_identity(dataset), _PROMPT, _LABEL, _SOURCE]
    return Table([column for column, _ in columns], (_cells(group, columns) for group in groups))


def _cells(group: PeekedGroup, columns: Sequence[_GroupColumn]) -> Cells:
    return Cells([text(group) for _, text in columns])


def _bordered(
    groups: Iterable[PeekedGroup], columns: Sequence[_GroupColumn], *, draws_rollouts: bool
) -> Iterator[Cells | Border]:
    previous: PeekedGroup | None = None
    for group in groups:
        begins = []
        if draws_rollouts and (previous is None or previous.rollout_id != group.rollout_id):
            begins.append(f"rollout {group.rollout_id}")
        if previous is not None and previous.epoch_id != group.epoch_id:
            begins.append(f"epoch {group.epoch_id}")
        if begins:
            yield Border(", ".join(begins))
        yield _cells(group, columns)
        previous = group


# --- the columns --------------------------------------------------------------------------


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _number_column(
    name: str, number: Callable[[PeekedGroup], int | None], *, is_optional: bool = False
) -> _GroupColumn:
    column = Column(name, justify="right", is_optional=is_optional)
    return _GroupColumn(column, lambda group: _number(number(group)))


def _num_characters(group: PeekedGroup) -> int | None:
    return prompt_characters(group.sample.prompt) if group.prompt_tokens is None else None


def _label_text(group: PeekedGroup) -> str:
    return "" if group.sample.label is None else value_text(group.sample.label)


def _source_text(group: PeekedGroup) -> str:
    for key in _SOURCE_KEYS:
        value = group.sample.metadata.get(key)
        if isinstance(value, str | int | float) and value != "":
            return str(value)
    return ""


_POSITION = _number_column("#", lambda group: group.position)
_WHEN = (
    _number_column("epoch", lambda group: group.epoch_id),
    _number_column("offset", lambda group: group.sample_offset),
    _number_column("rollout", lambda group: group.rollout_id, is_optional=True),
)
_PROMPT = _GroupColumn(
    Column("prompt", limit=PROMPT_LIMIT, is_flexible=True), lambda group: prompt_head(group.sample)
)
_TOKENS = _number_column("tokens", lambda group: group.prompt_tokens, is_optional=True)
_CHARACTERS = _number_column("chars", _num_characters, is_optional=True)
_LABEL = _GroupColumn(
    Column("label", limit=LABEL_LIMIT, is_optional=True, is_extra=True), _label_text
)
_SOURCE = _GroupColumn(
    Column("source", limit=SOURCE_LIMIT, is_optional=True, is_extra=True), _source_text
)


def _identity(dataset: Dataset) -> list[_GroupColumn]:
    """Which row it is, and which group and samples the run makes of it."""
    return [
        _row_column(dataset),
        _number_column("group", lambda group: group.sample_group_index),
        _GroupColumn(Column("samples", justify="right"), indices_text),
    ]


def _row_column(dataset: Dataset) -> _GroupColumn:
    names = _short_names([file.path for file in dataset.rows.files])
    if len(names) == 1:
        heading = "row" if dataset.rows.place(0).line is None else "line"
        return _number_column(heading, _row_number)
    column = Column("file:line", keeps_end=True)
    return _GroupColumn(column, lambda g: f"{names[g.place.file]}:{_row_number(g)}")


def _row_number(group: PeekedGroup) -> int:
    place = group.place
    return place.row_id if place.line is None else place.line


def indices_text(group: PeekedGroup) -> str:
    """The indices of a group's samples, first and last."""
    last = group.sample_index + group.n_samples_per_prompt - 1
    return str(last) if last == group.sample_index else f"{group.sample_index}-{last}"


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """Each path without what all of them begin with, by path."""
    if len(paths) == 1:
        return {paths[0]: Path(paths[0]).name}
    absolute = {path: Path(path).absolute() for path in paths}
    folder = os.path.commonpath([path.parent for path in absolute.values()])
    return {path: str(full.relative_to(folder)) for path, full in absolute.items()}
