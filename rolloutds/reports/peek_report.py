"""What `peek` says: where the listing stands above the table, and the groups in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolloutds.cursor import Cursor
from rolloutds.dataset import Dataset
from rolloutds.peek import (
    Appearances,
    DataSummary,
    Listing,
    PeekedGroup,
    prompt_characters,
    prompt_head,
    summarize,
)
from rolloutds.reports.json_text import as_json
from rolloutds.reports.model import Block, Border, Cells, Column, Facts, Heading, Report, Table

PROMPT_LIMIT = 100
"""Most characters of a prompt's head, where there is no screen to fit it to."""

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


@dataclass(frozen=True)
class Borders:
    """Which borders are drawn between groups."""

    between_epochs: bool = True
    between_rollouts: bool = False


def listing_report(listing: Listing, *, full: bool, draws_rollouts: bool) -> Report:
    """The groups from a cursor on, as a table, or whole when `full`."""
    dataset = listing.dataset
    summary = summarize(dataset)
    facts = [
        *data_facts(summary),
        ("order", _order_text(dataset, _epochs(listing))),
        ("start", _start_text(dataset, listing.start)),
        *_run_facts(dataset),
    ]
    borders = Borders(between_rollouts=draws_rollouts)
    return Report(
        kind="peek",
        data=data_record(dataset, summary) | {"start": _start_data(dataset, listing.start)},
        records_name="groups",
        records=(record(group) for group in listing),
        sections=_sections(facts, listing, dataset, borders, full=full),
    )


def appearances_report(found: Appearances, groups: Iterable[PeekedGroup], *, full: bool) -> Report:
    """Where certain rows are served, epoch by epoch, with the rollout each falls in."""
    dataset = found.dataset
    summary = summarize(dataset)
    facts = [
        *data_facts(summary),
        ("order", _order_text(dataset, found.epochs)),
        *_run_facts(dataset),
    ]
    borders = Borders(between_epochs=False)
    return Report(
        kind="peek",
        data=data_record(dataset, summary),
        records_name="groups",
        records=(record(group) | {"rollout_id": group.rollout_id} for group in groups),
        sections=_sections(facts, groups, dataset, borders, full=full, is_located=True),
    )


def group_report(listing: Listing) -> Report:
    """One group with everything it has."""
    dataset = listing.dataset
    summary = summarize(dataset)
    return Report(
        kind="peek",
        data=data_record(dataset, summary) | {"start": _start_data(dataset, listing.start)},
        records_name="groups",
        records=(record(group) for group in listing),
        sections=_whole_groups(listing, dataset, with_indices=True),
    )


def record(group: PeekedGroup) -> dict[str, Any]:
    """A group for programs; these keys are what ``--format jsonl`` promises."""
    return {
        "position": group.position,
        "epoch_id": group.epoch_id,
        "sample_offset": group.sample_offset,
        "row_id": group.place.row_id,
        "line": group.place.line,
        "file": group.place.file,
        "sample_group_index": group.sample_group_index,
        "sample_index": group.sample_index,
        "n_samples_per_prompt": group.n_samples_per_prompt,
        "prompt": group.sample.prompt,
        "prompt_tokens": group.prompt_tokens,
        "label": group.sample.label,
        "metadata": group.sample.metadata,
    }


# --- above the table ----------------------------------------------------------------------


def data_record(dataset: Dataset, summary: DataSummary) -> dict[str, Any]:
    """What is read and how, for programs."""
    config = dataset.config
    return {
        "prompt_data": config.prompt_data,
        "files": [
            {
                "path": file.path,
                "num_rows": file.num_rows,
                "num_lines": file.num_lines,
                "num_blank": file.num_blank,
                "num_skipped": file.num_skipped,
                "num_bytes": file.num_bytes,
            }
            for file in summary.files
        ],
        "slice": summary.slice_text,
        "num_rows": summary.num_rows,
        "num_lines": summary.num_lines,
        "num_blank": summary.num_blank,
        "num_skipped": summary.num_skipped,
        "num_outside_slice": summary.num_outside_slice,
        "num_too_long": summary.num_too_long,
        "rollout_max_prompt_len": summary.max_prompt_len,
        "rollout_shuffle": config.rollout_shuffle,
        "rollout_seed": config.rollout_seed if config.rollout_shuffle else None,
        "rollout_batch_size": config.rollout_batch_size,
        "n_samples_per_prompt": config.n_samples_per_prompt,
        "input_key": config.input_key,
        "label_key": config.label_key,
        "tokenizer": _tokenizer_name(dataset),
        "apply_chat_template": config.apply_chat_template,
    }


