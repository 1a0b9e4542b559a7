"""The prompts of a file that training data must not hold: whole, and by runs of words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

import xxhash

from rolloutds.checks.batch import RowBatch
from rolloutds.checks.settings import Overlap

NUM_WORDS: Final = 13
"""Words in a row that two texts must share."""

_words: Final = re.compile(r"\w+").findall
_FACTOR: Final = 0x9E3779B97F4A7C15


class EvaluationSet:
    """The evaluation prompts, as hashes.

    Attributes:
        name: the file, as it was named.
        num_prompts: how many prompts.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.num_prompts = 0
        self._whole: dict[bytes, str] = {}
        self._numbers: dict[str, int] = {}
        self._runs: Any = None
        self._spots: list[str] = []
        self._parts: list[tuple[Any, int]] = []

    def add(self, batch: RowBatch, chosen: Iterable[bool], spots: Iterable[str]) -> None:
        """Adds the chosen prompts of a batch, each with its place."""
        rows = zip(batch.texts, batch.normal_texts, chosen, spots, strict=True)
        for text, normal, is_chosen, spot in rows:
            if not is_chosen or not normal:
                continue
            self.num_prompts += 1
            self._whole.setdefault(xxhash.xxh3_128_digest(normal), spot)
            words = _words(text.lower())
            numbers = [self._numbers.setdefault(w, len(self._numbers) + 1) for w in words]
            if len(numbers) >= NUM_WORDS:
                self._parts.append((_runs(numbers), len(self._spots)))
                self._spots.append(spot)

    def close(self) -> None:
        """Sorts the runs; after this it only answers."""
        import numpy as np

        if not self._parts:
            self._runs = np.empty(0, "<u8"), np.empty(0, "<i8")
            return
        hashes = np.concatenate([part for part, _ in self._parts])
        owners = np.concatenate([np.full(len(part), owner) for part, owner in self._parts])
        order = np.argsort(hashes, kind="stable")
        self._runs = hashes[order], owners[order]
        self._parts = []

    def whole(self, normal_text: bytes) -> str | None:
        """Place of the evaluation prompt that is the same, or None."""
        return self._whole.get(xxhash.xxh3_128_digest(normal_text)) if normal_text else None

    def overlaps(self, texts: Sequence[str]) -> list[Overlap]:
        """For each text that shares a run of words, the first such run."""
        import numpy as np

        words = [_words(text.lower()) for text in texts]
        known = self._numbers.get
        # A word of no evaluation prompt, and one between two texts, ends every run.
        flat = list(chain.from_iterable([*some, ""] for some in words))
        numbers = np.fromiter((known(word, 0) for word in flat), "<u8", len(flat))
        if len(numbers) < NUM_WORDS:
            return []
        hashes = _runs(numbers)
        gaps = np.concatenate([[0], np.cumsum(numbers == 0)])
        hashes_known = gaps[NUM_WORDS:] == gaps[:-NUM_WORDS]
        candidates = np.flatnonzero(hashes_known)
        at = np.searchsorted(self._runs[0], hashes[candidates])
        at_inside = np.minimum(at, max(len(self._runs[0]) - 1, 0))
        if not len(self._runs[0]):
            return []
        hits = self._runs[0][at_inside] == hashes[candidates]
        starts = candidates[hits]
        owners = self._runs[1][at_inside[hits]]
        ends = np.cumsum([len(some) + 1 for some in words])
        found: dict[int, Overlap] = {}
        for start, owner in zip(starts.tolist(), owners.tolist(), strict=True):
            position = int(np.searchsorted(ends, start, side="right"))
            run = " ".join(flat[start : start + NUM_WORDS])
            found.setdefault(position, Overlap(position, self._spots[owner], run))
        return list(found.values())


def _runs(numbers: Any) -> Any:
    """A hash of each run of words, from the number of each word."""
    import numpy as np

    values = np.asarray(numbers, "<u8")
    count = len(values) - NUM_WORDS + 1
    hashes = np.zeros(count, "<u8")
    with np.errstate(over="ignore"):
        for offset in range(NUM_WORDS):
            hashes = (hashes + values[offset : offset + count]) * np.uint64(_FACTOR)
            hashes ^= hashes >> np.uint64(29)
    return hashes
