"""One record of a foreign format: its fields taken one by one, the rest kept as metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rolloutds.errors import DataError
from rolloutds.rollouts.dump_file import Line
from rolloutds.sample import Status

_REASONS = {
    "stop": Status.COMPLETED,
    "eos": Status.COMPLETED,
    "end_turn": Status.COMPLETED,
    "completed": Status.COMPLETED,
    "tool_calls": Status.COMPLETED,
    "length": Status.TRUNCATED,
    "max_tokens": Status.TRUNCATED,
    "max_length": Status.TRUNCATED,
    "truncated": Status.TRUNCATED,
    "abort": Status.ABORTED,
    "aborted": Status.ABORTED,
    "cancelled": Status.ABORTED,
    "error": Status.FAILED,
    "failed": Status.FAILED,
}


class Record:
    """An object of a file.

    Args:
        value: the object.
        where: its place, for messages.

    Raises:
        DataError: it is no object.
    """

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise DataError(f"a {type(value).__name__}", where=where, expected="an object")
        self._left = dict(value)
        self.where = where

    @classmethod
    def of_line(cls, line: Line, path: str) -> Record:
        """The record on a line.

        Raises:
            DataError: it is no object.
        """
        return cls(line.value, f"{path}:{line.number}")

    def take(self, name: str, default: Any = None) -> Any:
        """The value of a field, whatever it is; the record no longer has it."""
        return self._left.pop(name, default)

    def take_list(self, name: str) -> list[Any] | None:
        """A field that is a list, or None when it is null or absent.

        Raises:
            DataError: it is something else.
        """
        value = self.take(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, value, "a list")
        return value

    def take_object(self, name: str) -> dict[str, Any]:
        """A field that is an object; empty when it is null or absent.

        Raises:
            DataError: it is something else.
        """
        value = self.take(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, value, "an object")
        return value or {}

    def take_count(self, name: str) -> int | None:
        """A field that is a whole number, 0 or more; None when it is null or absent.

        Raises:
            DataError: it is something else.
        """
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(name, value, "a whole number, 0 or more")
        return value

    def take_text(self, name: str) -> str:
        """A field that is text; null and absent are "".

        Raises:
            DataError: it is something else.
        """
        value = self.take(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, value, "text")
        return value or ""

    def take_prompt(self, name: str) -> Any:
        """A field that is text or a list of messages; null and absent are "".

        Raises:
            DataError: it is something else.
        """
        value = self.take(name)
        if value is not None and not isinstance(value, str | list):
            raise self.wrong(name, value, "text or a list of messages")
        return "" if value is None else value

    def peek(self, name: str) -> Any:
        """The value of a field, which the record keeps."""
        return self._left.get(name)

    def rest(self) -> dict[str, Any]:
        """The fields not taken: a sample's metadata."""
        return self._left

    def wrong(self, name: str, value: Any, expected: str) -> DataError:
        """The error for a field of the wrong form."""
        return DataError(f"{name} is {value!r:.60}", where=self.where, expected=expected)


def status_of(reason: Any) -> Status | str:
    """The status an engine's finish reason means; one that is not known stays as it is."""
    if isinstance(reason, Mapping):  # some engines say {"type": "stop", …}
        reason = reason.get("type")
    if reason is None:
        return Status.COMPLETED
    return _REASONS.get(str(reason).lower(), str(reason))


def message_text(value: Any) -> str:
    """The text of a completion: itself, or what its messages say, one after the other."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    return "\n".join(filter(None, map(_content_text, value)))


def _content_text(message: Any) -> str:
    content = message.get("content") if isinstance(message, Mapping) else message
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "".join(text for text in parts if isinstance(text, str))
    return content if isinstance(content, str) else ""
