"""Our buffer file: JSON Lines, one group a line, values JSON has no form for tagged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rolloutds.errors import GroupError
from rolloutds.rollouts.base import (
    GroupPlace,
    GroupReader,
    ReadGroup,
    Runs,
    members_of,
    shared_group_index,
)
from rolloutds.rollouts.dump_file import Line, LinesFile
from rolloutds.rollouts.tagged_values import untagged

# Keys of a group's line that are fields of `ReadGroup`; all but the samples may be absent.
GROUP_KEYS: Final = ("group_index", "rollout_id", "is_eval", "origin", "dump", "samples")
_ORIGINS: Final = ("dump", "buffer", "in_flight")


class RolloutdsReader(GroupReader[LinesFile]):
    """Groups a line (an object with `samples`, or a bare list), or one sample a line."""

    name = "rolloutds"
    file_type = LinesFile
    looks_for = (
        "lines with `samples`, lines that are lists of samples, or lines with `prompt` and "
        "`response` (or `group_index`)"
    )
    has_indices = True

    def recognises(self, file: LinesFile) -> bool:
        """By the first line."""
        first = file.first_value
        if isinstance(first, list):
            return bool(first) and isinstance(first[0], dict | list)
        if isinstance(first, dict) and isinstance(first.get("samples"), list):
            return True
        return file.has_keys("prompt", "response") or file.has_keys("prompt", "group_index")

    def read(self, file: LinesFile, *, n_samples_per_prompt: int | None) -> Iterator[ReadGroup]:
        """The groups, a line at a time."""
        if isinstance(file.first_value, dict) and "samples" not in file.first_value:
            return _sample_lines(file, n_samples_per_prompt)
        return _group_lines(file)


def _group_lines(file: LinesFile) -> Iterator[ReadGroup]:
    dump: Mapping[str, Any] = {}
    for position, line in enumerate(file.lines()):
        place = GroupPlace(file.path, position, line.number)
        value = untagged(line.value, str(place)) if line.has_tags else line.value
        if isinstance(value, list):
            members = members_of(value, str(place))
            yield ReadGroup(members, place, shared_group_index(members), origin="buffer")
            continue
        if not isinstance(value, dict) or "samples" not in value:
            raise GroupError(
                "no group", where=str(place), expected="an object with `samples`, or a list"
            )
        dump = _object(value, "dump", place) or dump
        yield _group(value, place, dump)


def _group(value: dict[str, Any], place: GroupPlace, dump: Mapping[str, Any]) -> ReadGroup:
    members = members_of(value["samples"], str(place))
    index = _whole(value, "group_index", place)
    group = ReadGroup(
        members,
        place,
        group_index=shared_group_index(members) if index is None else index,
        rollout_id=_whole(value, "rollout_id", place),
        is_eval=value.get("is_eval") is True,
        origin=value["origin"] if value.get("origin") in _ORIGINS else "buffer",
        dump_fields=dump,
    )
    group.own_fields = {name: item for name, item in value.items() if name not in GROUP_KEYS}
    for sample in group.samples:
        if sample.group_index is None:
            sample.group_index = group.group_index
    return group


def _whole(value: dict[str, Any], name: str, place: GroupPlace) -> int | None:
    number = value.get(name)
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise GroupError(
            f"{name} is {number!r:.40}", where=str(place), expected="a whole number or null"
        )
    return number


def _object(value: dict[str, Any], name: str, place: GroupPlace) -> dict[str, Any]:
    found = value.get(name)
    if found is not None and not isinstance(found, dict):
        raise GroupError(f"{name} is {found!r:.40}", where=str(place), expected="an object")
    return found or {}


def _sample_lines(file: LinesFile, size: int | None) -> Iterator[ReadGroup]:
    runs = Runs(size)

    def key(line: Line) -> tuple[str, int]:
        value = line.value
        index = value.get("group_index") if isinstance(value, dict) else None
        where = f"{file.path}:{line.number}"
        return runs.key(untagged(index, where), where)

    for position, lines in enumerate(file.grouped(key)):
        place = GroupPlace(file.path, position, lines[0].number)
        values = [
            untagged(line.value, f"{file.path}:{line.number}") if line.has_tags else line.value
            for line in lines
        ]
        members = members_of(values, str(place))
        yield ReadGroup(members, place, shared_group_index(members), origin="buffer")
