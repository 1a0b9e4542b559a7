"""A key of a row: a literal name first, then a dotted path through objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()
"""What `lookup` returns for a key that is not there (``None`` is a value)."""


def lookup(row: Mapping[str, Any], key: str) -> Any:
    """The value under `key`, or `MISSING`.

    A key of exactly that name wins; otherwise ``a.b`` is ``row["a"]["b"]``.
    """
    if key in row:
        return row[key]
    if "." not in key:
        return MISSING
    value: Any = row
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def is_dotted(row: Mapping[str, Any], key: str) -> bool:
    """Whether `key` is found only by following its dots."""
    return key not in row and lookup(row, key) is not MISSING
