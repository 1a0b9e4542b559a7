"""Rows as such: can each line be read, and is it an object."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import msgspec
import xxhash

from rolloutds.checks.base import Explanation, Found, RowCheck, Severity, Totals
from rolloutds.checks.batch import RowBatch
from rolloutds.checks.columns import Columns, Missing
from rolloutds.checks.settings import CheckSettings


class _BadLineCheck(RowCheck):
    """Lines of one kind that are no rows."""

    kind: ClassVar[str]
    severity: ClassVar[Severity] = "error"

    def feed(self, batch: RowBatch) -> None:
        """Takes the lines of its kind."""
        for line in batch.bad:
            if line.kind == self.kind:
                digest = xxhash.xxh3_64_hexdigest(line.text.strip())
                self.add(Found(line.what, line.number, line.column, digest))


class MalformedJson(_BadLineCheck):
    """A line that is no JSON."""

    code = "ROW001"
    name = "malformed-json"
    kind = "json"
    explanation = Explanation(
        what="A line cannot be read as JSON. On the last line, without a line end, the file was "
        "most likely cut short while it was written or copied.",
        why="A run stops when it opens the file, or, where bad lines are skipped, trains on other "
        "rows and in another order than the file suggests.",
        example='{"prompt": "2 + 2?", "label": "4"',
        fix="Correct the line, or copy the file again. bad_rows='skip' leaves such lines out.",
    )


class WrongEncoding(_BadLineCheck):
    """A line that is not UTF-8."""

    code = "ROW002"
    name = "wrong-encoding"
    kind = "encoding"
    explanation = Explanation(
        what="A line holds bytes that are not UTF-8.",
        why="JSON is UTF-8; a run stops here. Often the whole file is in another encoding, such "
        "as GBK or Latin-1, and only the lines beyond ASCII show it.",
        example="a line saved in GBK",
        fix="Convert the file: iconv -f GBK -t UTF-8 FILE > NEW.",
    )


class NotAnObject(_BadLineCheck):
    """A line that is JSON, and no object."""

    code = "ROW003"
    name = "not-an-object"
    kind = "object"
    explanation = Explanation(
        what="A line is JSON, but a list, text, number or null instead of an object.",
        why="A row is looked up by key, so there is nothing to train on, and the run stops.",
        example='["2 + 2?", "4"]',
        fix='Write one object a line: {"prompt": "2 + 2?", "label": "4"}.',
    )


class UnreadableValue(_BadLineCheck):
    """A line that Python's json refuses though it is JSON."""

    code = "ROW004"
    name = "unreadable-value"
    kind = "value"
    explanation = Explanation(
        what="A line has an integer of more than 4,300 digits, or is nested too deeply.",
        why="Python's json refuses it, so the run stops.",
        example='{"prompt": "…", "label": 1000…000} with 5,000 digits',
        fix="Write such a number as text, and flatten the nesting.",
    )


_NOT_FINITE: Final = re.compile(r"NaN|-?Infinity")


class NotFinite(RowCheck):
    """NaN and infinities."""

    code = "ROW005"
    name = "not-finite-number"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="A value is NaN or an infinity, which JSON does not have; Python's json reads it.",
        why="Other tools refuse the line, and a reward computed from it is NaN, which spreads to "
        "every advantage of its batch.",
        example='{"prompt": "2 + 2?", "label": NaN}',
        fix="Write null, or leave the row out.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks at the rows that only Python's json accepts."""
        for i in batch.odd:
            names = _not_finite(batch.lines[i]) if batch.lines else []
            if names:
                self.add_row(batch, i, f"{', '.join(names)} is no JSON, only Python reads it")
        if batch.is_parquet:
            self._feed_values(batch)

    def _feed_values(self, batch: RowBatch) -> None:
        for i, row in enumerate(batch.rows):
            for key, value in row.items():
                number = _first_not_finite(value)
                if number is not None:
                    place = repr(key) if number is value else f"a number in {key!r}"
                    self.add_row(batch, i, f"{place} is {number!r}, not a finite number")
                    break


