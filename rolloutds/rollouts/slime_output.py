"""Output as a rollout dump of slime: a `.pt` with the samples of one rollout in a flat list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rolloutds import torch_file
from rolloutds.errors import DataError
from rolloutds.rollouts.base import ReadGroup
from rolloutds.rollouts.writer import GroupWriter
from rolloutds.torch_file.dump_writer import write_dump


class SlimeDump(GroupWriter):
    """A dict with `rollout_id` and `samples`, which slime, miles and vime load."""

    ending = ".pt"
    describes = "a rollout dump of slime (a .pt; needs torch)"

    def write(self, groups: Iterable[ReadGroup], path: str) -> None:
        """All samples at once, as the format has it."""
        torch_file.require_torch(needed_for=f"writing {path}")
        dump = _Dump(self, path)
        for group in groups:
            dump.add(group)
            del group
        self.remarks += dump.remarks
        write_dump(path, dump.value())


class _Dump:
    """The samples of a dump, and what is known of it."""

    def __init__(self, writer: SlimeDump, path: str) -> None:
        self._writer = writer
        self._path = path
        self._rollout_ids: set[int | None] = set()
        self._places: dict[int, str] = {}
        self._unnumbered: list[list[dict[str, Any]]] = []
        self._samples: list[dict[str, Any]] = []
        self._fields: Mapping[str, Any] = {}
        self._num_named = 0
        self._num_said = 0

    def add(self, group: ReadGroup) -> None:
        self._rollout_ids.add(group.rollout_id)
        if len(self._rollout_ids) > 1:
            raise DataError(
                f"is of rollout {group.rollout_id}, and groups before it are of another",
                where=str(group.place),
                expected="groups of one rollout: a dump has one `rollout_id`",
                hint="convert the files of each rollout apart, or to a buffer file (.jsonl)",
            )
        self._fields = group.dump_fields or self._fields
        self._num_said += bool(group.own_fields)
        samples = self._flat(group)
        if group.group_index is None:
            self._unnumbered.append(samples)
        else:
            self._check_number(group, group.group_index)
            for sample in samples:
                if sample["group_index"] != group.group_index:  # else of the type it had
                    sample["group_index"] = group.group_index
        self._samples += samples

    def _check_number(self, group: ReadGroup, number: int) -> None:
        known = self._places.setdefault(number, str(group.place))
        if known != str(group.place):
            raise DataError(
                f"has group_index {number}, as {known} has",
                where=str(group.place),
                expected="every group_index once: samples of a dump are told apart by it",
                hint="convert the files apart, or to a buffer file (.jsonl)",
            )

    def _flat(self, group: ReadGroup) -> list[dict[str, Any]]:
        members = self._writer.members(group)
        if not group.is_nested:
            return members
        flat: list[dict[str, Any]] = []
        has_ids = any(sample.rollout_id is not None for sample in group.samples)
        self._num_named += not has_ids
        for number, member in enumerate(members):
            for sample in member if isinstance(member, list) else [member]:
                if not has_ids:
                    sample["rollout_id"] = number
                flat.append(sample)
        return flat

    def value(self) -> dict[str, Any]:
        """What is written."""
        for number, samples in enumerate(self._unnumbered, start=max(self._places, default=-1) + 1):
            for sample in samples:
                sample["group_index"] = number
        rollout_id = next(iter(self._rollout_ids), None)
        fields = self._writer.walk.turn_fields(self._fields, self._path)
        return {"rollout_id": rollout_id, **fields, "samples": self._samples}

    @property
    def remarks(self) -> list[str]:
        found = []
        if self._unnumbered:
            found.append(f"{len(self._unnumbered):,} groups had no group_index and got one")
        if self._num_named:
            found.append(
                f"{self._num_named:,} nested groups had no rollout_id, which a flat dump tells "
                "their rollouts apart by, and got one"
            )
        if self._num_said:
            found.append(f"{self._num_said:,} groups had keys of their own, which a dump has not")
        return found
