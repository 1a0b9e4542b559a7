"""NeMo-RL: one sample a line in ``train_data_step{N}.jsonl``, every value a list of one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from rolloutds.errors import DataError
from rolloutds.rollouts.base import GroupPlace, GroupReader, ReadGroup
from rolloutds.rollouts.dump_file import Line, LinesFile
from rolloutds.rollouts.place_names import number_in_name
from rolloutds.rollouts.record import Record, message_text
from rolloutds.sample import Sample, Status


class NemoRlReader(GroupReader[LinesFile]):
    """Groups are runs of equal prompt tokens: those before the first that is trained on.

    The text is not split into prompt and response in these files: all of it is the response,
    unless it comes as messages.
    """

    name = "nemo-rl"
    file_type = LinesFile
    looks_for = "lines with `token_ids` and `token_loss_mask`, each a list of one"

    def recognises(self, file: LinesFile) -> bool:
        """By the keys of the first line."""
        return file.has_keys("token_ids", "token_loss_mask")

    def read(self, file: LinesFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups, as they come."""
        del n_samples_per_prompt
        step = number_in_name(file.path, r"train_data_step(\d+)\.jsonl")
        read = (_read(line, file.path) for line in file.lines())
        for position, (_, group) in enumerate(groupby(read, lambda one: one.prompt_tokens)):
            samples = list(group)
            place = GroupPlace(file.path, position, samples[0].line)
            yield ReadGroup([one.sample for one in samples], place, rollout_id=step)


class _Read(NamedTuple):
    line: int
    prompt_tokens: list[Any]
    sample: Sample


def _read(line: Line, path: str) -> _Read:
    record = _unwrapped(line, path)
    num_tokens = record.take_count("input_lengths")
    tokens = (record.take_list("token_ids") or [])[:num_tokens]
    mask = (record.take_list("token_loss_mask") or [])[: len(tokens)]
    start = next((i for i, is_trained in enumerate(mask) if is_trained), len(tokens))
    prompt, response = _texts(record.take("content"))
    log_probs = record.take_list("generation_logprobs")
    is_left_out = record.peek("sample_loss_mask") in (0, 0.0, False)
    sample = Sample(
        prompt=prompt,
        response=response,
        tokens=tokens,
        response_length=len(tokens) - start,
        loss_mask=[int(bool(flag)) for flag in mask[start:]],
        rollout_log_probs=None if log_probs is None else log_probs[start : len(tokens)],
        reward=record.take("rewards"),
        remove_sample=is_left_out,
        status=Status.COMPLETED,
        metadata=record.rest(),
    )
    return _Read(line.number, tokens[:start], sample)


def _unwrapped(line: Line, path: str) -> Record:
    value, where = line.value, f"{path}:{line.number}"
    if not isinstance(value, dict):
        raise DataError(f"a {type(value).__name__}", where=where, expected="an object")
    odd = [
        name
        for name, field in value.items()
        if isinstance(field, list) and len(field) != 1 and name != "idx"
    ]
    if odd:
        found = f"{odd[0]} has {len(value[odd[0]])} elements"
        raise DataError(found, where=where, expected="a list of one")
    return Record(
        {
            name: field[0] if isinstance(field, list) and field else field
            for name, field in value.items()
        },
        where,
    )


def _texts(content: Any) -> tuple[Any, str]:
    """Prompt and response."""
    if isinstance(content, list) and content:
        return content[:-1], message_text(content[-1:])
    return "", content if isinstance(content, str) else ""
