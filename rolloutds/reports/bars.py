"""Bars of Unicode blocks, an eighth of a column fine."""

from __future__ import annotations

BAR_COLUMNS = 30
_EIGHTHS = " ▏▎▍▌▋▊▉"
_FULL = "█"


def bar(count: int, most: int) -> str:
    """A bar as long as its share of the longest; something shows whenever there is anything."""
    if count <= 0 or most <= 0:
        return ""
    eighths = max(1, round(8 * BAR_COLUMNS * count / most))
    return (_FULL * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
