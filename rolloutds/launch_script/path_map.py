"""Paths of another machine, rewritten by prefix."""

from __future__ import annotations

from collections.abc import Iterable

from rolloutds.errors import ConfigError


class PathMap:
    """Rewrites prefixes of paths; the longest that fits counts.

    Args:
        pairs: ``/old=/new`` each.

    Raises:
        ConfigError: a pair has no such form.
    """

    def __init__(self, pairs: Iterable[str] = ()) -> None:
        split = [_split(pair) for pair in pairs]
        self._pairs = sorted(split, key=lambda pair: len(pair[0]), reverse=True)
        self._unused = dict(split)

    @property
    def unused(self) -> tuple[str, ...]:
        """The pairs that no path began with so far."""
        return tuple(f"{old}={new}" for old, new in self._unused.items())

    def apply(self, path: str) -> str:
        """The path with its prefix rewritten; prefixes end where a folder's name does."""
        for old, new in self._pairs:
            if path == old or path.startswith((old + "/", old + "@[")):
                self._unused.pop(old, None)
                return (new + path[len(old) :]) or "/"
        return path


def _split(pair: str) -> tuple[str, str]:
    old, equals, new = pair.partition("=")
    if not equals or not old or not new:
        raise ConfigError(repr(pair), where="--path-map", expected="/old=/new")
    return old.rstrip("/"), new.rstrip("/")
