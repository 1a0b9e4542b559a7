"""What is read and how: the facts above a listing, and the same for programs."""

from __future__ import annotations

from typing import Any

from rolloutds.cursor import Cursor
from rolloutds.dataset import Dataset
from rolloutds.peek import DataSummary
from rolloutds.storage import masked

_MAX_NAMED = 8


def data_record(dataset: Dataset, summary: DataSummary) -> dict[str, Any]:
    """What is read and how, for programs."""
    config = dataset.config
    return {
        "prompt_data": masked(str(config.prompt_data)),
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


def start_record(dataset: Dataset, start: Cursor) -> dict[str, Any]:
    """Where a listing starts, for programs."""
    batch = dataset.config.rollout_batch_size
    return start.state_dict() | {"rollout_id": start.sample_group_index // batch if batch else None}


def data_facts(summary: DataSummary) -> list[tuple[str, str]]:
    """What is read and what is kept of it, for people."""
    paths = [file.path for file in summary.files]
    name = "file" if len(paths) == 1 else f"{len(paths)} files"
    more = f" and {len(paths) - _MAX_NAMED:,} more" if len(paths) > _MAX_NAMED else ""
    return [(name, ", ".join(paths[:_MAX_NAMED]) + more), ("rows", _rows_text(summary))]


def _rows_text(summary: DataSummary) -> str:
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


def order_text(dataset: Dataset, epochs: range) -> str:
    """The order rows are served in, and the epochs that are shown."""
    config = dataset.config
    shown = f"epoch {epochs.start}"
    if epochs.stop - epochs.start > 1:  # len() of a range has a limit
        shown = f"epochs {epochs.start} to {epochs.stop - 1}"
    if not config.rollout_shuffle:
        return f"file order, {shown}"
    return f"shuffled, seed {config.rollout_seed}, {shown}"


def start_text(dataset: Dataset, start: Cursor) -> str:
    """Where a listing starts, for people."""
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


def run_facts(dataset: Dataset) -> list[tuple[str, str]]:
    """The settings that make samples of a row."""
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
