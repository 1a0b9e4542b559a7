"""The groups a run is served from a place on, and the places where one row is served.

Everything is as the run has it when all its groups come from the dataset: without groups put
back into a buffer, group `i` of a run is row ``i % num_rows`` of epoch ``i // num_rows``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rolloutds.cursor import Cursor, Span
from rolloutds.dataset import Dataset
from rolloutds.errors import ConfigError, DataError, TokenizerError
from rolloutds.readers.base import FileSummary, Place
from rolloutds.sample import Sample
from rolloutds.storage import masked
from rolloutds.tokenization import first_uncountable

_GROUPS_READ_AT_ONCE = 32
"""Rows held at a time: rows may be megabytes long."""

_ROWS_SEARCHED_AT_ONCE = 256


@dataclass(frozen=True)
class DataSummary:
    """What is served in an epoch, and why the other lines of the files are not.

    Attributes:
        files: each file's own counts.
        slice_text: ``@[start:end]``, or None.
        num_lines: physical lines (JSON Lines) and rows (Parquet) of all files.
        num_rows: rows served in an epoch.
        num_blank: lines of white space only.
        num_skipped: lines left out because they are not JSON.
        num_outside_slice: rows that load and lie outside the slice.
        num_too_long: rows that the length filter left out.
        max_prompt_len: the limit, in tokens, or None.
    """

    files: Sequence[FileSummary]
    slice_text: str | None
    num_lines: int
    num_rows: int
    num_blank: int
    num_skipped: int
    num_outside_slice: int
    num_too_long: int
    max_prompt_len: int | None


def summarize(dataset: Dataset) -> DataSummary:
    """The counts of a dataset."""
    files = dataset.rows.files
    return DataSummary(
        files=files,
        slice_text=dataset.rows.slice_text,
        num_lines=sum(file.num_lines for file in files),
        num_rows=len(dataset),
        num_blank=sum(file.num_blank for file in files),
        num_skipped=sum(file.num_skipped for file in files),
        num_outside_slice=dataset.rows.num_loadable - len(dataset.rows),
        num_too_long=dataset.num_too_long,
        max_prompt_len=dataset.config.rollout_max_prompt_len,
    )


@dataclass(frozen=True)
class PeekedGroup:
    """One group as the run is served it.

    Attributes:
        position: 0-based in this listing.
        epoch_id: the epoch it belongs to.
        sample_offset: its own offset within the epoch, from 0.
        place: file and line of its row.
        sample_group_index: the group's index in the run.
        sample_index: index of its first sample.
        n_samples_per_prompt: samples in the group.
        rollout_id: the rollout it falls in; None when the batch size is not known.
        sample: its first sample; the others differ in `index` only.
        prompt_tokens: tokens of the prompt; None without a tokenizer, or for message prompts.
    """

    position: int
    epoch_id: int
    sample_offset: int
    place: Place
    sample_group_index: int
    sample_index: int
    n_samples_per_prompt: int
    rollout_id: int | None
    sample: Sample
    prompt_tokens: int | None


@dataclass(frozen=True)
class Listing:
    """The groups from a cursor on, read when they are iterated over, a few at a time.

    Attributes:
        dataset: the rows.
        start: where it starts.
        num_groups: how many there are; more than an epoch's rows go on in the next epochs.
    """

    dataset: Dataset
    start: Cursor
    num_groups: int

    def __iter__(self) -> Iterator[PeekedGroup]:
        cursor, served = self.start, 0
        num_rows, samples = len(self.dataset), self.dataset.config.n_samples_per_prompt
        while served < self.num_groups:
            taken = min(self.num_groups - served, _GROUPS_READ_AT_ONCE)
            spans = cursor.spans(taken, num_rows)
            yield from _groups(self.dataset, spans, cursor.sample_group_index, served)
            cursor = cursor.advanced(taken, num_rows, samples)
            served += taken


def _groups(
    dataset: Dataset, spans: Sequence[Span], first_group: int, first_position: int
) -> Iterator[PeekedGroup]:
    slots = [(span.epoch_id, i) for span in spans for i in range(span.start, span.stop)]
    rows = [row for span in spans for row in _row_positions(dataset, span)]
    n = dataset.config.n_samples_per_prompt
    samples = [
        template.make(first_group + i, (first_group + i) * n)
        for i, template in enumerate(dataset.templates(rows))
    ]
    places = [dataset.rows.place(row) for row in rows]
    tokens = _tokens(dataset, samples, places)
    for i, ((epoch_id, offset), place, sample) in enumerate(
        zip(slots, places, samples, strict=True)
    ):
        yield PeekedGroup(
            position=first_position + i,
            epoch_id=epoch_id,
            sample_offset=offset,
            place=place,
            sample_group_index=first_group + i,
            sample_index=(first_group + i) * n,
            n_samples_per_prompt=n,
            rollout_id=_rollout_of(dataset, first_group + i),
            sample=sample,
            prompt_tokens=tokens[i],
        )


def _row_positions(dataset: Dataset, span: Span) -> list[int]:
    epoch_id = _ordered_epoch(dataset, span.epoch_id)
    return dataset.row_positions(epoch_id, span.start, span.stop)


def _ordered_epoch(dataset: Dataset, epoch_id: int) -> int | None:
    return epoch_id if dataset.config.rollout_shuffle else None


def _tokens(
    dataset: Dataset, samples: Sequence[Sample], places: Sequence[Place]
) -> list[int | None]:
    """Tokens of each prompt; one message list among texts must not hide the others' counts."""
    texts = [i for i, sample in enumerate(samples) if isinstance(sample.prompt, str)]
    counts: list[int | None] = [None] * len(samples)
    try:
        found = dataset.count_tokens([samples[i] for i in texts]) if texts else None
    except TokenizerError as error:
        uncountable = first_uncountable([str(samples[i].prompt) for i in texts])
        if uncountable is not None:
            error.where = str(places[texts[uncountable[0]]])
        raise
    for i, count in zip(texts, found or (), strict=found is not None):
        counts[i] = count
    return counts


