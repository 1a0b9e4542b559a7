"""Groups shown whole: the row behind each, and its prompt as it will be sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rolloutds.dataset import Dataset
from rolloutds.peek import PeekedGroup, prompt_characters
from rolloutds.reports.group_table import indices_text
from rolloutds.reports.json_text import as_json, value_text
from rolloutds.reports.model import Block, Facts, Heading, Section


def whole_groups(
    groups: Iterable[PeekedGroup], dataset: Dataset, *, with_indices: bool = False
) -> Iterator[Section]:
    """The sections of each group.

    Args:
        groups: the groups, read as the sections are.
        dataset: the rows they come from.
        with_indices: whether the index of every sample is listed.
    """
    for group in groups:
        yield Heading(
            f"#{group.position}  group {group.sample_group_index}, samples "
            f"{indices_text(group)}, epoch {group.epoch_id}, offset {group.sample_offset}"
        )
        yield Facts(_group_facts(group, dataset, with_indices=with_indices))
        yield from prompt_blocks(group.sample.prompt)


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


def prompt_blocks(prompt: str | list[Any]) -> Iterator[Block]:
    """A whole prompt: its text, or each of its messages."""
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
