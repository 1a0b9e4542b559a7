"""A shell's patterns, as far as ``${NAME%pattern}`` and its kin need them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

_STAR: Final = "*"
_ONE: Final = "?"
_MOST_STEPS: Final = 500_000
_Token = tuple[str, bool]
"""A character, and whether it is wild."""


def without_ends(text: str, operator: str, pattern: Sequence[tuple[str, bool]]) -> str | None:
    """The text without its start (``#``) or end (``%``) that fits a pattern.

    Args:
        text: the text.
        operator: ``#`` or ``%`` for the shortest fit, doubled for the longest.
        pattern: its parts: what they say, and whether that is quoted and so means itself.

    Returns:
        The rest; None where the pattern is of a kind that is not read here, or too long.
    """
    tokens = _tokens(pattern)
    if tokens is None or len(text) * len(tokens) > _MOST_STEPS:
        return None
    if operator[0] == "#":
        return text[_length(text, tokens, is_longest=operator == "##") :]
    length = _length(text[::-1], tokens[::-1], is_longest=operator == "%%")
    return text[: len(text) - length]


def _tokens(pattern: Sequence[tuple[str, bool]]) -> list[_Token] | None:
    tokens: list[_Token] = []
    for text, is_quoted in pattern:
        if not is_quoted and re.search(r"[\[(]", text):
            return None
        tokens += [(c, not is_quoted and c in (_STAR, _ONE)) for c in text]
    return tokens


def _length(text: str, tokens: Sequence[_Token], *, is_longest: bool) -> int:
    """Length of the start of a text that fits; 0 where none does."""
    longest = 0
    for length in _fitting(text, tokens):
        if not is_longest:
            return length
        longest = length
    return longest


def _fitting(text: str, tokens: Sequence[_Token]) -> Iterator[int]:
    """The lengths of the starts of a text that fit, ascending.

    All ways to fit are followed at once, so that no pattern takes long.
    """
    states = _past_stars({0}, tokens)
    for length in range(len(text) + 1):
        if len(tokens) in states:
            yield length
        if length == len(text) or not states:
            return
        after = {
            state if tokens[state] == (_STAR, True) else state + 1
            for state in states
            if state < len(tokens) and _takes(tokens[state], text[length])
        }
        states = _past_stars(after, tokens)


def _takes(token: _Token, character: str) -> bool:
    return token[1] or token[0] == character


def _past_stars(states: set[int], tokens: Sequence[_Token]) -> set[int]:
    reached = set(states)
    for state in states:
        while state < len(tokens) and tokens[state] == (_STAR, True):
            state += 1
            reached.add(state)
    return reached
