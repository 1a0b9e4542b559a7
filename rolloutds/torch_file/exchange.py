"""A walk that puts other values in place of some, inside whatever holds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from rolloutds.torch_file.foreign import PlainDict


class Exchange(ABC):
    """Puts `made(value)` in place of every value of some types, once for each object.

    Containers that hold any are copied, the others are given back as they are (a `PlainDict` as
    a dict); what was shared stays shared.
    """

    kinds: ClassVar[tuple[type, ...]]
    """Types of the values that are exchanged."""

    def __init__(self) -> None:
        self._done: dict[int, Any] = {}
        self._originals: list[Any] = []

    @abstractmethod
    def made(self, value: Any) -> Any:
        """What stands in place of a value of one of the types."""

    def turn(self, value: Any) -> Any:
        """The value, exchanged or with exchanged parts."""
        is_exchanged = isinstance(value, self.kinds)
        if not is_exchanged and type(value) not in (dict, list, tuple, PlainDict):
            return value
        key = id(value)
        if key not in self._done:
            self._originals.append(value)  # its id must not pass to another object
            self._done[key] = value  # ends a circle
            self._done[key] = self.made(value) if is_exchanged else self._container(value)
        return self._done[key]

    def _container(self, value: Any) -> Any:
        if isinstance(value, dict):
            pairs = {key: self.turn(item) for key, item in value.items()}
            is_same = all(pairs[key] is item for key, item in value.items())
            return value if is_same and type(value) is dict else pairs
        items = [self.turn(item) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return tuple(items) if isinstance(value, tuple) else items
