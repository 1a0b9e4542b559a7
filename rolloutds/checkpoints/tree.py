"""A read value as lines of text, and as JSON: bounded whatever the file describes.

A few hundred bytes can describe a value that is billions of items long when it is written out,
or a circle. Each container is shown where it is met first; elsewhere its name stands for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from rolloutds.torch_file import (
    ArrayType,
    ArrayValue,
    ForeignClass,
    ForeignObject,
    Storage,
    TensorValue,
)

_CONTAINERS = (dict, list, tuple, set, frozenset, ForeignObject)


@dataclass(frozen=True)
class TreeLimits:
    """How much of a value is shown.

    Attributes:
        max_depth: containers inside containers.
        max_items: items of all containers together.
        max_listed: items of one container.
        max_characters: of one text.
    """

    max_depth: int = 12
    max_items: int = 4_000
    max_listed: int = 60
    max_characters: int = 400


class Tree:
    """Walks one value; each call of `lines` or `plain` is one walk.

    Args:
        limits: how much is shown.
    """

    def __init__(self, limits: TreeLimits = TreeLimits()) -> None:
        self._limits = limits
        self._met: dict[int, str] = {}
        self._left = limits.max_items

    def lines(self, value: Any) -> Iterator[str]:
        """The value as indented lines, one an item."""
        self._start()
        head, items = self._open(value, "the value itself")
        yield head
        yield from self._children(items, "", 1)

    def plain(self, value: Any, name: str = "the value itself") -> Any:
        """The value as plain JSON; what has no form there, and what is left out, as its words."""
        self._start()
        return self._plain(value, name, 1)

    def flat(self, value: Any) -> Iterator[tuple[str, Any]]:
        """Every leaf of the value with its place (``a.b[2]``), each shared part once."""
        self._start()
        yield from self._flat(value, "", 1)

    def _flat(self, value: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
        is_inside = isinstance(value, _CONTAINERS) and id(value) not in self._met
        items = self._items(value) if is_inside else []
        if not items or depth > self._limits.max_depth:
            yield place or "the value itself", value
            return
        self._met[id(value)] = place
        if isinstance(value, ForeignObject):
            yield place or "the value itself", value  # its class; its fields follow
        for name, item in items:
            if self._left <= 0:
                yield "…", "more than is shown"
                return
            self._left -= 1
            joined = f"{place}{'' if name.startswith('[') else '.'}{name}" if place else name
            yield from self._flat(item, joined, depth + 1)

    def brief(self, value: Any) -> str:
        """The value on one line, its items as far as they fit."""
        if not isinstance(value, _CONTAINERS):
            return self.leaf(value)
        self._start()
        shown = self._plain(value, "the value itself", 1)
        return json.dumps(shown, ensure_ascii=False, default=str)[: self._limits.max_characters]

    def _start(self) -> None:
        self._met = {}
        self._left = self._limits.max_items

    # --- lines ----------------------------------------------------------------------------

    def _children(self, items: list[tuple[str, Any]], path: str, depth: int) -> Iterator[str]:
        if items and depth > self._limits.max_depth:
            yield f"{'  ' * depth}… nested deeper than is shown"
            return
        for shown, (name, value) in enumerate(items):
            if shown == self._limits.max_listed or self._left <= 0:
                yield f"{'  ' * depth}… {len(items) - shown:,} more"
                return
            self._left -= 1
            place = f"{path}.{name}" if path else name
            head, inside = self._open(value, place)
            yield f"{'  ' * depth}{name}: {head}"
            yield from self._children(inside, place, depth + 1)

    def _open(self, value: Any, place: str) -> tuple[str, list[tuple[str, Any]]]:
        """One value's own words, and the items below it that were not shown before."""
        if not isinstance(value, _CONTAINERS):
            return self.leaf(value), []
        size = _size_text(value)
        if id(value) in self._met:
            return f"{size}, the same as {self._met[id(value)]}", []
        self._met[id(value)] = place
        items = self._items(value)
        # A list of numbers reads better on one line.
        if isinstance(value, list | tuple) and all(_is_short(item) for _, item in items):
            listed = ", ".join(self.leaf(item) for _, item in items[: self._limits.max_listed])
            more = len(value) - self._limits.max_listed
            return f"{size} [{listed}{f', … {more:,} more' if more > 0 else ''}]", []
        return size, items

    def _items(self, value: Any) -> list[tuple[str, Any]]:
        # One more than is shown says that there are more; the rest is only counted.
        return list(islice(_pairs(value, self.leaf), _MOST_COUNTED))

    # --- JSON -----------------------------------------------------------------------------

    def _plain(self, value: Any, place: str, depth: int) -> Any:
        if value is None or type(value) is bool or type(value) is float:
            return value
        if type(value) is int:
            return value if value.bit_length() <= _MAX_BITS else self.leaf(value)
        if type(value) is str:
            return value[: self._limits.max_characters * 10]
        if not isinstance(value, _CONTAINERS):
            return self.leaf(value)
        if id(value) in self._met:
            return f"<the same as {self._met[id(value)]}>"
        if depth > self._limits.max_depth:
            return f"<{_size_text(value)}, nested deeper than is shown>"
        self._met[id(value)] = place
        return self._plain_items(value, place, depth)

    def _plain_items(self, value: Any, place: str, depth: int) -> Any:
        named: dict[str, Any] = {}
        if isinstance(value, ForeignObject):
            named["class"] = value.class_name[:200]
        items = self._items(value)
        for shown, (name, item) in enumerate(items):
            if self._left <= 0:
                named["…"] = f"{len(items) - shown:,} more"
                break
            self._left -= 1
            named[name] = self._plain(item, f"{place}.{name}", depth + 1)
        if isinstance(value, list | tuple | set | frozenset):
            return list(named.values())
        return named

    # --- leaves ---------------------------------------------------------------------------

    def leaf(self, value: Any) -> str:
        """A value without items, in words; texts are cut and integers bounded."""
        if isinstance(value, str):
            return _quoted(value, self._limits.max_characters)
        if type(value) is int and value.bit_length() > _MAX_BITS:
            return f"<integer of {value.bit_length():,} bits>"
        if isinstance(value, bytes | bytearray):
            return f"<bytes, {len(value):,}>"
        if isinstance(value, TensorValue):
            return f"<tensor {value.dtype} {_shape_text(value.shape)}>"
        if isinstance(value, ArrayValue):
            return f"<array {value.dtype} {_shape_text(value.shape)}>"
        if isinstance(value, Storage):
            return f"<storage {value.dtype}, {value.num_bytes:,} bytes>"
        if isinstance(value, ForeignClass):
            return f"<class {value.class_name[:200]}>"
        if isinstance(value, ArrayType):
            return "<array type>"
        if isinstance(value, _CONTAINERS):
            return f"<{_size_text(value)}>"
        return _quoted(repr(value), self._limits.max_characters)[1:-1]


