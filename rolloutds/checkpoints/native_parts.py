"""What is under our key of a state file, checked value by value.

A file may be damaged or hostile: whatever is in it, it is read, or refused with the place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rolloutds import torch_file
from rolloutds.errors import CheckpointError
from rolloutds.fingerprint import FIELDS, Fingerprint
from rolloutds.in_flight import DrawnGroup
from rolloutds.sample import SAMPLE_FIELDS, Sample
from rolloutds.state_copy import ATOMS

_COUNT_LIMIT = 1 << 63
# Attributes of the class that a value of the same name would hide.
_RESERVED = frozenset(dir(Sample)) - frozenset(SAMPLE_FIELDS)


class Part:
    """A value of a state and its place in it.

    Args:
        value: the value.
        file: the file, or what else the state came from.
        way: its place in there, as one would write it.
    """

    __slots__ = ("_way", "file", "value")

    def __init__(self, value: Any, file: str, way: str) -> None:
        self.value = value
        self.file = file
        self._way = way

    def refusal(self, expected: str, *, hint: str | None = None) -> CheckpointError:
        """The error that says what this is instead."""
        what = f"{self._way} is {shown(self.value)}"
        return CheckpointError(what, where=self.file, expected=expected, hint=hint)

    def __getitem__(self, key: str) -> Part:
        """What is under a key.

        Raises:
            CheckpointError: this is no object, or has no such key.
        """
        if key not in self.mapping():
            raise CheckpointError(
                f"{self._way} lacks {key}", where=self.file, expected="every key of the format"
            )
        return Part(self.value[key], self.file, f'{self._way}["{key}"]')

    def get(self, key: str) -> Part:
        """What is under a key, None where it is absent."""
        return Part(self.mapping().get(key), self.file, f'{self._way}["{key}"]')

    def items(self) -> Iterator[Part]:
        """The parts of a list.

        Raises:
            CheckpointError: it is none.
        """
        if not isinstance(self.value, list | tuple):
            raise self.refusal("a list")
        for position, item in enumerate(self.value):
            yield Part(item, self.file, f"{self._way}[{position}]")

    def live(self) -> Part:
        """The same with tensors in place of their stand-ins."""
        return Part(torch_file.to_live(self.value), self.file, self._way)

    def mapping(self, *, any_key: bool = False) -> dict[Any, Any]:
        """The value, an object whose keys are text (or anything).

        Raises:
            CheckpointError: it is none.
        """
        if not isinstance(self.value, dict):
            raise self.refusal("an object" if any_key else "an object whose keys are text")
        if not any_key and not _are_text(self.value):
            raise self.refusal("an object whose keys are text")
        return self.value

    def count(self) -> int:
        """The value, a whole number from 0.

        Raises:
            CheckpointError: it is none.
        """
        if type(self.value) is not int or not 0 <= self.value < _COUNT_LIMIT:
            raise self.refusal("a count")
        return self.value

    def optional_index(self) -> int | None:
        """The value, a whole number or None.

        Raises:
            CheckpointError: it is neither.
        """
        if not _is_optional_index(self.value):
            raise self.refusal("a whole number, or None")
        index: int | None = self.value
        return index


def _is_optional_index(value: Any) -> bool:
    return value is None or (type(value) is int and abs(value) < _COUNT_LIMIT)


def _are_text(keys: Iterable[Any]) -> bool:
    return all(issubclass(kind, str) for kind in set(map(type, keys)))


def shown(value: Any) -> str:
    """A value in a few words; it may be hostile, so nothing long or nested is spelled out."""
    if type(value) is int and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, str):
        return repr(value[:60])
    if type(value) in ATOMS:
        return repr(value)[:60]
    if isinstance(value, torch_file.ForeignObject | torch_file.ForeignClass):
        return f"an object of the class {value.class_name!s:.100}"
    return f"of type {type(value).__name__}"


def read_fingerprint(part: Part) -> Fingerprint | None:
    """The fingerprint; None: the run had no dataset.

    Raises:
        CheckpointError: a field is missing or of a wrong type.
    """
    if part.value is None:
        return None
    for name in FIELDS:
        field = part[name]
        if name != "keys":
            _check_atom(field)
            continue
        for key in field.mapping():
            if isinstance(field[key].value, dict):
                for kind in field[key].mapping():
                    _check_atom(field[key][kind])
            else:
                _check_atom(field[key])
    return part.mapping()


def _check_atom(part: Part) -> None:
    if type(part.value) not in ATOMS:
        raise part.refusal("text, a number or None")
    if type(part.value) is int:
        part.optional_index()


class GroupReader:
    """Reads groups; each sample and each group may occur once only.

    A file of a few bytes can share one list a billion times. Ours share no group.
    """

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}

    def buffered(self, part: Part) -> DrawnGroup:
        """A group of the buffer: a list of samples, or the name of a row.

        Raises:
            CheckpointError: it is neither.
        """
        if isinstance(part.value, dict):
            return self.drawn(part)
        self._check_form(part)
        first = part.value[0]
        first = first[0] if isinstance(first, list) else first
        return DrawnGroup(
            first.get("group_index"),
            first.get("index"),
            row_id=first.get("row_id"),
            samples=part.value,
        )

    def drawn(self, part: Part) -> DrawnGroup:
        """A group with its numbers, and its row or its samples.

        Raises:
            CheckpointError: it lacks both, or a value is of a wrong type.
        """
        group_index = part.get("group_index").optional_index()
        first_index = part.get("first_index").optional_index()
        row_id = part.get("row_id").optional_index()
        samples = part.get("samples")
        if samples.value is not None:
            self._check_form(samples)
            return DrawnGroup(group_index, first_index, row_id=row_id, samples=samples.value)
        row_position = part["row_position"].count()
        part["group_index"].count()
        part["first_index"].count()
        return DrawnGroup(group_index, first_index, row_position, row_id)

    def _check_form(self, part: Part) -> None:
        self._check_once(part)
        if not part.value:
            raise part.refusal("samples")
        for member in part.items():
            if isinstance(member.value, list):
                self._check_form_of_rollout(member)
            else:
                self._check_sample(member)

    def _check_form_of_rollout(self, part: Part) -> None:
        self._check_once(part)
        if not part.value:
            raise part.refusal("samples")
        for member in part.items():
            self._check_sample(member)

    def _check_once(self, part: Part) -> None:
        if id(part.value) in self._seen:
            raise part.refusal("each group and each sample once")
        if not isinstance(part.value, list | dict):
            raise part.refusal("a list of samples")
        self._seen[id(part.value)] = part.value

    def _check_sample(self, part: Part) -> None:
        if not isinstance(part.value, dict):
            raise part.refusal("a sample")
        self._check_once(part)
        values = part.mapping()
        hidden = values.keys() & _RESERVED
        if hidden:
            raise part[min(hidden)].refusal("no value under this name")
        for name in ("group_index", "index", "row_id"):
            if not _is_optional_index(values.get(name)):
                part.get(name).optional_index()
        for name in ("spec_info", "prefix_cache_info"):
            if values.get(name) is not None:
                part.get(name).mapping()


def read_discarded(part: Part) -> dict[str, int]:
    """Groups discarded so far, by reason.

    Raises:
        CheckpointError: it is not that.
    """
    return {reason: part[reason].count() for reason in part.mapping()}


def foreign_class(value: Any, way: str) -> str | None:
    """Where a value holds an object of a class that is not read, and which; None: nowhere."""
    seen: dict[int, Any] = {}
    todo = [(value, way)]
    while todo:
        item, place = todo.pop()
        if isinstance(item, torch_file.ForeignObject | torch_file.ForeignClass):
            return f"{place} is {shown(item)}"
        if id(item) in seen or not isinstance(item, Mapping | list | tuple):
            continue
        seen[id(item)] = item
        if ATOMS.issuperset(map(type, item.values() if isinstance(item, Mapping) else item)):
            continue
        pairs = item.items() if isinstance(item, Mapping) else enumerate(item)
        todo += [(v, _inside(place, k)) for k, v in pairs if type(v) not in ATOMS]
    return None


def _inside(place: str, key: Any) -> str:
    return f"{place}[{key}]" if type(key) is int else f'{place}["{key!s:.60}"]'
