"""verl: one sample a line in ``{step}.jsonl``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import Any

from rolloutds.rollouts.base import GroupPlace, GroupReader, ReadGroup
from rolloutds.rollouts.dump_file import Line, LinesFile
from rolloutds.rollouts.place_names import number_in_name
from rolloutds.rollouts.record import Record
from rolloutds.sample import Sample, Status

_UID = re.compile(r"(.+)_\d+_\d+", re.DOTALL)


class VerlReader(GroupReader[LinesFile]):
    """Groups are samples of one prompt: equal `uid` up to its session, else runs of equal input."""

    name = "verl"
    file_type = LinesFile
    looks_for = "lines with `input`, `output` and `score`"

    def recognises(self, file: LinesFile) -> bool:
        """By the keys of the first line."""
        return file.has_keys("input", "output", "score")

    def read(self, file: LinesFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups; a group's lines need not lie together where there is a `uid`."""
        del n_samples_per_prompt
        step = number_in_name(file.path, r"(\d+)\.jsonl")
        for position, lines in enumerate(file.grouped(_Key())):
            place = GroupPlace(file.path, position, lines[0].number)
            members = [_sample(Record.of_line(line, file.path)) for line in lines]
            said = members[0].metadata.get("step")
            yield ReadGroup(members, place, rollout_id=said if isinstance(said, int) else step)


class _Key:
    """What the samples of a group have in common."""

    def __init__(self) -> None:
        self._runs = count()
        self._run = next(self._runs)
        self._last: Any = None

    def __call__(self, line: Line) -> tuple[str, Any]:
        value = line.value
        if not isinstance(value, dict):
            return ("line", line.number)  # refused when it is read
        uid = value.get("uid")
        if isinstance(uid, str):
            match = _UID.fullmatch(uid)
            return ("uid", match[1] if match else uid)
        if value.get("input") != self._last:
            self._run, self._last = next(self._runs), value.get("input")
        return ("run", self._run)


def _sample(record: Record) -> Sample:
    return Sample(
        prompt=record.take_prompt("input"),
        response=record.take_text("output"),
        label=record.take("gts"),
        reward=record.take("score"),
        status=Status.COMPLETED,
        metadata=record.rest(),
    )