_MAX_BITS = 4_096
_MOST_COUNTED = 100_000


def _pairs(value: Any, leaf: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        return ((key[:200] if type(key) is str else leaf(key), item) for key, item in value.items())
    if isinstance(value, ForeignObject):
        return _foreign_pairs(value, leaf)
    return ((f"[{index}]", item) for index, item in enumerate(value))


def _foreign_pairs(value: ForeignObject, leaf: Any) -> Iterator[tuple[str, Any]]:
    yield from ((f"({index})", item) for index, item in enumerate(value.args))
    fields = value.fields
    yield from ((name[:200], item) for name, item in fields.items())
    if value.state is not None and not isinstance(value.state, dict):
        yield "(state)", value.state
    yield from ((f"[{index}]", item) for index, item in enumerate(value.items))
    yield from ((leaf(key), item) for key, item in value.pairs)


def _size_text(value: Any) -> str:
    if isinstance(value, ForeignObject):
        return f"object of class {value.class_name[:200]}"
    noun = "object" if isinstance(value, dict) else type(value).__name__
    return f"{noun} of {len(value):,}"


def _shape_text(shape: Any) -> str:
    sizes = [str(size) for size in list(shape)[:16]]
    return f"[{', '.join(sizes)}{', …' if len(shape) > 16 else ''}]"


def _is_short(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float)


def _quoted(text: str, limit: int) -> str:
    if len(text) <= limit:
        return f'"{text}"'
    return f'"{text[:limit]}…" ({len(text):,} characters)'
