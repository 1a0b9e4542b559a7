"""Neighbouring rows, parsed, with the columns that several checks look at made once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import xxhash

from rolloutds.checks.columns import Columns, Missing
from rolloutds.checks.settings import CheckSettings
from rolloutds.prompts import MEDIA_KINDS, Message, PromptSettings, RowInspector
from rolloutds.row_findings import Finding
from rolloutds.row_keys import MISSING

WHITE_SPACE: Final = b" \t\n\r\x0b\x0c"
LOWER: Final = bytes(byte + 32 if 0x41 <= byte <= 0x5A else byte for byte in range(256))
_encode: Final = msgspec.json.Encoder().encode
_SEPARATOR: Final = "\x1f"


class BadLine(NamedTuple):
    """A line that is no row.

    Attributes:
        number: of the line.
        kind: ``json``, ``encoding``, ``value`` (digits, nesting), or ``object``.
        column: from 1, where the parser stopped.
        what: the sentence.
        text: the line.
    """

    number: int
    kind: str
    column: int | None
    what: str
    text: bytes


class RowBatch:
    """Some neighbouring rows.

    Args:
        rows: their values.
        numbers: the number of each.
        settings: what a run reads of a row.
        data: the text they were read from, which may hold other lines too.
        lines: the text of each; None where `data` is nothing but their lines, and for Parquet.
        bad: lines between them that are no rows.
        odd: positions of rows that only Python's json accepts.
        is_parquet: whether they come from Parquet.
    """

    def __init__(
        self,
        rows: list[dict[str, Any]],
        numbers: Sequence[int],
        settings: CheckSettings,
        *,
        data: bytes = b"",
        lines: list[bytes] | None = None,
        bad: Sequence[BadLine] = (),
        odd: Sequence[int] = (),
        is_parquet: bool = False,
        renderer: Renderer | None = None,
    ) -> None:
        self.rows = rows
        self.numbers = numbers
        self.settings = settings
        self.data = data
        self._lines = lines
        self.bad = bad
        self.odd = odd
        self.is_parquet = is_parquet
        self.keys: PromptSettings = settings.prompts
        self._renderer = renderer

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def lines(self) -> list[bytes] | None:
        """The text of each row; None for Parquet."""
        if self._lines is None and not self.is_parquet:
            return self.data.splitlines(keepends=True)
        return self._lines

    def digest(self, i: int) -> str:
        """Names the content of a row, whatever its line."""
        text = _stable(self.rows[i]) if self.lines is None else self.lines[i].strip()
        return xxhash.xxh3_64_hexdigest(text)

    # Columns.

    @cached_property
    def columns(self) -> Columns:
        """The rows, seen by key."""
        return Columns(self.rows)

    def column(self, key: str) -> list[Any]:
        """The value under a key of each row, or `MISSING`."""
        return self.columns.column(key)

    def types(self, key: str) -> list[type]:
        """The type under a key of each row."""
        return self.columns.types(key)

    def kinds(self, key: str) -> set[type]:
        """The types there are under a key."""
        return self.columns.kinds(key)

    def of_type(self, key: str, kind: type) -> list[int]:
        """Positions of the rows whose value under a key is of a type."""
        if kind not in self.kinds(key):
            return []
        return [i for i, found in enumerate(self.types(key)) if found is kind]

    def missing(self, key: str) -> list[int]:
        """Positions of the rows without a key."""
        return self.of_type(key, Missing)

    def null(self, key: str) -> list[int]:
        """Positions of the rows whose value under a key is null."""
        return self.of_type(key, type(None))

    def empty(self, key: str) -> list[int]:
        """Positions of the rows whose value under a key is an empty text, list or object."""
        if not self.kinds(key) & {str, list, dict}:
            return []
        column = self.column(key)
        if all(column):
            return []
        return [i for i, value in enumerate(column) if not value and type(value) in _SIZED]

    @cached_property
    def metadata(self) -> tuple[list[int], Columns] | None:
        """Positions of the rows whose metadata is an object, and those objects by key."""
        key = self.keys.metadata_key
        if key is None or dict not in self.kinds(key):
            return None
        positions = self.of_type(key, dict)
        column = self.column(key)
        if len(positions) == len(column):
            return positions, Columns(column)
        return positions, Columns([column[i] for i in positions])

    # Prompts.

    @property
    def prompts(self) -> list[Any]:
        """The prompt of each row."""
        return self.column(self.keys.input_key)

    @cached_property
    def conversations(self) -> list[tuple[int, list[Message]]]:
        """Position and messages of the rows whose prompt is a list of objects, not empty."""
        prompts = self.prompts
        if self.all_talk:
            return list(enumerate(prompts))
        listed = [i for i in self.of_type(self.keys.input_key, list) if prompts[i]]
        return [(i, prompts[i]) for i in listed if set(map(type, prompts[i])) == {dict}]

    @cached_property
    def messages(self) -> list[Message]:
        """All messages of all rows, one after another."""
        if self.all_talk:
            return self._listed
        return list(chain.from_iterable([prompt for _, prompt in self.conversations]))

    @cached_property
    def all_talk(self) -> bool:
        """Whether every prompt is a list of objects, not empty."""
        if self.kinds(self.keys.input_key) != {list} or not all(self.prompts):
            return False
        return set(map(type, self._listed)) <= {dict}

    @cached_property
    def _listed(self) -> list[Any]:
        return list(chain.from_iterable(self.prompts))

    @cached_property
    def message_columns(self) -> Columns:
        """`messages`, seen by key."""
        return Columns(self.messages)

    @cached_property
    def roles(self) -> set[Any]:
        """The roles there are; a list or an object in place of one stands for itself as None."""
        try:
            return set(self.message_columns.column("role"))
        except TypeError:
            return {None}

    @property
    def contents(self) -> list[Any]:
        """The content of each of `messages`, or `MISSING`."""
        return self.message_columns.column("content")

    @cached_property
    def texts(self) -> list[str]:
        """Each row's prompt as one text, the same for prompts that ask the same."""
        prompts = self.prompts
        kinds = self.kinds(self.keys.input_key)
        if kinds == {str}:
            texts: list[str] = prompts
        elif self._is_simple():
            texts = self.contents
        else:
            texts = [_text_of(prompt) for prompt in prompts]
        keys = [*self.keys.media_keys, *([self.keys.tool_key] if self.keys.tool_key else [])]
        for key in keys:
            if self.kinds(key) - {Missing, type(None)}:
                texts = list(map(_with_value, texts, self.column(key)))
        return texts

    def _is_simple(self) -> bool:
        """Whether every prompt is one message of the user with text."""
        if not (self.all_talk and len(self.messages) == len(self.rows)):
            return False
        is_plain = all(set(order) == {"role", "content"} for order in self.message_columns.orders)
        return (
            is_plain and self.roles == {"user"} and self.message_columns.kinds("content") == {str}
        )

    @cached_property
    def normal_texts(self) -> list[bytes]:
        """`texts` with ASCII in lower case and without white space."""
        return [normalised(utf8(text)) for text in self.texts]

    # What build_prompt would say.

    @cached_property
    def inspected(self) -> list[tuple[int, Finding]]:
        """What `RowInspector` says of the rows that are not plain, in order."""
        suspects = sorted(self._suspects())
        if not suspects:
            return []
        inspect = RowInspector(self.keys)
        return [(i, finding) for i in suspects for finding in inspect(self.rows[i])]

    def _suspects(self) -> set[int]:
        keys = self.keys
        found = set(self._not_of(keys.input_key, {str, list, Missing, type(None)}))
        if list in self.kinds(keys.input_key) and len(self.conversations) < len(
            self.of_type(keys.input_key, list)
        ):
            plain = {i for i, _ in self.conversations}
            found.update(i for i in self.of_type(keys.input_key, list) if i not in plain)
        if keys.metadata_key is not None:
            found.update(self._not_of(keys.metadata_key, {dict, Missing, type(None)}))
        if keys.tool_key is not None:
            found.update(self._not_of(keys.tool_key, {Missing}))
        for key in keys.media_keys:
            found.update(self._not_of(key, {Missing, type(None)}))
        return found

    def _not_of(self, key: str, plain: set[type]) -> list[int]:
        if self.kinds(key) <= plain:
            return []
        return [i for i, kind in enumerate(self.types(key)) if kind not in plain]

    def findings(self, code: str, *, is_error: bool = True) -> list[tuple[int, str]]:
        """Position and sentence of what the inspection says under a code."""
        return [
            (i, finding.what)
            for i, finding in self.inspected
            if finding.code == code and finding.is_error is is_error
        ]

    # Rendering.

    @cached_property
    def rendered(self) -> list[str | Exception | None]:
        """Each prompt as it is sent: text, None where it stays messages, or why it fails."""
        if self._renderer is None:
            return [None] * len(self.rows)
        return self._renderer(self)

    @cached_property
    def token_counts(self) -> list[tuple[int, int]]:
        """Position and tokens of the prompts that are text."""
        return [] if self._renderer is None else self._renderer.count(self)


