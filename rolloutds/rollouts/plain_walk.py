"""A walk over a value that may hold anything: what can be written, and what has to stay out.

`PlainWalk` itself gives values back as they are, without foreign ones; a writer that needs another
form of some kind overrides the method for that kind.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from rolloutds.errors import DataError, TorchFileError
from rolloutds.rollouts.array_bytes import stand_in
from rolloutds.torch_file import (
    ArrayValue,
    ForeignClass,
    ForeignObject,
    ScalarValue,
    TensorValue,
)

Way = tuple[Any, ...]

_MAX_DEPTH: Final = 150
# A small file can describe a value that is huge when written out (shared lists of shared lists).
_MAX_ITEMS: Final = 1 << 27
_MAX_INT: Final = 10**4300
_EXACT: Final = frozenset({int, bool, type(None)})
_MOMENTS: Final = (datetime.date, datetime.time, datetime.timedelta)
_LEFT_OUT: Final = object()


class PlainWalk:
    """Turns values, one group's at a time.

    Args:
        drop_foreign: leave foreign values out and count them, where the default is to refuse.

    Attributes:
        dropped: values left out, by the name of their class.
    """

    def __init__(self, *, drop_foreign: bool = False) -> None:
        self._drop_foreign = drop_foreign
        self.dropped: Counter[str] = Counter()
        self._where = ""
        self._num_items = 0

    def turn_fields(self, fields: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The fields of a sample.

        Args:
            fields: names and values.
            where: the sample's place, for messages.

        Raises:
            DataError: a value is of a class that cannot be written, or too large or deep.
        """
        self._where, self._num_items = where, 0
        # Names are attributes: plain text, whatever they were in the file.
        turned = {str(name): self.turn(value, (name,)) for name, value in fields.items()}
        return {name: value for name, value in turned.items() if value is not _LEFT_OUT}

    # What a writer may override.

    def number(self, value: float) -> Any:
        """A number that is not finite."""
        return value

    def text(self, value: str) -> Any:
        """Text."""
        return value

    def binary(self, value: bytes) -> Any:
        """Bytes."""
        return value

    def moment(self, value: Any) -> Any:
        """A datetime, date, time or timedelta."""
        return value

    def sequence(self, value: list[Any] | tuple[Any, ...], way: Way) -> Any:
        """A list or a tuple."""
        items = self.items(value, way)
        return tuple(items) if isinstance(value, tuple) else items

    def mapping(self, value: Mapping[Any, Any], way: Way) -> Any:
        """A dict."""
        return dict(self.pairs(value, way))

    def tensor(self, value: TensorValue, way: Way) -> Any:
        """A tensor."""
        del way
        return value

    def array(self, value: ArrayValue, way: Way) -> Any:
        """A NumPy array."""
        del way
        return value

    def scalar(self, value: ScalarValue, way: Way) -> Any:
        """A NumPy scalar, also one that is a key."""
        del way
        return value

    # The walk.

    def turn(self, value: Any, way: Way) -> Any:
        """What is written for a value."""
        kind = type(value)
        if kind is str:
            return self.text(value) if not value.isascii() else value
        if kind is float:
            return value if math.isfinite(value) else self.number(value)
        if kind in _EXACT:
            return value if kind is not int or -_MAX_INT < value < _MAX_INT else self._huge(way)
        if kind is list and (_is_numbers(value)):
            self._count(len(value), way)
            return value
        if kind is list or kind is tuple:
            return self.sequence(value, way)
        if isinstance(value, Mapping):
            return self.mapping(value, way)
        return self._other(value, way)

    def items(self, value: Any, way: Way) -> list[Any]:
        """The elements, turned; one that is left out becomes None, so that others keep places."""
        self._count(len(value), way)
        turned = [self.turn(item, (*way, i)) for i, item in enumerate(value)]
        return [None if item is _LEFT_OUT else item for item in turned]

    def pairs(self, value: Mapping[Any, Any], way: Way) -> list[tuple[Any, Any]]:
        """Keys and turned values, without those that are left out."""
        self._count(len(value), way)
        turned = []
        for key, item in value.items():
            name = self._key(key, way)
            if name is not _LEFT_OUT:
                turned.append((name, self.turn(item, (*way, key))))
        return [(key, item) for key, item in turned if item is not _LEFT_OUT]

    def _key(self, key: Any, way: Way) -> Any:
        if type(key) is str or type(key) is int:
            return key
        found = key if isinstance(key, ScalarValue) else stand_in(key)
        if isinstance(found, ScalarValue) and found.dtype.code[0] in "iuU":
            return self.scalar(found, way)
        if not self._drop_foreign:
            raise self._refused(f"has the key {key!r:.40}", way, "keys that are text or int")
        self.dropped[class_name(key)] += 1
        return _LEFT_OUT

    def _other(self, value: Any, way: Way) -> Any:
        found = stand_in(value) if not isinstance(value, ScalarValue | ForeignObject) else None
        value = value if found is None else found
        if isinstance(value, ArrayValue | ScalarValue):
            return self._of_numpy(value, way)
        if isinstance(value, bytes):
            return self.binary(value)
        if isinstance(value, _MOMENTS):
            return self.moment(value) if _has_plain_zone(value) else self.foreign(value, way)
        if isinstance(value, TensorValue):
            return self._checked(self.tensor, value, way)
        return self.foreign(value, way)

    def _of_numpy(self, value: ArrayValue | ScalarValue, way: Way) -> Any:
        if _lacks_its_unit(value.dtype):
            return self.foreign(value, way)
        turn = self.array if isinstance(value, ArrayValue) else self.scalar
        return self._checked(turn, value, way)

    def _checked(self, turn: Any, value: Any, way: Way) -> Any:
        try:
            return turn(value, way)
        except TorchFileError as error:
            raise self._refused(f"cannot be written ({error.what})", way, None) from error

    def foreign(self, value: Any, way: Way) -> Any:
        """A value that cannot be written: refused, or left out and counted.

        Raises:
            DataError: it is refused.
        """
        name = class_name(value)
        if not self._drop_foreign:
            raise self._refused(
                f"is of the class {name}", way, "plain values, tensors, NumPy arrays or datetimes"
            )
        self.dropped[name] += 1
        return _LEFT_OUT

    def _huge(self, way: Way) -> Any:
        raise self._refused("is an integer of more than 4,300 digits", way, None)

    def _count(self, num_items: int, way: Way) -> None:
        self._num_items += num_items
        if len(way) > _MAX_DEPTH:
            raise self._refused(f"is nested more than {_MAX_DEPTH} levels deep", way[:5], None)
        if self._num_items > _MAX_ITEMS:
            raise self._refused("is too large to be written out", way[:5], None)

    def _refused(self, what: str, way: Way, expected: str | None) -> DataError:
        hint = "--drop-foreign leaves such values out and counts them" if expected else None
        return DataError(f"{spell(way)} {what}", where=self._where, expected=expected, hint=hint)


