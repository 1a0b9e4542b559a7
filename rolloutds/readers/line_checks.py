"""What the scan asks of each row: are its keys there, and is it one inspect() must see.

Many lines are checked in one call of a C parser that builds next to nothing: a struct with one
field a key, whose types already say what a plain row looks like. Rows that are not plain are
looked at one by one.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from rolloutds.key_guess import guess_input_key
from rolloutds.readers.base import Finding, Inspect, RowKeys
from rolloutds.readers.lines import (
    BlankLineError,
    describe_type,
    parse_line,
)
from rolloutds.row_keys import MISSING, lookup

_MAX_KEYS_NAMED: Final = 12
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


class LineKind(IntEnum):
    """What a line is to a dataset."""

    ROW = 0
    BLANK = 1
    NOT_JSON = 2  # malformed, and the one kind that bad_rows="skip" leaves out
    UNREADABLE = 3  # malformed otherwise: encoding, digits, nesting
    FAULTY = 4  # JSON, so it counts as a row, but it cannot be used


class LineResult(NamedTuple):
    """What a line is, and what inspect() said of it that does not stop the load."""

    kind: LineKind
    findings: Sequence[Finding] = ()


_PLAIN_ROW: Final = LineResult(LineKind.ROW)


class _Object(Struct, gc=False):
    """Any JSON object, its members checked and left out."""


class RowCheck:
    """Checks rows against the keys of a run.

    Args:
        keys: the keys.
        inspect: sees the rows whose metadata, tools, media or prompt are not plain.

    Attributes:
        rows_parsed: rows that went through a parser.
        has_only_text: whether every prompt so far was text that has a UTF-8 form.
    """

    def __init__(self, keys: RowKeys, inspect: Inspect | None = None) -> None:
        self.keys = keys
        self.inspect = inspect
        self.rows_parsed = 0
        self.has_only_text = True
        is_inspected = inspect is not None
        self._text = _plain_decoder(keys, str, inspected=is_inspected)
        self._plain = _plain_decoder(keys, _TEXT_OR_MESSAGES, inspected=is_inspected)

    def all_plain(self, lines: memoryview, num_lines: int) -> bool:
        """Whether `lines` are `num_lines` rows with nothing to look at.

        The caller has made sure that each line starts with ``{`` and ends with ``}``, that
        all is UTF-8 and that no integer is over-long. False says nothing.
        """
        if self.has_only_text and self._are(self._text, lines, num_lines):
            return True
        if not self._are(self._plain, lines, num_lines):
            return False
        self.has_only_text = False
        return True

    def _are(
        self, decoder: msgspec.json.Decoder[Any] | None, lines: memoryview, num_lines: int
    ) -> bool:
        if decoder is None:
            return False
        try:
            rows = decoder.decode_lines(lines)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return False
        self.rows_parsed += len(rows)
        return len(rows) == num_lines

    def line(self, line: bytes) -> LineResult:
        """Checks one line, given without a BOM."""
        self.rows_parsed += 1
        try:
            value = parse_line(line)
        except BlankLineError:
            return LineResult(LineKind.BLANK)
        except (ValueError, RecursionError) as error:
            return LineResult(malformed_kind(error))
        return self.row(value)

    def row(self, value: Any) -> LineResult:
        """Checks one parsed value."""
        if not isinstance(value, dict):
            return LineResult(LineKind.FAULTY)
        prompt = lookup(value, self.keys.input_key)
        if prompt is MISSING or prompt is None:
            return LineResult(LineKind.FAULTY)
        if self.keys.label_key is not None and lookup(value, self.keys.label_key) is MISSING:
            return LineResult(LineKind.FAULTY)
        self.has_only_text = self.has_only_text and _has_utf8_form(prompt)
        if self.inspect is None or not self._is_suspect(value, prompt):
            return _PLAIN_ROW
        findings = self.inspect(value)
        kind = LineKind.FAULTY if any(found.is_error for found in findings) else LineKind.ROW
        return LineResult(kind, [found for found in findings if not found.is_error])

    def _is_suspect(self, row: dict[str, Any], prompt: Any) -> bool:
        keys = self.keys
        if not _is_plain_prompt(prompt):
            return True
        if keys.metadata_key is not None:
            metadata = lookup(row, keys.metadata_key)
            if metadata is not MISSING and metadata is not None and not isinstance(metadata, dict):
                return True
        if keys.tool_key is not None:
            tools = lookup(row, keys.tool_key)
            if tools is not MISSING and not _is_list_of_objects(tools):
                return True
        return any(lookup(row, key) not in (MISSING, None) for key in keys.media_keys)

    def explain(self, value: Any) -> str:
        """Why a parsed value is faulty: what was found, what was expected."""
        if not isinstance(value, dict):
            return f"{describe_type(value)}, expected an object"
        for key in (self.keys.input_key, self.keys.label_key):
            if key is not None and lookup(value, key) is MISSING:
                usual = guess_input_key(value) if key == self.keys.input_key else None
                return missing_key(key, value, usual=usual)
        if lookup(value, self.keys.input_key) is None:
            return f"{self.keys.input_key!r} is null, expected a prompt"
        findings = self.inspect(value) if self.inspect else []
        return "; ".join(found.what for found in findings if found.is_error)


def _is_plain_prompt(prompt: Any) -> bool:
    """Whether a prompt is text or a list of objects."""
    if isinstance(prompt, list):
        return bool(prompt) and _is_list_of_objects(prompt)
    return isinstance(prompt, str)


def _has_utf8_form(prompt: Any) -> bool:
    if not isinstance(prompt, str):
        return False
    return prompt.isascii() or _SURROGATES.search(prompt) is None


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def malformed_kind(error: Exception) -> LineKind:
    """Which malformed kind an exception of `parse_line` stands for."""
    is_json_error = isinstance(error, json.JSONDecodeError)
    return LineKind.NOT_JSON if is_json_error else LineKind.UNREADABLE


def missing_key(key: str, row: dict[str, Any], *, usual: str | None = None) -> str:
    """Says that `key` is not in `row`: the keys that are, and the nearest name.

    Args:
        key: what was looked for.
        row: where.
        usual: a key of the row to name where none is spelt like `key`.
    """
    shown = ", ".join(repr(name) for name in list(row)[:_MAX_KEYS_NAMED])
    more = f" and {len(row) - _MAX_KEYS_NAMED} more" if len(row) > _MAX_KEYS_NAMED else ""
    text = (
        f"no key {key!r}, the row has {shown}{more}" if row else f"no key {key!r} in an empty row"
    )
    near = nearest_name(key, list(row)) or usual
    return f"{text} (did you mean {near!r}?)" if near else text


def nearest_name(key: str, names: Sequence[str]) -> str | None:
    """The name most like `key`, or None when none is."""
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    if near:
        return near[0]
    folded = {name.lower(): name for name in names}
    return folded.get(key.lower())


_TEXT_OR_MESSAGES: Final[Any] = str | Annotated[list[_Object], Meta(min_length=1)]


def _plain_decoder(
    keys: RowKeys, prompt: Any, *, inspected: bool
) -> msgspec.json.Decoder[Any] | None:
    """A decoder that accepts only rows with nothing to look at; None when types cannot say it.

    Args:
        keys: the keys.
        prompt: the type of a plain prompt.
        inspected: whether somebody looks at what is not plain.
    """
    named = keys.named()
    if len(named) != len(_roles(keys)):
        return None  # one key in two roles
    roles = {key: _field_type(role, prompt, inspected=inspected) for key, role in _roles(keys)}
    tree = _tree(roles)
    return None if tree is None else msgspec.json.Decoder(_struct(tree))


def _roles(keys: RowKeys) -> list[tuple[str, str]]:
    optional = [
        (keys.label_key, "label"),
        (keys.metadata_key, "metadata"),
        (keys.tool_key, "tools"),
        *((key, "media") for key in keys.media_keys),
    ]
    return [(keys.input_key, "prompt"), *((key, role) for key, role in optional if key is not None)]


_REQUIRED: Final = ("prompt", "label")


def _field_type(role: str, prompt: Any, *, inspected: bool) -> tuple[Any, bool]:
    """The type of a plain value in a role, and whether the key must be there."""
    plain: dict[str, Any] = {
        "prompt": prompt,
        "label": Raw,
        "metadata": _Object | None | UnsetType if inspected else Raw | UnsetType,
        "tools": list[_Object] | UnsetType if inspected else Raw | UnsetType,
        "media": None | UnsetType if inspected else Raw | UnsetType,
    }
    return plain[role], role in _REQUIRED


def _tree(roles: dict[str, tuple[Any, bool]]) -> dict[str, Any] | None:
    """Fields by name, dotted keys as fields of fields; None where both were needed."""
    tree: dict[str, Any] = {}
    for key, field in roles.items():
        head, _, rest = key.partition(".")
        if not rest:
            if head in tree:
                return None
            tree[head] = field
            continue
        # A literal key of that name comes first: where one turns up, the row is no plain one.
        tree[key] = (UnsetType, False)
        node = tree
        *parents, leaf = key.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                return None
        if leaf in node:
            return None
        node[leaf] = field
    return tree


def _struct(tree: dict[str, Any]) -> Any:
    """A struct type whose fields are `tree`'s; unknown members are checked and left out."""
    needed: list[Any] = []
    optional: list[Any] = []
    names = {f"field_{number}": name for number, name in enumerate(tree)}
    for field, content in zip(names, tree.values(), strict=True):
        kind = _struct(content) if isinstance(content, dict) else content[0]
        if _is_needed(content):
            needed.append((field, kind))
        else:
            optional.append((field, kind if kind is UnsetType else kind | UnsetType, UNSET))
    return msgspec.defstruct("PlainRow", [*needed, *optional], rename=names, gc=False)


def _is_needed(content: Any) -> bool:
    if isinstance(content, dict):
        return any(_is_needed(inner) for inner in content.values())
    return bool(content[1])
