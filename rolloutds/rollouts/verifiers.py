"""verifiers (v0): one sample a line in ``results.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator

from rolloutds.rollouts.base import GroupReader, ReadGroup
from rolloutds.rollouts.dump_file import LinesFile
from rolloutds.rollouts.record import Record, message_text
from rolloutds.rollouts.sample_lines import records_by
from rolloutds.sample import Sample, Status


class VerifiersReader(GroupReader[LinesFile]):
    """Groups are samples of equal `example_id`; messages of a completion are kept in metadata."""

    name = "verifiers"
    file_type = LinesFile
    looks_for = "lines with `example_id`, `prompt` and `completion`"

    def recognises(self, file: LinesFile) -> bool:
        """By the keys of the first line."""
        return file.has_keys("example_id", "prompt", "completion")

    def read(self, file: LinesFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups; a group's lines need not lie together."""
        del n_samples_per_prompt
        for place, records in records_by(file, "example_id"):
            yield ReadGroup([_sample(record) for record in records], place, is_eval=True)


def _sample(record: Record) -> Sample:
    completion = record.take_prompt("completion")
    sample = Sample(
        prompt=record.take_prompt("prompt"),
        response=message_text(completion),
        reward=record.take("reward"),
        label=record.take("answer"),
        status=_status(record),
        metadata=record.rest(),
    )
    if isinstance(completion, list):
        sample.metadata["completion"] = completion
    return sample


def _status(record: Record) -> Status:
    if record.peek("error"):
        return Status.FAILED
    if record.peek("is_truncated"):
        return Status.TRUNCATED
    return Status.PENDING if record.peek("is_completed") is False else Status.COMPLETED
