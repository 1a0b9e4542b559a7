"""Objects side by side: the values under one key, and their types, at the speed of C."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from rolloutds.row_keys import MISSING, lookup

Missing: Final = type(MISSING)


class Columns:
    """Some objects, seen by key.

    Where all have the same keys in the same order, which is the rule in a file, columns are
    slices of one list of all values.

    Args:
        objects: the objects.

    Attributes:
        orders: the different tuples of keys there are.
    """

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self.objects = objects
        self.orders: set[tuple[str, ...]] = set(map(tuple, objects))
        self._flat: list[Any] | None = None
        self._index: dict[str, int] = {}
        self._columns: dict[str, list[Any]] = {}
        self._types: dict[str, list[type]] = {}
        self._kinds: dict[str, set[type]] = {}
        if len(self.orders) == 1:
            (order,) = self.orders
            self._index = {key: i for i, key in enumerate(order)}
            self._flat = list(chain.from_iterable(map(dict.values, objects)))

    def names(self) -> list[str]:
        """All keys, in the order they come in."""
        if len(self.orders) == 1:
            return list(self._index)
        return list(dict.fromkeys(chain.from_iterable(self.objects)))

    def column(self, key: str) -> list[Any]:
        """The value of each object under a literal or dotted key, or `MISSING`."""
        if key not in self._columns:
            self._columns[key] = self._make(key)
        return self._columns[key]

    def _make(self, key: str) -> list[Any]:
        if self._flat is not None and key in self._index:
            return self._flat[self._index[key] :: len(self._index)]
        if "." in key:
            return [lookup(item, key) for item in self.objects]
        if self._flat is not None:
            return [MISSING] * len(self.objects)
        return [item.get(key, MISSING) for item in self.objects]

    def types(self, key: str) -> list[type]:
        """The type of each value under a key."""
        if key not in self._types:
            self._types[key] = list(map(type, self.column(key)))
        return self._types[key]

    def kinds(self, key: str) -> set[type]:
        """The types there are under a key."""
        if key not in self._kinds:
            self._kinds[key] = set(self.types(key))
        return self._kinds[key]

    def all_kinds(self) -> set[type]:
        """The types of all values of all objects."""
        if self._flat is not None:
            return set(map(type, self._flat))
        return set(map(type, chain.from_iterable(map(dict.values, self.objects))))

    def num_keys(self) -> int:
        """How many keys all objects have together."""
        return len(self._flat) if self._flat is not None else sum(map(len, self.objects))
