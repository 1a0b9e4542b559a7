"""Text broken into lines that fit a screen: between words, in long words behind a mark."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rolloutds.reports.visible import width

_WORD = re.compile(" *[^ ]+")
_PIECE = re.compile("[^ /]+/?")
_MARKS = ("/", ",;=&:_-.")
"""What a word may be broken behind: the folders of a path before anything else."""
_SHORTEST = 4


def wrapped(text: str, columns: int) -> list[str]:
    """The lines of a visible text, each at most `columns` wide; one at least."""
    lines: list[str] = []
    line = ""
    for word in _WORD.findall(text):
        if width(line) + width(word) <= columns:
            line += word
            continue
        if not word.isascii() and width(word) > columns and columns - width(line) > _SHORTEST:
            # Text without spaces begins where it stands.
            head = _head(word, columns - width(line))
            line, word = line + head, word[len(head) :]
        if line:
            lines.append(line)
        *full, line = _broken(word.lstrip(" "), columns)
        lines += full
    return [*lines, line] if line or not lines else lines


def longest_piece(text: str) -> int:
    """Columns of the longest part that is not broken where there is room for it."""
    return max(map(width, _PIECE.findall(text)), default=0)


def _broken(word: str, columns: int) -> Iterator[str]:
    while width(word) > columns:
        head = _head(word, columns)
        head = head[: _break_in(head)]
        yield head
        word = word[len(head) :]
    yield word


def _break_in(head: str) -> int:
    for marks in _MARKS:
        place = max(head.rfind(mark) for mark in marks) + 1
        if place > len(head) // 3:
            return place
    return len(head)


def _head(word: str, columns: int) -> str:
    """As much of a word as fits, its first character at least."""
    if word.isascii():
        return word[:columns]
    from rich.cells import chop_cells

    # Of a text of megabytes only the head is looked at; marks that join take no columns.
    pieces = chop_cells(word[: 8 * columns + 8], columns)
    return next(piece for piece in pieces if piece)