def _rollout_of(dataset: Dataset, group_index: int) -> int | None:
    batch = dataset.config.rollout_batch_size
    return None if batch is None else group_index // batch


def start_of_group(dataset: Dataset, group_index: int) -> Cursor:
    """The cursor of a run that is served the group `group_index` next."""
    epoch_id, offset = divmod(group_index, len(dataset))
    return Cursor.at(epoch_id, offset, len(dataset), dataset.config.n_samples_per_prompt)


def start_of_epoch(dataset: Dataset, epoch_id: int, sample_offset: int) -> Cursor:
    """The cursor of a run in `epoch_id` that was served `sample_offset` groups of it.

    Raises:
        ConfigError: the epoch has fewer rows.
    """
    if sample_offset > len(dataset):
        raise ConfigError(
            f"{sample_offset} is beyond the {len(dataset)} rows of an epoch",
            where="sample offset",
            expected=f"0 to {len(dataset)}",
        )
    return Cursor.at(epoch_id, sample_offset, len(dataset), dataset.config.n_samples_per_prompt)


# --- one row ------------------------------------------------------------------------------


def rows_with_id(dataset: Dataset, row_id: int) -> list[int]:
    """Positions in ``dataset.rows`` of the rows with that id, at most one a file.

    Raises:
        DataError: no file serves such a row; says why for each file.
    """
    rows = dataset.rows
    number_of = {file.path: number for number, file in enumerate(rows.files)}

    def key(position: int) -> tuple[int, int]:
        place = rows.place(position)
        return number_of[place.file], place.row_id

    found = []
    for number in range(len(rows.files)):
        position = bisect_left(range(len(rows)), (number, row_id), key=key)
        if position < len(rows) and key(position) == (number, row_id):
            found.append(position)
    served = [position for position in found if _is_kept(dataset, position)]
    if not served:
        raise DataError(
            _why_not_served(dataset, row_id, is_too_long=bool(found)),
            where=masked(str(dataset.config.prompt_data)),
            hint="row ids count physical lines from 0: line 1 is row 0",
        )
    return served


