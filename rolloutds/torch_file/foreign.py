"""Stand-ins for what a file names and we do not load: classes, functions and their objects.

They run nothing. All have fixed slots and their own `__setstate__`, so that no opcode of a pickle
can give them an attribute or a method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn


class ForeignClass(type):
    """A class or function the file names; calling it only makes a `ForeignObject`.

    Attributes:
        class_name: ``module.name`` as the file spells it.
    """

    class_name: str
    _members: dict[str, ForeignClass]

    def member(cls, name: str) -> ForeignClass:
        """The stand-in for what it has under `name`, such as a nested class; always the same."""
        if name not in cls._members:
            cls._members[name] = foreign_class(f"{cls.class_name}.{name}")
        return cls._members[name]

    def __call__(cls, *args: Any, **kwargs: Any) -> ForeignObject:
        """A record of what the class or function was called with."""
        return ForeignObject(cls.class_name, args, kwargs)

    def __setattr__(cls, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{cls.class_name} is a stand-in and cannot be changed")

    def __delattr__(cls, name: str) -> NoReturn:
        raise AttributeError(f"{cls.class_name} is a stand-in and cannot be changed")

    def __repr__(cls) -> str:
        return f"<{cls.class_name}>"


def foreign_class(class_name: str) -> ForeignClass:
    """A new stand-in for a class or function called `class_name`."""

    def new(cls: type, *args: Any, **kwargs: Any) -> ForeignObject:
        return ForeignObject(class_name, args, kwargs)

    # Opcode NEWOBJ asks for a type and calls its __new__.
    body = {"__slots__": (), "__new__": new, "__module__": __name__}
    return ForeignClass("Foreign", (), {**body, "class_name": class_name, "_members": {}})


class ForeignObject:
    """An object of a class that is not loaded: what the file says about it, as data.

    Attributes:
        class_name: ``module.name`` of its class, or of the function that would have made it.
        args: positional arguments it would have been made with.
        kwargs: named ones.
        state: what it would have been filled with (often a dict of its attributes), or None.
        items: elements it would have been given (subclasses of list and set).
        pairs: keys and values it would have been given (subclasses of dict).
    """

    __slots__ = ("args", "class_name", "items", "kwargs", "pairs", "state")

    def __init__(
        self, class_name: str, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> None:
        self.class_name = class_name
        self.args = args
        self.kwargs = dict(kwargs or {})
        self.state: Any = None
        self.items: list[Any] = []
        self.pairs: list[tuple[Any, Any]] = []

    @property
    def fields(self) -> dict[str, Any]:
        """Its attributes by name, as far as the file gives them names."""
        parts = self.state if isinstance(self.state, tuple) else (self.state,)
        named = [part for part in (self.kwargs, *parts) if isinstance(part, dict)]
        return {str(key): value for part in named for key, value in part.items()}

    # What opcodes call. They collect, and nothing else.

    def __call__(self, *args: Any, **kwargs: Any) -> ForeignObject:
        """A record of the call that the file asks for."""
        return ForeignObject("call", (self, *args), kwargs)

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.pairs.append((key, value))

    def append(self, item: Any) -> None:
        """Keeps an element."""
        self.items.append(item)

    def extend(self, items: Any) -> None:
        """Keeps elements."""
        self.items.extend(items)

    add = append

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_foreign, (
            *(self.class_name, self.args, self.kwargs),
            *(self.state, self.items, self.pairs),
        )

    def __repr__(self) -> str:
        # Names only: the values may be huge, shared or circular.
        return f"<{self.class_name} {', '.join(self.fields)}>".replace(" >", ">")


def _rebuild_foreign(
    class_name: str, args: tuple[Any, ...], kwargs: Any, state: Any, items: Any, pairs: Any
) -> ForeignObject:
    value = ForeignObject(class_name, args, kwargs)
    value.state, value.items, value.pairs = state, items, pairs
    return value


class PlainDict(dict[Any, Any]):
    """An OrderedDict, defaultdict or Counter of the file: its keys and values, nothing else."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        """Drops attributes (torch hangs `_metadata` on the dict of a module's state)."""

    def __reduce__(self) -> tuple[Any, ...]:
        return PlainDict, (dict(self),)