def spell(way: Way) -> str:
    """A place inside a sample: ``metadata["score"][3]``."""
    head, *rest = way
    return str(head) + "".join(f"[{part!r:.60}]" for part in rest)


def class_name(value: Any) -> str:
    """The class of a value, as its file or Python spells it."""
    if isinstance(value, ForeignObject | ForeignClass):
        return value.class_name
    if isinstance(value, ArrayValue):
        return f"numpy.ndarray of {value.dtype.code}"
    if isinstance(value, ScalarValue):
        return f"numpy scalar of {value.dtype.code}"
    kind = type(value)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _is_numbers(value: list[Any]) -> bool:
    """Whether a list holds plain numbers only, which need no look at each."""
    kinds = set(map(type, value))
    if kinds == {float}:
        return all(map(math.isfinite, value))
    return kinds <= _EXACT and all(-(1 << 63) < n < 1 << 63 for n in (_ends(value)))


def _ends(value: list[Any]) -> tuple[int, ...]:
    """The least and the greatest of a list of whole numbers."""
    numbers = value if None not in value else [n for n in value if n is not None]
    return (min(numbers), max(numbers)) if numbers else ()


def _has_plain_zone(value: Any) -> bool:
    zone = getattr(value, "tzinfo", None)
    return zone is None or type(zone) is datetime.timezone


def _lacks_its_unit(dtype: Any) -> bool:
    """Whether it is a time, or a record with one, that does not say what it counts."""
    if dtype.fields is not None:
        return any(_lacks_its_unit(kind) for kind, _ in dtype.fields.values())
    return dtype.code[0] in "Mm" and dtype.unit is None
