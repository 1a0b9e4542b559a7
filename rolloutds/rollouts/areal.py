"""AReaL: the samples of one prompt in ``rollout/{version}/{task_id}.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator

from rolloutds.rollouts.base import GroupReader, ReadGroup
from rolloutds.rollouts.dump_file import LinesFile
from rolloutds.rollouts.place_names import number_in_folder
from rolloutds.rollouts.record import Record
from rolloutds.rollouts.sample_lines import records_by
from rolloutds.sample import Sample, Status


class ArealReader(GroupReader[LinesFile]):
    """Groups are samples of equal `task_id`; the folder's version is the rollout id."""

    name = "areal"
    file_type = LinesFile
    looks_for = "lines with `task_id`, `prompt`, `completion` and `seqlen`"

    def recognises(self, file: LinesFile) -> bool:
        """By the keys of the first line."""
        return file.has_keys("task_id", "prompt", "completion", "seqlen")

    def read(self, file: LinesFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups; a group's lines need not lie together."""
        del n_samples_per_prompt
        version = number_in_folder(file.path, r"(\d+)")
        for place, records in records_by(file, "task_id"):
            yield ReadGroup([_sample(r) for r in records], place, rollout_id=version)


def _sample(record: Record) -> Sample:
    length = record.take_count("seqlen")
    prompt_length = record.take_count("prompt_len")
    versions = [record.take("head_version"), record.take("tail_version")]
    known = [version for version in versions if version is not None]
    if length is not None and prompt_length is not None and prompt_length > length:
        raise record.wrong("prompt_len", prompt_length, f"at most seqlen, which is {length}")
    return Sample(
        prompt=record.take_prompt("prompt"),
        response=record.take_text("completion"),
        response_length=(length or 0) - (prompt_length or 0),
        reward=record.take("reward"),
        weight_versions=list(dict.fromkeys(map(str, known))),
        status=Status.COMPLETED,
        metadata=record.rest(),
    )
