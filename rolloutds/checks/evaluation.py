"""The prompts of a file that training data must not hold: whole, and by runs of words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import xxhash

from rolloutds.checks.base import Totals
from rolloutds.checks.batch import RowBatch
from rolloutds.checks.settings import Overlap

NUM_WORDS: Final = 13
"""Words in a row that two texts must share."""

_words: Final = re.compile(r"\w+").findall
_FACTOR: Final = 0x9E3779B97F4A7C15


class EvaluationSet:
    """The evaluation prompts, as sorted arrays of hashes, which processes can share.

    Only the words stay a table: a number for each, so that runs of them are quick to hash.

    Attributes:
        name: the file, as it was named.
        num_prompts: how many prompts.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.num_prompts = 0
        self._numbers: dict[str, int] = {}
        self._totals = Totals()
        self._added = _Added()
        self._whole: Any = None  # digests, and the row of each
        self._runs: Any = None  # hashes, and the row of each

    def add(self, batch: RowBatch, chosen: Iterable[bool]) -> None:
        """Adds the chosen prompts of a batch."""
        rows = zip(batch.texts, batch.normal_texts, chosen, batch.numbers, strict=True)
        for text, normal, is_chosen, row in rows:
            if not is_chosen or not normal:
                continue
            self.num_prompts += 1
            self._added.digests.append(xxhash.xxh3_128_digest(normal))
            self._added.rows.append(row)
            words = _words(text.lower())
            numbers = [self._numbers.setdefault(w, len(self._numbers) + 1) for w in words]
            if len(numbers) >= NUM_WORDS:
                self._added.runs.append((_runs(numbers), row))

    def close(self, totals: Totals) -> None:
        """Sorts the hashes; after this it only answers.

        Args:
            totals: where its rows lie.
        """
        import numpy as np

        added, self._added, self._totals = self._added, _Added(), totals
        digests, first = np.unique(_digests(added.digests), return_index=True)
        self._whole = digests, np.array(added.rows, "<u8")[first]
        hashes = np.concatenate([np.empty(0, "<u8"), *(run for run, _ in added.runs)])
        owners = [np.full(len(run), row, "<u8") for run, row in added.runs]
        order = np.argsort(hashes, kind="stable")
        self._runs = hashes[order], np.concatenate([np.empty(0, "<u8"), *owners])[order]

    def whole(self, normal_texts: Sequence[bytes]) -> dict[int, str]:
        """Position of each text that is an evaluation prompt, and the place of that one."""
        import numpy as np

        digests, rows = self._whole
        asked = _digests(map(xxhash.xxh3_128_digest, normal_texts))
        at = np.minimum(np.searchsorted(digests, asked), len(digests) - 1)
        hits = np.flatnonzero(digests[at] == asked).tolist() if len(digests) else []
        return {i: self._totals.spot(int(rows[at[i]])) for i in hits if normal_texts[i]}

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
            found.setdefault(position, Overlap(position, self._totals.spot(owner), run))
        return list(found.values())


@dataclass
class _Added:
    """What was added, before it is sorted."""

    digests: list[bytes] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    runs: list[tuple[Any, int]] = field(default_factory=list)


def _digests(digests: Iterable[bytes]) -> Any:
    """Digests of sixteen bytes each as an array that sorts.

    Its items leave out zero bytes at their end, which of equal lengths is no difference lost.
    """
    import numpy as np

    return np.frombuffer(b"".join(digests), "S16")


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