class Renderer(Protocol):
    """Renders and counts the prompts of batches."""

    def __call__(self, batch: RowBatch, /) -> list[str | Exception | None]:
        """Text of each prompt, None where it stays messages, or why the template fails."""

    def count(self, batch: RowBatch, /) -> list[tuple[int, int]]:
        """Position and tokens of the prompts that are text."""


_SIZED: Final = frozenset({str, list, dict})


def _text_of(prompt: Any) -> str:
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, list):
        return _stable(prompt).decode("utf-8", "surrogatepass")
    parts = [_message_text(message) for message in prompt]
    if len(prompt) == 1 and isinstance(prompt[0], dict) and prompt[0].get("role") == "user":
        return parts[0].removeprefix("user" + _SEPARATOR)
    return _SEPARATOR.join(parts)


def _message_text(message: Any) -> str:
    if not isinstance(message, dict):
        return _stable(message).decode("utf-8", "surrogatepass")
    role, content = message.get("role"), message.get("content")
    if not isinstance(content, str):
        content = _stable(content).decode("utf-8", "surrogatepass")
    rest = {key: value for key, value in message.items() if key not in ("role", "content")}
    more = _stable(rest).decode("utf-8", "surrogatepass") if rest else ""
    return f"{role}{_SEPARATOR}{content}{more}"


def _with_value(text: str, value: Any) -> str:
    if not value:
        return text
    return text + _SEPARATOR + _stable(value).decode("utf-8", "surrogatepass")


def _stable(value: Any) -> bytes:
    """A value as bytes, the same for equal values."""
    try:
        return _encode(value)
    except (ValueError, OverflowError, RecursionError, TypeError, msgspec.MsgspecError):
        return _spelled(value)


def _spelled(value: Any) -> bytes:
    try:
        return repr(value).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):  # an integer of too many digits, nesting too deep
        return type(value).__name__.encode()


def utf8(text: str) -> bytes:
    """`text` in UTF-8, half characters too."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def normalised(text: bytes) -> bytes:
    """`text` with ASCII in lower case and without white space."""
    return text.translate(LOWER, WHITE_SPACE)


def label_bytes(value: Any) -> bytes:
    """A label as bytes: equal bytes for equal labels of the same type."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return b"\0" + _stable(None if value is MISSING else value)


MARKS: Final = re.compile("|".join(f"<{kind}>" for kind in MEDIA_KINDS))
"""What marks media in text."""