def _start_data(dataset: Dataset, start: Cursor) -> dict[str, Any]:
    batch = dataset.config.rollout_batch_size
    return start.state_dict() | {"rollout_id": start.sample_group_index // batch if batch else None}


def data_facts(summary: DataSummary) -> list[tuple[str, str]]:
    """What is read and what is kept of it, for people."""
    paths = [file.path for file in summary.files]
    name = "file" if len(paths) == 1 else f"{len(paths)} files"
    return [(name, ", ".join(paths)), ("rows", rows_text(summary))]


def rows_text(summary: DataSummary) -> str:
    """How many rows are served, and why the others are not."""
    left_out = [
        (summary.num_blank, "blank"),
        (summary.num_skipped, "skipped (not JSON)"),
        (summary.num_outside_slice, f"outside the slice {summary.slice_text}"),
        (summary.num_too_long, f"longer than {summary.max_prompt_len} tokens"),
    ]
    reasons = [f"{count:,} {reason}" for count, reason in left_out if count]
    if not reasons:
        return f"{summary.num_rows:,} kept, all there are"
    return f"{summary.num_rows:,} of {summary.num_lines:,} kept; left out: {', '.join(reasons)}"


def _order_text(dataset: Dataset, epochs: range) -> str:
    config = dataset.config
    shown = f"epoch {epochs.start}"
    if len(epochs) > 1:
        shown = f"epochs {epochs.start} to {epochs.stop - 1}"
    if not config.rollout_shuffle:
        return f"file order, {shown}"
    return f"shuffled, seed {config.rollout_seed}, {shown}"


def _epochs(listing: Listing) -> range:
    dataset, start = listing.dataset, listing.start
    end = start.advanced(listing.num_groups, len(dataset), dataset.config.n_samples_per_prompt)
    first = start.advanced(min(listing.num_groups, 1), len(dataset), 1).epoch_id
    return range(first, end.epoch_id + 1)


def _start_text(dataset: Dataset, start: Cursor) -> str:
    text = (
        f"epoch {start.epoch_id}, offset {start.sample_offset:,}: "
        f"group {start.sample_group_index:,}, sample {start.sample_index:,}"
    )
    batch = dataset.config.rollout_batch_size
    if batch:
        rollout_id, inside = divmod(start.sample_group_index, batch)
        text += f", rollout {rollout_id:,}"
        text += f" (group {inside} of its {batch})" if inside else ""
    if start.sample_offset == len(dataset):
        text += f" (the end; the next draw begins epoch {start.epoch_id + 1})"
    return text


def _run_facts(dataset: Dataset) -> list[tuple[str, str]]:
    config = dataset.config
    samples = f"{config.n_samples_per_prompt} a group"
    if config.rollout_batch_size:
        samples += f", {config.rollout_batch_size:,} groups a rollout"
    keys = f"prompt {config.input_key!r}, "
    keys += f"label {config.label_key!r}" if config.label_key else "no label"
    tokenizer = _tokenizer_name(dataset) or "none, lengths in characters"
    if config.apply_chat_template:
        tokenizer += ", chat template applied"
    return [("samples", samples), ("keys", keys), ("tokenizer", tokenizer)]


def _tokenizer_name(dataset: Dataset) -> str | None:
    return dataset.tokenizer.name if dataset.tokenizer is not None else None


# --- the groups ---------------------------------------------------------------------------


def _sections(
    facts: list[tuple[str, str]],
    groups: Iterable[PeekedGroup],
    dataset: Dataset,
    borders: Borders,
    *,
    full: bool,
    is_located: bool = False,
) -> Iterator[Any]:
    yield Facts(facts)
    if full:
        yield from _whole_groups(groups, dataset)
        return
    names = short_names([file.path for file in dataset.rows.files])
    # When a row is trained is another question than what is in it: the columns differ.
    located = [
        Column("epoch", justify="right"),
        Column("offset", justify="right"),
        Column("rollout", justify="right", is_optional=True),
    ]
    described = [
        Column("tokens", justify="right", is_optional=True),
        Column("chars", justify="right", is_optional=True),
    ]
    columns = [
        Column("#", justify="right"),
        *(located if is_located else []),
        Column(_place_heading(dataset), justify="right" if len(names) == 1 else "left"),
        Column("group", justify="right"),
        Column("samples", justify="right"),
        Column("prompt", limit=PROMPT_LIMIT, is_flexible=True),
        *([] if is_located else described),
        Column("label", limit=LABEL_LIMIT, is_optional=True),
        Column("source", limit=SOURCE_LIMIT, is_optional=True),
    ]
    yield Table(columns, _rows(groups, names, borders, is_located=is_located))


def _rows(
    groups: Iterable[PeekedGroup],
    names: Mapping[str, str],
    borders: Borders,
    *,
    is_located: bool,
) -> Iterator[Cells | Border]:
    previous: PeekedGroup | None = None
    for group in groups:
        title = _border_title(previous, group, borders)
        if title:
            yield Border(title)
        yield Cells(_cells(group, names, is_located=is_located))
        previous = group


def _border_title(previous: PeekedGroup | None, group: PeekedGroup, borders: Borders) -> str:
    begins = []
    if borders.between_rollouts and (previous is None or previous.rollout_id != group.rollout_id):
        begins.append(f"rollout {group.rollout_id}")
    if borders.between_epochs and previous is not None and previous.epoch_id != group.epoch_id:
        begins.append(f"epoch {group.epoch_id}")
    return ", ".join(begins)


def _cells(group: PeekedGroup, names: Mapping[str, str], *, is_located: bool) -> list[str]:
    sample, tokens = group.sample, group.prompt_tokens
    located = [str(group.epoch_id), str(group.sample_offset), _number(group.rollout_id)]
    described = [
        _number(tokens),
        _number(prompt_characters(sample.prompt) if tokens is None else None),
    ]
    return [
        str(group.position),
        *(located if is_located else []),
        _place_text(group, names),
        str(group.sample_group_index),
        _indices_text(group),
        prompt_head(sample),
        *([] if is_located else described),
        "" if sample.label is None else value_text(sample.label),
        _source_text(sample.metadata),
    ]


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _indices_text(group: PeekedGroup) -> str:
    last = group.sample_index + group.n_samples_per_prompt - 1
    return str(last) if last == group.sample_index else f"{group.sample_index}-{last}"


def _place_heading(dataset: Dataset) -> str:
    if len(dataset.rows.files) > 1:
        return "file:line"
    return "row" if dataset.rows.place(0).line is None else "line"


def _place_text(group: PeekedGroup, names: Mapping[str, str]) -> str:
    place = group.place
    number = place.row_id if place.line is None else place.line
    return str(number) if len(names) == 1 else f"{names[place.file]}:{number}"


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Each path without what all of them begin with, by path."""
    if len(paths) == 1:
        return {paths[0]: Path(paths[0]).name}
    absolute = {path: Path(path).absolute() for path in paths}
    folder = os.path.commonpath([path.parent for path in absolute.values()])
    return {path: str(full.relative_to(folder)) for path, full in absolute.items()}


def value_text(value: Any) -> str:
    """Text as it is, a number as Python writes it, anything else as JSON."""
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, float) else as_json(value)


def _source_text(metadata: Mapping[str, Any]) -> str:
    for key in _SOURCE_KEYS:
        value = metadata.get(key)
        if isinstance(value, str | int | float) and value != "":
            return str(value)
    return ""


# --- whole prompts ------------------------------------------------------------------------


def _whole_groups(
    groups: Iterable[PeekedGroup], dataset: Dataset, *, with_indices: bool = False
) -> Iterator[Any]:
    for group in groups:
        yield Heading(
            f"#{group.position}  group {group.sample_group_index}, samples "
            f"{_indices_text(group)}, epoch {group.epoch_id}, offset {group.sample_offset}"
        )
        yield Facts(_group_facts(group, dataset, with_indices=with_indices))
        yield from _prompt_blocks(group)


def _group_facts(
    group: PeekedGroup, dataset: Dataset, *, with_indices: bool
) -> list[tuple[str, str]]:
    sample = group.sample
    length = f"{prompt_characters(sample.prompt):,} characters"
    if group.prompt_tokens is not None:
        length += f", {group.prompt_tokens:,} tokens"
    facts = [("row", f"{group.place} (row id {group.place.row_id})"), ("length", length)]
    if group.rollout_id is not None:
        facts.append(("rollout", str(group.rollout_id)))
    if with_indices:
        first = group.sample_index
        indices = range(first, first + group.n_samples_per_prompt)
        facts.append(("indices", " ".join(map(str, indices))))
    if dataset.config.label_key is not None:
        facts.append(("label", as_json(sample.label)))
    if sample.metadata:
        facts.append(("metadata", as_json(sample.metadata)))
    return facts


def _prompt_blocks(group: PeekedGroup) -> Iterator[Block]:
    prompt: str | list[Any] = group.sample.prompt
    if isinstance(prompt, str):
        yield Block(prompt, title="prompt")
        return
    for message in prompt:
        content = message.get("content") if isinstance(message, Mapping) else message
        text = content if isinstance(content, str) else as_json(content, indent=2)
        yield Block(text, title=_message_title(message))


def _message_title(message: Any) -> str:
    if not isinstance(message, Mapping):
        return "message"
    others = {key: value for key, value in message.items() if key not in ("role", "content")}
    title = value_text(message.get("role", "message"))
    return f"{title}  {as_json(others)}" if others else title