def _is_kept(dataset: Dataset, row_position: int) -> bool:
    return dataset.position_in_epoch(row_position, None) is not None


def _why_not_served(dataset: Dataset, row_id: int, *, is_too_long: bool) -> str:
    if is_too_long:
        limit = dataset.config.rollout_max_prompt_len
        return f"row {row_id} is not served: its prompt is longer than {limit} tokens"
    longest = max(file.num_lines for file in dataset.rows.files)
    if row_id >= longest:
        return f"there is no row {row_id}: the last one is row {longest - 1}"
    reasons = "a blank or skipped line"
    if dataset.rows.slice_text:
        reasons += f", or outside the slice {dataset.rows.slice_text}"
    return f"row {row_id} is not served: it is {reasons}"


def rows_with_text(
    dataset: Dataset, text: str, *, on_progress: Callable[[int], None] | None = None
) -> Iterator[int]:
    """Positions in ``dataset.rows`` of the rows whose prompt holds `text`, in file order.

    Args:
        dataset: the rows; those that the length filter left out are not searched.
        text: what is looked for, exactly, upper and lower case told apart.
        on_progress: called now and then with the number of rows searched.
    """
    for start in range(0, len(dataset), _ROWS_SEARCHED_AT_ONCE):
        stop = min(start + _ROWS_SEARCHED_AT_ONCE, len(dataset))
        positions = dataset.row_positions(None, start, stop)
        for position, template in zip(positions, dataset.templates(positions), strict=True):
            if text in prompt_text(template.make().prompt):
                yield position
        if on_progress is not None:
            on_progress(stop)


@dataclass(frozen=True)
class Appearances:
    """Where rows are served: each in each epoch, as the groups a listing would show.

    Attributes:
        dataset: the rows.
        row_positions: positions in ``dataset.rows``, read once.
        epochs: the epochs looked at.
    """

    dataset: Dataset
    row_positions: Iterator[int]
    epochs: range

    def __iter__(self) -> Iterator[PeekedGroup]:
        position = 0
        for row_position in self.row_positions:
            for epoch_id in self.epochs:
                offset = self._offset(row_position, epoch_id)
                group_index = epoch_id * len(self.dataset) + offset
                span = Span(epoch_id, offset, offset + 1)
                yield from _groups(self.dataset, [span], group_index, position)
                position += 1

    def _offset(self, row_position: int, epoch_id: int) -> int:
        order = _ordered_epoch(self.dataset, epoch_id)
        offset = self.dataset.position_in_epoch(row_position, order)
        if offset is None:
            raise DataError(
                "the row is not served", where=str(self.dataset.rows.place(row_position))
            )
        return offset


# --- what a prompt says -------------------------------------------------------------------


def prompt_text(prompt: str | Sequence[Mapping[str, Any]]) -> str:
    """All the text of a prompt; of messages, their contents one after another."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(_content_text(message) for message in prompt)


def prompt_head(sample: Sample) -> str:
    """The text that tells a prompt from others: the first user message, else the first one.

    Of a rendered prompt it is the message's text too, without the template's opening.
    """
    messages: str | list[Any] = sample.prompt if sample.messages is None else sample.messages
    if isinstance(messages, str):
        return messages
    users = (m for m in messages if isinstance(m, Mapping) and m.get("role") == "user")
    message = next(users, messages[0] if messages else {})
    return _content_text(message)


def prompt_characters(prompt: str | Sequence[Mapping[str, Any]]) -> int:
    """Characters of a prompt's text."""
    if isinstance(prompt, str):
        return len(prompt)
    return sum(len(_content_text(message)) for message in prompt)


def _content_text(message: Any) -> str:
    if not isinstance(message, Mapping):
        return str(message)
    content = message.get("content", message.get("value"))
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(_part_text, content))
    # A prompt may be the parts of one message, without the message.
    return _part_text(message) if "type" in message else ""


def _part_text(part: Any) -> str:
    if not isinstance(part, Mapping):
        return str(part)
    if isinstance(part.get("text"), str):
        return str(part["text"])
    return f"<{part.get('type', 'part')}>"
