"""open-instruct: one sample a line, as token ids, in ``{run}_rollouts_{shard}.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator

from rolloutds.rollouts.base import GroupReader, ReadGroup
from rolloutds.rollouts.dump_file import LinesFile
from rolloutds.rollouts.record import Record, status_of
from rolloutds.rollouts.sample_lines import records_by
from rolloutds.sample import Sample


class OpenInstructReader(GroupReader[LinesFile]):
    """Groups are samples of equal `step` and `prompt_idx`; a file holds many steps, and no text."""

    name = "open-instruct"
    file_type = LinesFile
    looks_for = "lines with `prompt_tokens` and `response_tokens`"

    def recognises(self, file: LinesFile) -> bool:
        """By the keys of the first line."""
        return file.has_keys("prompt_tokens", "response_tokens")

    def read(self, file: LinesFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups; a group's lines need not lie together."""
        del n_samples_per_prompt
        for place, records in records_by(file, "step", "prompt_idx"):
            step = records[0].peek("step")
            rollout_id = step if isinstance(step, int) else None
            yield ReadGroup([_sample(r) for r in records], place, rollout_id=rollout_id)


def _sample(record: Record) -> Sample:
    prompt = record.take_list("prompt_tokens") or []
    response = record.take_list("response_tokens") or []
    return Sample(
        tokens=prompt + response,
        response_length=len(response),
        rollout_log_probs=record.take_list("logprobs"),
        reward=record.take("reward"),
        label=record.take("ground_truth"),
        status=status_of(record.peek("finish_reason")),
        metadata=record.rest(),
    )
