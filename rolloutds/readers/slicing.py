"""``path@[start:end]``: split from the path, resolved against a number of rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rolloutds.errors import SliceError
from rolloutds.storage import is_remote, local_path, masked

_TAIL: Final = re.compile(r"(?P<path>.+)@\[(?P<slice>[^/]*)\Z", re.DOTALL)
_BOUNDS: Final = re.compile(r"(-?\d+)?:(-?\d+)?\Z", re.ASCII)
_EXPECTED: Final = "path@[start:end], whole numbers, either may be left out or negative"
_MAX_DIGITS: Final = 18  # beyond any file's number of rows, and far below int's own limit


@dataclass(frozen=True)
class RowSlice:
    """``[start:end]`` with the meaning of a Python slice; None is open."""

    start: int | None = None
    end: int | None = None

    def __str__(self) -> str:
        start = "" if self.start is None else self.start
        end = "" if self.end is None else self.end
        return f"@[{start}:{end}]"

    def resolve(self, num_rows: int) -> range:
        """The positions it selects among `num_rows` rows (may be empty)."""
        return range(num_rows)[self.start : self.end]


def split_slice(prompt_data: str) -> tuple[str, RowSlice | None]:
    """Splits a slice from the end of a path, which loses a ``file://`` at its start.

    A local path that exists as it is has no slice, whatever its name ends in.

    Raises:
        SliceError: the path ends in ``@[`` and something that is no slice.
    """
    named = local_path(prompt_data)
    found = _TAIL.match(named)
    if found is None or _is_there(named):
        return named, None
    return found["path"], _parse(masked(prompt_data), found["slice"])


def _is_there(path: str) -> bool:
    """Whether a local path exists as it is; of a URL it is not asked, which would take a request."""
    return not is_remote(path) and os.path.lexists(os.path.expanduser(path))


def _parse(prompt_data: str, text: str) -> RowSlice:
    if not text.endswith("]"):
        raise _malformed(prompt_data, f"the slice @[{text} has no closing ]")
    inner = text[:-1].strip()
    bounds = _BOUNDS.match(inner)
    if bounds is not None:
        start, end = bounds.groups()
        return RowSlice(_number(prompt_data, start), _number(prompt_data, end))
    if inner.count(":") > 1:
        raise _malformed(prompt_data, f"the slice @[{text} has a step, which is not supported")
    if ":" not in inner:
        raise _malformed(prompt_data, f"the slice @[{text} has no colon")
    raise _malformed(prompt_data, f"the slice @[{text} has a bound that is not a whole number")


def _number(prompt_data: str, text: str | None) -> int | None:
    if text is None:
        return None
    if len(text) > _MAX_DIGITS:
        raise _malformed(prompt_data, f"the slice has a bound of {len(text)} digits")
    return int(text)


def _malformed(prompt_data: str, what: str) -> SliceError:
    hint = "For the first ten rows write @[0:10], for the last three @[-3:]."
    if what.endswith("no colon"):
        hint = "For the row at 5 alone write @[5:6], for the first ten rows @[0:10]."
    return SliceError(what, where=prompt_data, expected=_EXPECTED, hint=hint)


def shifting(rows_before: Iterable[int], num_rows: int, row_slice: RowSlice) -> list[int]:
    """Which malformed lines would change the selection if they counted as rows.

    Args:
        rows_before: for each malformed line, how many rows come before it.
        num_rows: how many rows there are without them.
        row_slice: what is selected.

    Returns:
        Indices into `rows_before`. A line is among them when the rows that the slice selects
        are not the same lines once that line alone counts as a row.
    """
    selected = row_slice.resolve(num_rows)
    with_one = row_slice.resolve(num_rows + 1)
    same_before = (with_one.start, with_one.stop) == (selected.start, selected.stop)
    same_after = (with_one.start - 1, with_one.stop - 1) == (selected.start, selected.stop)
    if not with_one:
        return list(range(len(list(rows_before)))) if selected else []

    def changes(at: int) -> bool:
        if at >= with_one.stop:
            return not same_before
        return at in with_one or not same_after

    return [index for index, at in enumerate(rows_before) if changes(at)]
