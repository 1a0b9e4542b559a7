"""Every prompt as forty bytes: hashes of its text, and where it lies.

Two prompts are taken for equal when 128 bits of the normalised text agree, and identical when
64 bits of the text itself agree as well. Beyond `SPILL_ROWS` rows the table goes to temporary
files, split by hash, and is looked at one split at a time, so memory stays bounded. The tables of
several processes are never brought together: each splits its own into buckets by hash, and a
bucket of all of them is looked at by itself (`split`, `repeats_in`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, Final, NamedTuple

import xxhash

from rolloutds.checks.batch import LOWER, WHITE_SPACE, RowBatch, label_bytes, utf8

SPILL_ROWS: Final = 8_000_000
_SPLITS: Final = 32
_DTYPE: Final = [(name, "<u8") for name in ("normal_a", "normal_b", "exact", "label", "row")]


class Pairs(NamedTuple):
    """Rows that repeat an earlier one: arrays of the same length.

    Attributes:
        row: number of the row.
        first: number of the earlier row.
        identity: hash of the row's text.
        num: how many there are, those too that were not kept.
    """

    row: Any
    first: Any
    identity: Any
    num: int


class Repeats(NamedTuple):
    """What the table shows: the same text, the same but for case and space, other labels."""

    exact: Pairs
    normal: Pairs
    labels: Pairs


class PromptTable:
    """The prompts of some part of the data; several checks share one.

    Each block is added once, whoever adds it.
    """

    def __init__(self) -> None:
        self.blocks: list[Any] = []
        self.num_rows = 0
        self._last: object = None  # the first row of the last batch, or the last table
        self._splits: list[IO[bytes]] = []
        self._repeats: Repeats | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"blocks": self.blocks, "num_rows": self.num_rows}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__()  # type: ignore[misc]
        self.__dict__.update(state)

    def feed(self, batch: RowBatch) -> None:
        """Adds the prompts of a batch, unless another check has done so."""
        if not len(batch) or self._last == batch.numbers[0]:
            return
        self._last = batch.numbers[0]
        self._add(_block(batch))

    def merge(self, later: PromptTable) -> None:
        """Adds what a later part holds, unless another check has done so."""
        if later is self._last:
            return
        self._last = later
        for block in later.blocks:
            self._add(block)

    def split(self, num_buckets: int) -> list[Any]:
        """All prompts in buckets by hash: equal ones in the same; the table is empty afterwards."""
        import numpy as np

        buckets: list[list[Any]] = [[np.empty(0, _DTYPE)] for _ in range(num_buckets)]
        for table in self._parts():
            which = (table["normal_a"] >> np.uint64(32)) % num_buckets  # its low bits make splits
            for number, bucket in enumerate(buckets):
                bucket.append(table[which == number])
        self.blocks, self.num_rows = [], 0
        return [np.concatenate(bucket) for bucket in buckets]

    def take(self, found: Iterable[Repeats]) -> None:
        """Takes over what was found in the buckets of tables that were split."""
        self._repeats = _together(list(found))

    def _add(self, block: Any) -> None:
        self.blocks.append(block)
        self.num_rows += len(block)
        self._repeats = None
        if sum(map(len, self.blocks)) > SPILL_ROWS:
            self._spill()

    @property
    def is_spilled(self) -> bool:
        """Whether part of it lies in temporary files."""
        return bool(self._splits)

    def _spill(self) -> None:
        import numpy as np

        if not self._splits:
            self._splits = [tempfile.TemporaryFile() for _ in range(_SPLITS)]  # noqa: SIM115 - closed by close()
        table = np.concatenate(self.blocks)
        which = table["normal_a"] % _SPLITS
        for number, file in enumerate(self._splits):
            file.write(table[which == number].tobytes())
        self.blocks = []

    def _parts(self) -> Iterator[Any]:
        import numpy as np

        if not self._splits:
            if self.blocks:
                yield np.concatenate(self.blocks)
            return
        if self.blocks:
            self._spill()
        for file in self._splits:
            file.seek(0)
            yield np.frombuffer(file.read(), _DTYPE)
        self.close()

    def close(self) -> None:
        """Removes the temporary files."""
        for file in self._splits:
            file.close()
        self._splits = []

    def repeats(self) -> Repeats:
        """Which rows repeat an earlier one; the table is done with afterwards."""
        if self._repeats is None:
            self._repeats = _together([_repeats(part) for part in self._parts()])
            self.blocks = []
        return self._repeats


def repeats_in(pieces: Sequence[Any], max_kept: int) -> Repeats:
    """Which rows of a bucket repeat an earlier one; each kind has the first rows, and the count.

    Args:
        pieces: the bucket of each table that was split.
        max_kept: rows of a kind that are kept.
    """
    import numpy as np

    tables = [np.empty(0, _DTYPE), *(np.frombuffer(piece, _DTYPE) for piece in pieces)]
    found = _repeats(np.concatenate(tables))
    return Repeats(*(_joined([pairs], max_kept) for pairs in found))


def _together(found: Sequence[Repeats]) -> Repeats:
    return Repeats(*(_joined([parts[number] for parts in found]) for number in range(3)))


def _block(batch: RowBatch) -> Any:
    import numpy as np

    block = np.empty(len(batch), _DTYPE)
    exact, digests = _text_hashes(batch.texts)
    halves = np.frombuffer(b"".join(digests), "<u8")
    block["normal_a"], block["normal_b"] = halves[::2], halves[1::2]
    block["exact"] = exact
    key = batch.keys.label_key
    block["label"] = 0 if key is None else _label_hashes(batch, key)
    numbers = batch.numbers
    block["row"] = (
        np.arange(numbers.start, numbers.stop, dtype="<u8")
        if isinstance(numbers, range)
        else np.fromiter(numbers, "<u8", len(batch))
    )
    prompts = batch.prompts
    if batch.kinds(batch.keys.input_key) <= _KINDS and all(prompts):
        return block
    asks = [bool(prompt) and type(prompt) in _KINDS for prompt in prompts]
    return block[np.array(asks)]


_KINDS: Final = frozenset({str, list})


def _text_hashes(texts: Sequence[str]) -> tuple[list[int], list[bytes]]:
    """Hash of each text, and of its normalised form; one at a time, while it is in the cache."""
    exact, digests = [], []
    short, long = xxhash.xxh3_64_intdigest, xxhash.xxh3_128_digest
    for text in texts:
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            encoded = utf8(text)
        exact.append(short(encoded))
        digests.append(long(encoded.translate(LOWER, WHITE_SPACE)))
    return exact, digests


def _label_hashes(batch: RowBatch, key: str) -> Any:
    labels = batch.column(key)
    try:
        if batch.kinds(key) == {str}:
            return _hashes(map(str.encode, labels))
    except UnicodeEncodeError:
        pass
    return _hashes(label_bytes(label) for label in labels)


def _hashes(texts: Any) -> Any:
    import numpy as np

    return np.fromiter(map(xxhash.xxh3_64_intdigest, texts), "<u8")


def _repeats(table: Any) -> Repeats:
    """Looks for equal hashes in a table."""
    import numpy as np

    hashes = np.sort(table["normal_a"])
    table = table[np.isin(table["normal_a"], hashes[1:][hashes[1:] == hashes[:-1]])]
    order = np.lexsort((table["row"], table["normal_b"], table["normal_a"]))
    table = table[order]
    is_same = np.zeros(len(table), bool)
    is_same[1:] = (table["normal_a"][1:] == table["normal_a"][:-1]) & (
        table["normal_b"][1:] == table["normal_b"][:-1]
    )
    repeated = is_same.copy()
    repeated[:-1] |= is_same[1:]
    table, is_same = table[repeated], is_same[repeated]  # only prompts there are several of
    firsts = table[np.flatnonzero(~is_same)[np.cumsum(~is_same) - 1]] if len(table) else table
    exact = _exact(table, is_same)
    is_exact = np.isin(table["row"], exact.row)
    others = is_same & ~is_exact
    labels = is_same & (table["label"] != firsts["label"])
    return Repeats(exact, _pairs(table, firsts, others), _pairs(table, firsts, labels))


def _exact(table: Any, is_same: Any) -> Pairs:
    """Rows with the very text of an earlier one of their class."""
    import numpy as np

    classes = np.cumsum(~is_same)
    order = np.lexsort((table["row"], table["exact"], classes))
    table, classes = table[order], classes[order]
    again = np.zeros(len(table), bool)
    again[1:] = (classes[1:] == classes[:-1]) & (table["exact"][1:] == table["exact"][:-1])
    firsts = table[np.flatnonzero(~again)[np.cumsum(~again) - 1]] if len(table) else table
    return _pairs(table, firsts, again)


def _pairs(table: Any, firsts: Any, chosen: Any) -> Pairs:
    rows = table["row"][chosen]
    return Pairs(rows, firsts["row"][chosen], table["exact"][chosen], len(rows))


def _joined(parts: list[Pairs], max_kept: int | None = None) -> Pairs:
    """Pairs of several parts in the order of their rows, or the first of them."""
    import numpy as np

    nothing = np.empty(0, "<u8")
    row = np.concatenate([nothing, *(part.row for part in parts)])
    first = np.concatenate([nothing, *(part.first for part in parts)])
    identity = np.concatenate([nothing, *(part.identity for part in parts)])
    order = np.argsort(row, kind="stable")[:max_kept]
    return Pairs(row[order], first[order], identity[order], sum(part.num for part in parts))
