"""What ``peek --from-ckpt`` says: the groups a resumed run gets, and where each comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from rolloutds.checkpoints.base import CursorFile
from rolloutds.checkpoints.upcoming import UpcomingGroup
from rolloutds.dataset import Dataset
from rolloutds.peek import prompt_head, summarize
from rolloutds.reports.ckpt_report import identity, words
from rolloutds.reports.data_facts import data_facts, data_record, order_text, run_facts
from rolloutds.reports.group_table import LABEL_LIMIT, PROMPT_LIMIT
from rolloutds.reports.json_text import value_text
from rolloutds.reports.model import Cells, Column, Facts, Heading, Report, Section, Table
from rolloutds.reports.whole_groups import prompt_blocks


def resume_report(
    file: CursorFile,
    dataset: Dataset,
    groups: Sequence[UpcomingGroup],
    *,
    filter_name: str,
    full: bool,
) -> Report:
    """The next groups of a state: those in flight, then the buffer's, then the dataset's."""
    summary = summarize(dataset)
    tokens = [_tokens(group, dataset) for group in groups]
    facts = [
        *data_facts(summary),
        ("order", order_text(dataset, _epochs(groups))),
        ("state", str(file.path)),
        ("stands", words(file, len(dataset))),
        ("start", _origins(groups, filter_name)),
        *run_facts(dataset),
    ]
    return Report(
        kind="peek",
        data=data_record(dataset, summary) | {"checkpoint": identity(file)},
        records_name="groups",
        records=[
            _record(position, group, tokens[position]) for position, group in enumerate(groups)
        ],
        sections=chain([Facts(facts)], _whole(groups) if full else [_table(groups, tokens)]),
    )


def _whole(groups: Sequence[UpcomingGroup]) -> Iterator[Section]:
    for position, group in enumerate(groups):
        yield Heading(f"#{position}  {group.origin}, group {group.group_index}, {_row(group)}")
        yield from prompt_blocks(group.sample.prompt)


def _row(group: UpcomingGroup) -> str:
    return "row unknown" if group.place is None else str(group.place)


def _tokens(group: UpcomingGroup, dataset: Dataset) -> int | None:
    counted = dataset.count_tokens([group.sample])
    return None if counted is None else counted[0]


def _epochs(groups: Sequence[UpcomingGroup]) -> range:
    epochs = [group.epoch_id for group in groups if group.epoch_id is not None] or [0]
    return range(min(epochs), max(epochs) + 1)


def _origins(groups: Sequence[UpcomingGroup], filter_name: str) -> str:
    counts = Counter(group.origin for group in groups)
    names = {"buffer": f"from the buffer, by {filter_name}", "dataset": "from the dataset"}
    said = [f"{count:,} {names.get(origin, origin)}" for origin, count in counts.items()]
    return ", then ".join(said) or "no groups asked for"


def _record(position: int, group: UpcomingGroup, tokens: int | None) -> dict[str, Any]:
    return {
        "position": position,
        "origin": group.origin,
        "epoch_id": group.epoch_id,
        "sample_offset": group.sample_offset,
        "row_id": group.row_id,
        "line": group.place.line if group.place else None,
        "file": group.place.file if group.place else None,
        "sample_group_index": group.group_index,
        "sample_index": group.first_index,
        "n_samples_per_prompt": group.num_samples,
        "prompt": group.sample.prompt,
        "prompt_tokens": tokens,
        "label": group.sample.label,
        "metadata": group.sample.metadata,
    }


def _table(groups: Sequence[UpcomingGroup], tokens: Sequence[int | None]) -> Table:
    columns = [
        Column("#", justify="right"),
        Column("from"),
        Column("epoch", justify="right", is_optional=True),
        Column("offset", justify="right", is_optional=True),
        Column("line", justify="right", is_optional=True),
        Column("row id", justify="right", is_optional=True),
        Column("group", justify="right"),
        Column("samples", justify="right"),
        Column("prompt", limit=PROMPT_LIMIT, is_flexible=True),
        Column("tokens", justify="right", is_optional=True),
        Column("label", limit=LABEL_LIMIT, is_optional=True),
    ]
    rows = [
        Cells(_cells(position, group, tokens[position])) for position, group in enumerate(groups)
    ]
    return Table(columns, rows)


def _cells(position: int, group: UpcomingGroup, tokens: int | None) -> list[str]:
    line = group.place.line if group.place else None
    numbers = (group.epoch_id, group.sample_offset, line, group.row_id, group.group_index)
    return [
        str(position),
        group.origin,
        *("" if number is None else str(number) for number in numbers),
        _samples(group),
        prompt_head(group.sample),
        "" if tokens is None else str(tokens),
        "" if group.sample.label is None else value_text(group.sample.label),
    ]


def _samples(group: UpcomingGroup) -> str:
    first = group.first_index
    return "" if first is None else f"{first}-{first + group.num_samples - 1}"