def _first_not_finite(value: Any) -> float | None:
    """A number that is not finite, wherever it is in a value."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if _is_not_finite(item):
            found: float = item
            return found
        if type(item) is dict:
            waiting.extend(item.values())
        elif type(item) in (list, tuple):
            waiting.extend(item)
    return None


def _is_not_finite(value: Any) -> bool:
    return type(value) is float and (value != value or value in (float("inf"), -float("inf")))


def _not_finite(line: bytes) -> list[str]:
    names: list[str] = []

    def note(name: str) -> None:
        names.append(name)

    def number(text: str) -> float:
        value = float(text)
        if _is_not_finite(value):
            names.append(text if len(text) < 20 else "a number out of range")
        return value

    json.loads(line, parse_constant=note, parse_float=number)
    return list(dict.fromkeys(names))


class LoneSurrogate(RowCheck):
    """Half a character."""

    code = "ROW006"
    name = "lone-surrogate"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="Text holds half of a surrogate pair (\\ud83d without its second half).",
        why="Python's json reads it, but the text cannot be written as UTF-8 again: tokenizers "
        "and logs fail on it, hours into the run.",
        example='{"prompt": "smile \\ud83d"}',
        fix="Cut texts at whole characters, and write the row again.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Looks at the rows that only Python's json accepts."""
        for i in batch.odd:
            text = _written(batch.rows[i])
            if text is None:
                self.add_row(batch, i, "text with half of a surrogate pair, not writable as UTF-8")


def _written(value: Any) -> bytes | None:
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return None
    except (ValueError, RecursionError):
        return b""


