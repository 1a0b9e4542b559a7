"""SkyRL: evaluations, one sample a line in ``global_step_{N}_evals/{data_source}.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rolloutds.rollouts.base import GroupReader, ReadGroup
from rolloutds.rollouts.dump_file import LinesFile
from rolloutds.rollouts.place_names import number_in_folder
from rolloutds.rollouts.record import Record, status_of
from rolloutds.rollouts.sample_lines import runs_of_equal
from rolloutds.sample import Sample


class SkyrlReader(GroupReader[LinesFile]):
    """Groups are runs of equal `input_prompt`; everything is an evaluation."""

    name = "skyrl"
    file_type = LinesFile
    looks_for = "lines with `input_prompt` and `output_response`"

    def recognises(self, file: LinesFile) -> bool:
        """By the keys of the first line."""
        return file.has_keys("input_prompt", "output_response")

    def read(self, file: LinesFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups, as they come."""
        del n_samples_per_prompt
        step = number_in_folder(file.path, r"global_step_(\d+)_evals")
        for place, records in runs_of_equal(file, "input_prompt"):
            members = [_sample(record) for record in records]
            yield ReadGroup(members, place, rollout_id=step, is_eval=True)


def _sample(record: Record) -> Sample:
    score = record.take("score")
    sample = Sample(
        prompt=record.take_prompt("input_prompt"),
        response=record.take_text("output_response"),
        reward=_total(score),
        status=status_of(record.peek("stop_reason")),
        label=_ground_truth(record.peek("env_extras")),
        metadata=record.rest(),
    )
    if isinstance(score, list):
        sample.metadata["score"] = score
    return sample


def _total(score: Any) -> Any:
    """The reward; scores of tokens add up to it."""
    is_list = isinstance(score, list) and all(isinstance(part, int | float) for part in score)
    return sum(score) if is_list else score


def _ground_truth(extras: Any) -> Any:
    spec = extras.get("reward_spec") if isinstance(extras, dict) else None
    return spec.get("ground_truth") if isinstance(spec, dict) else None
