"""Where the responses of a group part: the first token that is not the same in all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rolloutds.sample import Sample

_END = "end"
_SHOWN_KINDS = 6


def first_difference(samples: Sequence[Sample]) -> str | None:
    """The first position where the responses' tokens differ, and what is there, in words.

    Returns:
        ``at response token 3: 12 (samples 0, 2), 45 (sample 1)``; None when they are the same, or
        when fewer than two samples have tokens.
    """
    responses = {i: tokens for i, s in enumerate(samples) if (tokens := response_tokens(s))}
    position = _first_position(list(responses.values()))
    if position is None:
        return None
    kinds: dict[Any, list[int]] = {}
    for number, tokens in responses.items():
        token = tokens[position] if position < len(tokens) else _END
        kinds.setdefault(token, []).append(number)
    shown = [
        f"{token} ({'sample' if len(numbers) == 1 else 'samples'} {', '.join(map(str, numbers))})"
        for token, numbers in list(kinds.items())[:_SHOWN_KINDS]
    ]
    more = len(kinds) - len(shown)
    rest = f" and {more} other tokens" if more > 0 else ""
    return f"at response token {position}: {', '.join(shown)}{rest}"


def response_tokens(sample: Sample) -> list[Any]:
    """The tokens of a sample's response; [] where they are not known."""
    tokens: Any = sample.tokens
    length: Any = sample.response_length
    if not isinstance(tokens, list | tuple):
        tokens = tokens.tolist() if hasattr(tokens, "tolist") else []
    if not isinstance(tokens, list | tuple) or not isinstance(length, int) or length <= 0:
        return []
    return list(tokens[-length:]) if length <= len(tokens) else []


def _first_position(responses: Sequence[Sequence[Any]]) -> int | None:
    if len(responses) < 2:
        return None
    first = responses[0]
    for position in range(max(map(len, responses))):
        here = [tokens[position] if position < len(tokens) else None for tokens in responses]
        if any(token != here[0] for token in here) or position >= len(first):
            return position
    return None
