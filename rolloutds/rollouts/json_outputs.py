"""Outputs in JSON Lines: our buffer file, which loses nothing, and lines for reading."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from rolloutds.errors import TorchFileError
from rolloutds.rollouts.atomic_output import whole_file
from rolloutds.rollouts.base import ReadGroup
from rolloutds.rollouts.plain_walk import PlainWalk, Way
from rolloutds.rollouts.tagged_values import Tagger, json_line
from rolloutds.rollouts.writer import GroupWriter
from rolloutds.torch_file import PlainScalar


class BufferFile(GroupWriter):
    """Our buffer file: one group a line, nothing lost."""

    ending = ".jsonl"
    describes = "our buffer file, JSON Lines with one group a line; nothing is lost"

    @staticmethod
    def make_walk(*, drop_foreign: bool) -> PlainWalk:
        """Tags."""
        return Tagger(drop_foreign=drop_foreign)

    def write(self, groups: Iterable[ReadGroup], path: str) -> None:
        """A line a group."""
        dump: Mapping[str, Any] | None = None
        with whole_file(path) as handle:
            for group in groups:
                line = self._line(group)
                if group.dump_fields and group.dump_fields is not dump:
                    dump = group.dump_fields
                    line["dump"] = self.walk.turn_fields(dump, group.place.file)
                line["samples"] = self.members(group)
                handle.write(json_line(line).encode("utf-8") + b"\n")
                del group, line

    def _line(self, group: ReadGroup) -> dict[str, Any]:
        """What is said of a group beside its samples; what follows from nothing else only."""
        # Plain for all who read lines; each sample says its own, of whatever type that is.
        number = group.group_index
        line: dict[str, Any] = {"group_index": None if number is None else int(number)}
        if group.rollout_id is not None:
            line |= self.walk.turn_fields({"rollout_id": group.rollout_id}, group.place.file)
        if group.is_eval:
            line["is_eval"] = True
        if group.origin != "buffer":
            line["origin"] = group.origin
        return line | self.walk.turn_fields(group.own_fields, str(group.place))


class ReadableLines(GroupWriter):
    """Lines for people and other programs: one sample a line, no tags."""

    ending = ".ndjson"
    describes = "JSON Lines for reading, one sample a line; tensors as lists, NaN as text"

    @staticmethod
    def make_walk(*, drop_foreign: bool) -> PlainWalk:
        """Plain JSON."""
        return Simplifier(drop_foreign=drop_foreign)

    def write(self, groups: Iterable[ReadGroup], path: str) -> None:
        """A line a sample."""
        with whole_file(path) as handle:
            for group in groups:
                for i, sample in enumerate(group.samples):
                    fields = self.fields(sample, f"{group.place}, sample {i}")
                    if fields.get("group_index") is None:
                        fields["group_index"] = int(group.number)
                    handle.write(json_line(fields).encode("utf-8") + b"\n")
                del group, sample, fields


class Simplifier(PlainWalk):
    """Turns values into plain JSON that reads well; types may be lost."""

    def number(self, value: float) -> Any:
        """``"nan"``, ``"inf"``, ``"-inf"``."""
        return repr(value)

    def binary(self, value: bytes) -> Any:
        """Bytes as base64."""
        return base64.b64encode(value).decode("ascii")

    def moment(self, value: Any) -> Any:
        """The ISO form; a duration as text."""
        return value.isoformat() if hasattr(value, "isoformat") else str(value)

    def sequence(self, value: list[Any] | tuple[Any, ...], way: Way) -> Any:
        """A list."""
        return self.items(value, way)

    def mapping(self, value: Mapping[Any, Any], way: Way) -> Any:
        """An object; its keys as text."""
        return {str(key): item for key, item in self.pairs(value, way)}

    def tensor(self, value: Any, way: Way) -> Any:
        """Its numbers as nested lists; a description where there are too many or odd ones."""
        try:
            listed = value.tolist()
        except TorchFileError:
            return repr(value)
        return self.turn(_without_complex(listed), way)

    def array(self, value: Any, way: Way) -> Any:
        """As a tensor."""
        return self.tensor(value, way)

    def scalar(self, value: Any, way: Way) -> Any:
        """The number or text it equals; a description where there is none."""
        return self.tensor(value, way) if isinstance(value, PlainScalar) else repr(value)


def _without_complex(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_complex(item) for item in value] if _may_hold_complex(value) else value
    return str(value) if isinstance(value, complex) else value


def _may_hold_complex(value: list[Any]) -> bool:
    return bool(value) and isinstance(value[0], complex | list)
