"""ROLL: one object with a list for each column in ``rollout_dump_data.step_{N}.jsonl``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rolloutds.errors import DataError
from rolloutds.rollouts.base import GroupPlace, GroupReader, ReadGroup
from rolloutds.rollouts.dump_file import Line, LinesFile
from rolloutds.rollouts.place_names import number_in_name
from rolloutds.rollouts.record import Record
from rolloutds.sample import Sample, Status


class RollReader(GroupReader[LinesFile]):
    """Groups are runs of equal prompt among the rows that the columns make."""

    name = "roll"
    file_type = LinesFile
    looks_for = "an object of columns, `responses` and `scores` among them"

    def recognises(self, file: LinesFile) -> bool:
        """By the columns of the first line."""
        if not file.has_keys("responses", "scores"):
            return False
        return all(isinstance(file.first_value[name], list) for name in ("responses", "scores"))

    def read(self, file: LinesFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups; an object is in memory as a whole, as the format has it."""
        del n_samples_per_prompt
        step = number_in_name(file.path, r"rollout_dump_data\.step_(\d+)\.jsonl")
        position = 0
        for line in file.lines():
            for _, rows in groupby(_rows(line, file.path), _prompt):
                group = list(rows)
                said = group[0].get("global_step")
                where = f"{file.path}:{line.number}"
                yield ReadGroup(
                    [_sample(Record(row, where)) for row in group],
                    GroupPlace(file.path, position, line.number),
                    rollout_id=said if isinstance(said, int) else step,
                )
                position += 1


def _rows(line: Line, path: str) -> Iterator[dict[str, Any]]:
    columns, where = line.value, f"{path}:{line.number}"
    if not isinstance(columns, dict) or not isinstance(columns.get("responses"), list):
        raise DataError("no object of columns", where=where, expected="lists, `responses` first")
    count = len(columns["responses"])
    for name, column in columns.items():
        if isinstance(column, list) and len(column) != count:
            what = f"{name} has {len(column)} elements, and responses {count}"
            raise DataError(what, where=where, expected="columns of one length")
    for i in range(count):
        yield {
            n: column[i] if isinstance(column, list) else column for n, column in columns.items()
        }


def _prompt(row: dict[str, Any]) -> Any:
    return row.get("prompt"), row.get("messages")


def _sample(record: Record) -> Sample:
    prompt, messages = record.take_prompt("prompt"), record.peek("messages")
    if not prompt and isinstance(messages, list):
        prompt = record.take("messages")
    return Sample(
        prompt=prompt,
        response=record.take_text("responses"),
        label=record.take("ground_truth"),
        reward=record.take("scores"),
        status=Status.COMPLETED,
        metadata=record.rest(),
    )
