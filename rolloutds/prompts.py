"""One row to one prompt: messages, tools, metadata, label and media placeholders.

Each rule is one function that returns the value or raises `PromptError`. `build_prompt` and
`RowInspector` call the same functions, so a row that passes inspection builds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from rolloutds.errors import ConfigError, PromptError
from rolloutds.row_findings import Finding
from rolloutds.row_keys import MISSING, lookup

MEDIA_KINDS: Final = ("image", "video", "audio")
"""The kinds of media a prompt can hold; ``<kind>`` marks one in text."""

Message = dict[str, Any]


@dataclass(frozen=True)
class PromptSettings:
    """What to read of a row, and whether its prompt must become messages.

    Attributes:
        input_key: key of the prompt.
        label_key: key of the label; None: labels are None.
        metadata_key: key of the metadata; None: metadata is empty.
        tool_key: key of the tools; None: no tools.
        multimodal_keys: column of each kind of media (`MEDIA_KINDS`); None: text only.
        apply_chat_template: whether prompts are rendered from messages.

    Raises:
        ConfigError: `multimodal_keys` names an unknown kind, or a column that is not text.
    """

    input_key: str
    label_key: str | None = None
    metadata_key: str | None = "metadata"
    tool_key: str | None = "tools"
    multimodal_keys: Mapping[str, str] | None = None
    apply_chat_template: bool = False

    def __post_init__(self) -> None:
        if self.multimodal_keys is None:
            return
        if not isinstance(self.multimodal_keys, Mapping):
            raise ConfigError(
                f"multimodal_keys is {_name(self.multimodal_keys)}",
                expected='an object from kind to column, such as {"image": "images"}',
            )
        for kind, column in self.multimodal_keys.items():
            _check_media_setting(kind, column)
        # A plain copy of our own: it pickles, and later edits of the caller's do not reach it.
        object.__setattr__(self, "multimodal_keys", dict(self.multimodal_keys))

    @property
    def media_keys(self) -> tuple[str, ...]:
        """The columns that hold media."""
        return tuple((self.multimodal_keys or {}).values())

    @property
    def needs_messages(self) -> bool:
        """Whether a text prompt becomes one user message."""
        return self.apply_chat_template or self.multimodal_keys is not None

    @cached_property
    def identity(self) -> str:
        """Text that differs where these settings read a row differently, for cache keys."""
        media = None if self.multimodal_keys is None else dict(self.multimodal_keys)
        fields = [
            self.input_key,
            self.label_key,
            self.metadata_key,
            self.tool_key,
            media,
            self.apply_chat_template,
        ]
        return "prompts-2 " + json.dumps(fields, sort_keys=True)


def _check_media_setting(kind: Any, column: Any) -> None:
    if kind not in MEDIA_KINDS:
        raise ConfigError(
            f"multimodal_keys has the unknown kind {kind!r}",
            expected=f"one of {', '.join(MEDIA_KINDS)}",
        )
    if not isinstance(column, str) or not column:
        raise ConfigError(
            f"multimodal_keys[{kind!r}] is {_name(column)}",
            expected="the name of a column",
        )


class Prompt(NamedTuple):
    """One row, read: its values may share nested objects with the row.

    Attributes:
        content: the prompt as text, or the messages.
        messages: the messages; None where the prompt stays text.
        tools: the tools; None where the row has none.
        metadata: the row's metadata, with the tools under ``"tools"`` where it has any.
        label: the label as the row has it; None without a label key.
    """

    content: str | list[Message]
    messages: list[Message] | None
    tools: list[Any] | None
    metadata: dict[str, Any]
    label: Any

    @property
    def has_media(self) -> bool:
        """Whether a message holds an image, a video or an audio part."""
        return any(_num_parts(self.messages or (), kind) for kind in MEDIA_KINDS)


def build_prompt(row: dict[str, Any], settings: PromptSettings) -> Prompt:
    """Reads one row, which is not edited.

    Raises:
        PromptError: the prompt, tools, metadata, label or media cannot be used.
    """
    content = _read_content(row, settings)
    tools = _read_tools(row, settings)
    metadata = _read_metadata(row, settings)
    if tools is not None:
        metadata = {**metadata, "tools": tools}
    messages = None if isinstance(content, str) else content
    return Prompt(content, messages, tools, metadata, _read_label(row, settings))


class RowInspector:
    """Says of one row what would stop it, and what another data source would read otherwise.

    Args:
        settings: what is read of a row.

    Attributes:
        identity: text that differs where another inspector could find other things.
    """

    def __init__(self, settings: PromptSettings) -> None:
        self.settings = settings
        self.identity = settings.identity

    def __call__(self, row: dict[str, Any]) -> list[Finding]:
        """The errors of a row; without any, what another data source would read otherwise."""
        errors = [finding for rule in _RULES if (finding := self._try(*rule, row)) is not None]
        return errors or _port_findings(row, self.settings)

    def _try(self, code: str, read: _Rule, row: dict[str, Any]) -> Finding | None:
        try:
            read(row, self.settings)
        except PromptError as error:
            return Finding(code, is_error=True, what=error.headline)
        return None


# --- prompt and media -------------------------------------------------------------------------


def _read_content(row: dict[str, Any], settings: PromptSettings) -> str | list[Message]:
    content = _read_prompt(row, settings)
    if isinstance(content, str) or not settings.multimodal_keys:
        return content
    return _place_media(content, _media_columns(row, settings.multimodal_keys))


def _read_prompt(row: dict[str, Any], settings: PromptSettings) -> str | list[Message]:
    """The prompt as it is, before media are placed."""
    prompt = lookup(row, settings.input_key)
    if not isinstance(prompt, str):
        return _check_messages(prompt, settings)
    return [{"role": "user", "content": prompt}] if settings.needs_messages else prompt


def _read_media(row: dict[str, Any], settings: PromptSettings) -> None:
    """Raises what is wrong with the media of a row, and only that."""
    columns = _media_columns(row, settings.multimodal_keys or {})
    try:
        content = _read_prompt(row, settings)
    except PromptError:
        return  # the prompt's own fault; there is nothing to place media in
    if isinstance(content, list):
        _place_media(content, columns)


def _check_messages(prompt: Any, settings: PromptSettings) -> list[Message]:
    key = settings.input_key
    expected = "text or a list of messages"
    if prompt is MISSING:
        raise PromptError(f"the row has no key {key!r}", expected=expected)
    if not isinstance(prompt, list):
        raise PromptError(f"the prompt {key!r} is {_name(prompt)}", expected=expected)
    for i, message in enumerate(prompt):
        if not isinstance(message, dict):
            raise PromptError(
                f"message {i} of the prompt {key!r} is {_name(message)}",
                expected="an object with role and content",
            )
    if not prompt and settings.apply_chat_template:
        raise PromptError(f"the prompt {key!r} is an empty list", expected="at least one message")
    return prompt


def _media_columns(row: dict[str, Any], keys: Mapping[str, str]) -> dict[str, list[Any]]:
    """Items of each kind whose column is there and not null."""
    columns: dict[str, list[Any]] = {}
    for kind, column in keys.items():
        items = lookup(row, column)
        if items is MISSING or items is None:
            continue
        if not isinstance(items, list):
            raise PromptError(
                f"the {kind} column {column!r} is {_name(items)}",
                expected="a list with one item for each mark in the prompt",
            )
        columns[kind] = items
    return columns


def _place_media(messages: list[Message], columns: dict[str, list[Any]]) -> list[Message]:
    """The messages with each mark in text content replaced by the next item of its kind."""
    if not columns:
        return messages
    texts = [message.get("content") for message in messages]
    split = re.compile("(" + "|".join(f"<{kind}>" for kind in columns) + ")").split
    segments = [split(text) if isinstance(text, str) else None for text in texts]
    for kind, items in columns.items():
        marks = sum(found.count(f"<{kind}>") for found in segments if found is not None)
        _check_count(kind, marks, len(items), messages)
    waiting = {f"<{kind}>": (kind, iter(items)) for kind, items in columns.items()}
    return [
        message if found is None else {**message, "content": _parts(found, waiting)}
        for message, found in zip(messages, segments, strict=True)
    ]


def _check_count(kind: str, num_marks: int, num_items: int, messages: Sequence[Message]) -> None:
    """Refuses more marks than items, and items that no mark takes.

    A list of parts names its media itself and has no marks, so the column may repeat them:
    where all content is lists it is not counted, and where some is, parts of that kind make up
    for marks.
    """
    if num_marks == num_items:
        return
    if num_items > num_marks:
        if not any(isinstance(message.get("content"), str) for message in messages):
            return
        if num_items - num_marks <= _num_parts(messages, kind):
            return
    raise PromptError(
        f"the prompt has {_count(num_marks, f'<{kind}> mark')} and the row "
        f"has {_count(num_items, f'{kind} item')}",
        expected="as many of one as of the other",
    )


def _parts(segments: Sequence[str], waiting: Mapping[str, tuple[str, Any]]) -> list[Any]:
    parts: list[Any] = []
    for segment in segments:
        if segment in waiting:
            kind, items = waiting[segment]
            item = next(items)
            parts.append(item if isinstance(item, dict) else {"type": kind, kind: item})
        elif segment:
            parts.append({"type": "text", "text": segment})
    return parts


def _num_parts(messages: Sequence[Message], kind: str) -> int:
    """Parts of a kind in content that is a list."""
    return sum(
        isinstance(part, dict) and part.get("type") == kind
        for message in messages
        if isinstance(parts := message.get("content"), list)
        for part in parts
    )


# --- tools, metadata, label -------------------------------------------------------------------


def _read_tools(row: dict[str, Any], settings: PromptSettings) -> list[Any] | None:
    if settings.tool_key is None:
        return None
    tools = lookup(row, settings.tool_key)
    if tools is MISSING or tools is None or tools == "":
        return None
    read = _parse(tools, "tools", settings.tool_key, expected=_TOOLS_EXPECTED)
    if not isinstance(read, list):
        raise PromptError(
            f"the tools {settings.tool_key!r} are {_source(tools)}{_name(read)}",
            expected=_TOOLS_EXPECTED,
        )
    if settings.apply_chat_template:
        _check_tool_objects(read, settings.tool_key)
    return read


def _check_tool_objects(tools: list[Any], key: str) -> None:
    for i, tool in enumerate(tools):
        if not isinstance(tool, dict):
            raise PromptError(
                f"tool {i} of {key!r} is {_name(tool)}", expected="an object, for the chat template"
            )


def _read_metadata(row: dict[str, Any], settings: PromptSettings) -> dict[str, Any]:
    if settings.metadata_key is None:
        return {}
    metadata = lookup(row, settings.metadata_key)
    if isinstance(metadata, dict):
        return metadata
    if not metadata:  # absent, null, and every other falsy value
        return {}
    read = _parse(metadata, "metadata", settings.metadata_key, expected=_METADATA_EXPECTED)
    if not isinstance(read, dict):
        raise PromptError(
            f"the metadata {settings.metadata_key!r} is {_source(metadata)}{_name(read)}",
            expected=_METADATA_EXPECTED,
        )
    return read


def _read_label(row: dict[str, Any], settings: PromptSettings) -> Any:
    if settings.label_key is None:
        return None
    label = lookup(row, settings.label_key)
    if label is MISSING:
        raise PromptError(f"the row has no key {settings.label_key!r}", expected="a label")
    return label


def _parse(value: Any, noun: str, key: str, *, expected: str) -> Any:
    """JSON text read, other values as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise PromptError(
            f"the {noun} {key!r} is text that is not JSON ({error}): {_shorten(value)}",
            expected=expected,
        ) from None