class RepeatedKey(RowCheck):
    """One object that names a key twice."""

    code = "ROW007"
    name = "repeated-key"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="An object names one key twice.",
        why="The last value counts and the first is lost without a word; another reader may take "
        "the first.",
        example='{"prompt": "2 + 2?", "label": "4", "label": "5"}',
        fix="Keep one of them.",
    )

    def feed(self, batch: RowBatch) -> None:
        """Counts keys in the text and in the values; looks closely where they differ."""
        if batch.is_parquet or not _may_repeat(batch.data, _num_keys_of(batch)):
            return
        if batch.lines is None:
            return
        for i, (line, row) in enumerate(zip(batch.lines, batch.rows, strict=True)):
            if _row_may_repeat(line, row):
                self._look(batch, i, line)

    def _look(self, batch: RowBatch, i: int, line: bytes) -> None:
        repeated: list[str] = []

        def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            value = dict(pairs)
            if len(value) < len(pairs):
                seen: set[str] = set()
                repeated.extend(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            return value

        json.loads(line, object_pairs_hook=note)
        if repeated:
            names = ", ".join(repr(key) for key in dict.fromkeys(repeated))
            self.add_row(batch, i, f"the key {names} comes more than once, the last value counts")


def _may_repeat(text: bytes, num_keys: int) -> bool:
    """Whether `text` has more ends of keys (a quote, white space, a colon) than `num_keys`."""
    import numpy as np

    data = np.frombuffer(text, np.uint8)
    before = data[np.flatnonzero(data == 0x3A) - 1]
    found = np.count_nonzero(before == 0x22)
    found += np.count_nonzero(before == 0x20) + np.count_nonzero(before == 0x09)
    return bool(found > num_keys)


def _row_may_repeat(line: bytes, row: dict[str, Any]) -> bool:
    """The same for one row; where text has such ends too, the row is written anew to compare."""
    tight, loose = line.count(b'":'), line.count(b" :") + line.count(b"\t:")
    if tight + loose <= _num_keys(row):
        return False
    if loose or b"\\u" in line:
        return True
    try:
        return msgspec.json.encode(row).count(b'":') != tight
    except (ValueError, RecursionError, OverflowError):
        return True


def _num_keys_of(batch: RowBatch) -> int:
    """Keys of all objects in all rows."""
    columns = batch.columns
    nested = [key for key in columns.names() if columns.kinds(key) & _NESTED]
    return columns.num_keys() + sum(_num_keys_under(batch, key) for key in nested)


def _num_keys_under(batch: RowBatch, key: str) -> int:
    objects: Columns | None = None
    if key == batch.keys.input_key and batch.all_talk:
        objects = batch.message_columns
    elif key == batch.keys.metadata_key and batch.kinds(key) == {dict} and batch.metadata:
        objects = batch.metadata[1]
    if objects is not None and not objects.all_kinds() & _NESTED:
        return objects.num_keys()
    return sum(_num_keys(row.get(key)) for row in batch.rows)


_NESTED: Final = frozenset({dict, list})


def _num_keys(value: Any) -> int:
    """Keys of all objects in a value."""
    count = 0
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if type(value) is dict:
            count += len(value)
            waiting.extend([item for item in value.values() if type(item) in _NESTED])
        elif type(value) is list:
            waiting.extend([item for item in value if type(item) in _NESTED])
    return count


class MixedTypes(RowCheck):
    """A key whose values have several types."""

    code = "ROW008"
    name = "mixed-types"
    severity: ClassVar[Severity] = "warning"
    explanation = Explanation(
        what="The values of one key have several types, such as text in some rows and numbers in "
        "others. null is not counted as a type.",
        why="Code that works on the first rows fails on a later one: a grader that compares text, "
        "a table that takes its column types from the start of the file.",
        example='{"level": 3} and, later, {"level": "3"}',
        fix="Write the values of a key in one type.",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        # For each key and type: rows, and the first of them.
        self.seen: dict[tuple[str, str], tuple[int, int]] = {}

    def feed(self, batch: RowBatch) -> None:
        """Notes the types of each key, and of each key of the metadata."""
        prompts = self.settings.prompts
        own = {prompts.input_key, prompts.label_key, prompts.metadata_key, prompts.tool_key}
        own |= set(prompts.media_keys)
        self._note(batch.columns, batch.numbers, "", own)
        if batch.metadata is not None:
            positions, columns = batch.metadata
            numbers = [batch.numbers[i] for i in positions]
            self._note(columns, numbers, f"{prompts.metadata_key}.", set())

    def _note(
        self, columns: Columns, numbers: Sequence[int], prefix: str, left_out: set[str | None]
    ) -> None:
        for key in columns.names():
            if key in left_out:
                continue
            types = columns.types(key)
            for kind in columns.kinds(key) - _NO_TYPES:
                self._count(prefix + key, kind, types, numbers)

    def _count(self, key: str, kind: type, types: list[type], numbers: Sequence[int]) -> None:
        slot = (key, _TYPE_NAMES.get(kind, kind.__name__))
        if slot not in self.seen and len(self.seen) >= _MAX_SLOTS:
            return
        first = numbers[types.index(kind)]
        known, at = self.seen.get(slot, (0, first))
        self.seen[slot] = (known + types.count(kind), min(at, first))

    def merge(self, later: MixedTypes) -> None:
        """Adds the counts; the first place is the earlier part's."""
        super().merge(later)
        for slot, (count, first) in later.seen.items():
            known, at = self.seen.get(slot, (0, first))
            self.seen[slot] = (known + count, min(at, first))

    def finish(self, totals: Totals) -> None:
        """Names each key that has several types."""
        keys: dict[str, list[tuple[int, str, int]]] = {}
        for (key, name), (count, first) in self.seen.items():
            keys.setdefault(key, []).append((first, name, count))
        for key, kinds in sorted(keys.items(), key=lambda item: sorted(item[1])[-1]):
            if len(kinds) > 1:
                self.add(_mixed(key, sorted(kinds), totals))


def _mixed(key: str, kinds: list[tuple[int, str, int]], totals: Totals) -> Found:
    named = ", ".join(
        f"{name} in {count:,} {'row' if count == 1 else 'rows'} (first {totals.spot(first)})"
        for first, name, count in kinds
    )
    return Found(f"{key!r} is {named}", kinds[1][0], None, key)


_MAX_SLOTS: Final = 4_096
_NO_TYPES: Final = frozenset({type(None), Missing})
_TYPE_NAMES: Final = {
    str: "text",
    int: "number",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "list",
}


class LargestRow(RowCheck):
    """The largest row of all."""

    code = "ROW009"
    name = "largest-row"
    severity: ClassVar[Severity] = "note"
    explanation = Explanation(
        what="Says which row has the most bytes, where it has over 256 KiB.",
        why="One huge row may stall a worker, or hold a document pasted by mistake.",
        example="one row of 50 MB among rows of 600 bytes",
        fix="Look at the row; leave it out when it is a mistake.",
    )

    def __init__(self, settings: CheckSettings) -> None:
        super().__init__(settings)
        self.largest = (0, 0)  # bytes, row

    def feed(self, batch: RowBatch) -> None:
        """Keeps the largest."""
        if len(batch.data) < _LARGE_BYTES or not batch.lines:
            return  # no line of it is worth saying
        size = max(map(len, batch.lines))
        if size > self.largest[0]:
            position = next(i for i, line in enumerate(batch.lines) if len(line) == size)
            self.largest = (size, batch.numbers[position])

    def merge(self, later: LargestRow) -> None:
        """Keeps the larger one; of equals the earlier."""
        super().merge(later)
        if later.largest[0] > self.largest[0]:
            self.largest = later.largest

    def finish(self, totals: Totals) -> None:
        """Says it where it stands out."""
        size, row = self.largest
        if not totals.num_rows or size < _LARGE_BYTES:
            return
        mean = totals.num_bytes // max(totals.num_rows, 1)
        self.add(
            Found(f"the largest row has {size:,} bytes, the mean is {mean:,}", row, None, "largest")
        )


_LARGE_BYTES: Final = 256 << 10


class NoRows(RowCheck):
    """Data without a row."""

    code = "ROW010"
    name = "no-rows"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="There is no row at all.",
        why="A run that is given an empty file stops, or waits for prompts that never come.",
        example="a file of 0 bytes, or of blank lines only",
        fix="Write the file again; look at what should have written it.",
    )

    def finish(self, totals: Totals) -> None:
        """Looks at the count."""
        if not totals.num_rows and not totals.num_bad:
            blank = f", only {totals.num_blank} blank lines" if totals.num_blank else ""
            self.add(Found(f"no rows{blank}", None, None, "no rows"))


class FewerThanABatch(RowCheck):
    """Fewer rows than one request asks for."""

    code = "ROW011"
    name = "fewer-rows-than-a-batch"
    severity: ClassVar[Severity] = "warning"
    needs = ("batch",)
    explanation = Explanation(
        what="There are fewer rows than a rollout asks for.",
        why="Every rollout then holds some prompts twice, an epoch passes within one step, and "
        "a plan by num_epoch has no rollout at all.",
        example="20 rows with rollout_batch_size 32",
        fix="Use more data, or a smaller batch.",
    )

    def finish(self, totals: Totals) -> None:
        """Compares the counts."""
        size = self.settings.batch_size or 0
        if 0 < totals.num_rows < size:
            self.add(
                Found(f"{totals.num_rows:,} rows, a rollout asks for {size:,}", None, None, "batch")
            )


class JsonArray(RowCheck):
    """A file that is one JSON array; found before the rows are read."""

    code = "ROW012"
    name = "json-array"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="The file is one JSON array, not one object a line.",
        why="A run reads line by line: it stops, or sees one row that is a list.",
        example='[{"prompt": "a"}, {"prompt": "b"}]',
        fix="Turn it into JSON Lines: jq -c '.[]' FILE > FILE.jsonl",
    )


class UnreadableFile(RowCheck):
    """A file that cannot be opened or decoded at all."""

    code = "ROW013"
    name = "unreadable-file"
    severity: ClassVar[Severity] = "error"
    explanation = Explanation(
        what="A file is damaged, may not be read, or is of a kind that is not supported.",
        why="The run stops when it opens it.",
        example="a Parquet file whose copy stopped early",
        fix="Write or copy the file again, and check its permissions.",
    )


CHECKS = (
    MalformedJson,
    WrongEncoding,
    NotAnObject,
    UnreadableValue,
    NotFinite,
    LoneSurrogate,
    RepeatedKey,
    MixedTypes,
    LargestRow,
    NoRows,
    FewerThanABatch,
    JsonArray,
    UnreadableFile,
)
