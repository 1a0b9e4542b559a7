"""TRL: one sample a row in ``completions/completions_{step}.parquet``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rolloutds.rollouts.base import GroupPlace, GroupReader, ReadGroup
from rolloutds.rollouts.dump_file import ParquetFile
from rolloutds.rollouts.place_names import number_in_name
from rolloutds.rollouts.record import Record, message_text
from rolloutds.sample import Sample, Status

_KNOWN = ("step", "prompt", "completion", "advantage")
_NUMBERS = ("double", "float", "halffloat")


class TrlReader(GroupReader[ParquetFile]):
    """Groups are runs of equal prompt.

    Columns of fractional numbers beside TRL's own are rewards: one is the reward itself, several
    are an object by name. What is left is metadata.
    """

    name = "trl"
    file_type = ParquetFile
    looks_for = "a Parquet file with the columns `step`, `prompt` and `completion`"

    def recognises(self, file: ParquetFile) -> bool:
        """By its columns."""
        return file.has_columns("step", "prompt", "completion")

    def read(self, file: ParquetFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups, as they come."""
        del n_samples_per_prompt
        rewards = [n for n, kind in file.columns if kind in _NUMBERS and n not in _KNOWN]
        named = number_in_name(file.path, r"completions_(\d+)\.parquet")
        groups = groupby(file.rows(), lambda row: (row.get("step"), row.get("prompt")))
        for position, ((step, _), rows) in enumerate(groups):
            place = GroupPlace(file.path, position)
            members = [_sample(Record(row, str(place)), rewards) for row in rows]
            rollout_id = step if isinstance(step, int) else named
            yield ReadGroup(members, place, rollout_id=rollout_id)


def _sample(record: Record, reward_names: list[str]) -> Sample:
    completion = record.take_prompt("completion")
    sample = Sample(
        prompt=record.take_prompt("prompt"),
        response=message_text(completion),
        reward=_reward({name: record.take(name) for name in reward_names}),
        status=Status.COMPLETED,
        metadata=record.rest(),
    )
    if isinstance(completion, list):
        sample.metadata["completion"] = completion
    return sample


def _reward(rewards: dict[str, Any]) -> Any:
    if len(rewards) == 1:
        return next(iter(rewards.values()))
    return rewards or None