_TOOLS_EXPECTED: Final = "a list of tools, or JSON text of one"
_METADATA_EXPECTED: Final = "an object, or JSON text of one"

_Rule = Callable[[dict[str, Any], PromptSettings], Any]
_RULES: Final[tuple[tuple[str, _Rule], ...]] = (
    ("prompt", _read_prompt),
    ("media", _read_media),
    ("tools", _read_tools),
    ("metadata", _read_metadata),
    ("label", _read_label),
)


# --- where slime reads otherwise --------------------------------------------------------------


def _port_findings(row: dict[str, Any], settings: PromptSettings) -> list[Finding]:
    findings = []
    if settings.tool_key is not None:
        tools = lookup(row, settings.tool_key)
        if tools is None or tools == "":
            shown = "null" if tools is None else "empty text"
            what = f"the tools {settings.tool_key!r} are {shown}: no tools here, slime stops"
            findings.append(Finding("port_tools", is_error=False, what=what))
    if settings.metadata_key is not None:
        metadata = lookup(row, settings.metadata_key)
        if isinstance(metadata, str) and metadata:
            what = (
                f"the metadata {settings.metadata_key!r} is JSON text: "
                "read as an object here, slime keeps the text"
            )
            findings.append(Finding("port_metadata_text", is_error=False, what=what))
    return findings


# --- wording ----------------------------------------------------------------------------------

_SHOWN_CHARACTERS: Final = 40


def _name(value: Any) -> str:
    """A JSON value in words, with the value itself where it is short."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return f"the text {_shorten(value)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {_shorten(value)}"
    if isinstance(value, Mapping):
        return f"an object with the keys {_shorten(list(value))}" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {_count(len(value), 'item')}"
    if isinstance(value, bytes):
        return "binary data"
    return f"a {type(value).__name__}"


def _source(value: Any) -> str:
    return "JSON text of " if isinstance(value, str) else ""


def _shorten(value: Any) -> str:
    try:
        text = repr(value if not isinstance(value, str) else value[: _SHOWN_CHARACTERS + 1])
    except ValueError:  # an integer beyond the digits that Python turns into text
        return "of very many digits"
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
