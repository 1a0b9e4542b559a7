"""The length filter: which rows have a prompt of at most the limit, in tokens.

Counting is the costly part, so a row is only counted when its bytes do not already prove that it
fits (`Tokenizer.max_tokens`), and what was found is cached with the rows' digest.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from rolloutds.cache import Cache
from rolloutds.errors import EmptyDatasetError, TokenizerError
from rolloutds.tokenization import Tokenizer, first_uncountable

_BATCH = 1024
"""More rows in memory at once live long enough to bring on full collections of garbage."""
_UNKNOWN = -(2**31)
"""Nothing is known of the row yet."""
_BEYOND = 2**31 - 1
"""The row is over the limit by its bytes alone, and too big to be worth counting."""
_BIG_TEXT_BYTES = 1 << 20

ReadTexts = Callable[[Sequence[int]], list[str]]
"""The prompts of the rows at these positions, as text that will be sent."""


@dataclass(frozen=True)
class Lengths:
    """What is known of each row's prompt length.

    Attributes:
        values: for each row its tokens, or, where it is negative, ``-1 - bound``: it was not
            counted, and has at most `bound` tokens. ``[num_rows]``, int32.
        limit: the limit they were measured for.
    """

    values: Sequence[int]
    limit: int

    def kept(self) -> Sequence[int] | None:
        """Positions of the rows within the limit, ascending; None when all are."""
        limit = self.limit
        if max(self.values) <= limit:
            return None
        return array("q", (i for i, length in enumerate(self.values) if length <= limit))

    def shortest(self) -> str:
        """The shortest prompt over the limit, in words."""
        shortest = min(length for length in self.values if length > self.limit)
        return "over a megabyte" if shortest == _BEYOND else f"{shortest} tokens"


def measure(
    num_rows: int,
    limit: int,
    read_texts: ReadTexts,
    tokenizer: Tokenizer,
    *,
    place: Callable[[int], object],
    cache: Cache,
    cache_key: str,
    source: str,
    byte_bounds: Callable[[], Sequence[int] | None] = lambda: None,
) -> Lengths:
    """Measures every row as far as the limit asks for.

    Args:
        num_rows: rows, all of them with text prompts.
        limit: the longest prompt kept, in tokens.
        read_texts: gives the prompts at positions.
        tokenizer: counts them.
        place: says where the row at a position lies.
        cache: where earlier counts are looked up and the new ones are put.
        cache_key: identity of rows, prompts and tokenizer.
        source: name of the data, for who looks at the cache.
        byte_bounds: gives for each row the most bytes its text can have; None: not known.

    Raises:
        TokenizerError: a prompt cannot be counted; it is named, never taken for too long.
    """
    cached = _cached_values(cache, cache_key, num_rows)
    values = cached or _unread_values(byte_bounds(), num_rows, limit, tokenizer)
    open_rows = _open_rows(values, limit)
    for positions in _batches(open_rows):
        texts = read_texts(positions)
        try:
            lengths = _measure(texts, limit, tokenizer)
        except TokenizerError as error:
            if (found := first_uncountable(texts)) is not None:
                error.where = str(place(positions[found[0]]))
            raise
        for position, length in zip(positions, lengths, strict=True):
            values[position] = length
    if open_rows or not cached:
        header = {"num_rows": num_rows, "source": source}
        cache.write("tokens", cache_key, header, {"values": memoryview(values)})
    return Lengths(values, limit)


def _unread_values(
    byte_bounds: Sequence[int] | None, num_rows: int, limit: int, tokenizer: Tokenizer
) -> array[int]:
    """What the size of a row alone proves: it has at most so many tokens, or nothing."""
    values = array("i", [_UNKNOWN]) * num_rows
    for position, num_bytes in enumerate(byte_bounds or ()):
        bound = tokenizer.max_tokens(num_bytes, is_ascii=False)
        if bound is not None and bound <= limit:
            values[position] = -1 - bound
    return values


def num_settled(cache: Cache, cache_key: str, num_rows: int, limit: int) -> int:
    """Of how many rows the cache says whether they are within a limit."""
    values = _cached_values(cache, cache_key, num_rows)
    return 0 if values is None else num_rows - len(_open_rows(values, limit))


def _cached_values(cache: Cache, key: str, num_rows: int) -> array[int] | None:
    entry = cache.read("tokens", key)
    if entry is None or entry.header.get("num_rows") != num_rows:
        return None
    values = array("i")
    values.frombytes(entry.arrays["values"].cast("B"))
    return values if len(values) == num_rows else None


def _open_rows(values: Sequence[int], limit: int) -> list[int]:
    """Rows of which is not known whether they are within the limit."""
    lowest_settled = -1 - limit  # what is below has a higher bound, or is unknown
    if min(values) >= lowest_settled and max(values) != _BEYOND:
        return []
    return [i for i, value in enumerate(values) if value < lowest_settled or value == _BEYOND]


def _measure(texts: Sequence[str], limit: int, tokenizer: Tokenizer) -> list[int]:
    lengths = [_bounded(text, limit, tokenizer) for text in texts]
    unproved = [i for i, length in enumerate(lengths) if length == _UNKNOWN]
    for i, count in zip(unproved, tokenizer.count([texts[i] for i in unproved]), strict=True):
        lengths[i] = count
    return lengths


def _bounded(text: str, limit: int, tokenizer: Tokenizer) -> int:
    """What the bytes of a text prove: at most so many tokens, over the limit, or nothing."""
    is_ascii = text.isascii()
    try:
        num_bytes = len(text) if is_ascii else len(text.encode())
    except UnicodeEncodeError:
        return _UNKNOWN  # a lone surrogate, which counting refuses with its place
    bound = tokenizer.max_tokens(num_bytes, is_ascii=is_ascii)
    if bound is not None and bound <= limit:
        return -1 - bound
    is_beyond = num_bytes > _BIG_TEXT_BYTES and (tokenizer.min_tokens(num_bytes) or 0) > limit
    return _BEYOND if is_beyond else _UNKNOWN


def _batches(positions: Sequence[int]) -> Iterator[list[int]]:
    remaining = iter(positions)
    while batch := list(islice(remaining, _BATCH)):
        yield batch


def require_some(lengths: Lengths, kept: Sequence[int] | None, *, where: str) -> None:
    """Refuses a limit that leaves no row.

    Raises:
        EmptyDatasetError: with the number of rows and the shortest prompt.
    """
    if kept is None or len(kept):
        return
    raise EmptyDatasetError(
        f"0 of {len(lengths.values)} rows left at rollout_max_prompt_len {lengths.limit}: "
        f"the shortest prompt is {lengths.shortest()}",
        where=where,
        hint="raise --rollout-max-prompt-len",
    )
