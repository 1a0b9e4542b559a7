"""One line of JSON Lines: its text and its value, exactly as Python's text mode and json give.

The value is always ``json.loads(line.strip())``. A faster parser is used where it accepts the
bytes, since it then gives the same value: it refuses what it would read otherwise (NaN, lone
surrogates, numbers out of range, bytes that are not UTF-8). A differential test holds that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

BOM: Final = b"\xef\xbb\xbf"
_LINE_ENDS: Final = b"\r\n"
_decode: Final = msgspec.json.Decoder().decode
# Python's default limit on the digits of one integer; rows may not depend on a changed one.
MAX_DIGITS: Final = 4300
_SAMPLE: Final = 1024
_SAMPLED_RUN: Final = b"\x01" * (MAX_DIGITS // _SAMPLE)
_DIGIT_FLAGS: Final = bytes(0x30 <= byte <= 0x39 for byte in range(256))


class LineFault(NamedTuple):
    """Why a line is no JSON value.

    Attributes:
        column: from 1, where Python's json stopped; None when it names none.
        what: the sentence.
    """

    column: int | None
    what: str


class BlankLineError(ValueError):
    """A line of white space only, which is no row."""


def parse_line(line: bytes) -> Any:
    """The value of one line, given without a BOM, with or without its line end.

    Raises:
        BlankLineError: there is only white space.
        ValueError: it is not UTF-8, not JSON, or has an integer of too many digits.
        RecursionError: it is nested too deeply.
    """
    if len(line) <= MAX_DIGITS or not has_long_digits(line):
        try:
            return _decode(line)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            pass
    return _parse_exactly(line)


def _parse_exactly(line: bytes) -> Any:
    text = line.decode("utf-8").strip()
    if not text:
        raise BlankLineError
    return json.loads(text)


def has_long_digits(data: bytes | memoryview) -> bool:
    """Whether a run of more than `MAX_DIGITS` digits may be in `data` (never a wrong no).

    Such a run covers several of the bytes at a fixed distance, so only those are looked at
    first.
    """
    sampled = bytes(data[::_SAMPLE]).translate(_DIGIT_FLAGS)
    at = sampled.find(_SAMPLED_RUN)
    while at >= 0:
        start = at * _SAMPLE
        if bytes(data[start : start + len(_SAMPLED_RUN) * _SAMPLE - _SAMPLE]).isdigit():
            return True
        at = sampled.find(_SAMPLED_RUN, at + 1)
    return False


def describe_fault(line: bytes) -> LineFault | None:
    """Why `line` cannot be parsed, or None when it can or is blank."""
    try:
        _parse_exactly(line)
    except BlankLineError:
        return None
    except UnicodeDecodeError as error:
        return _encoding_fault(line, error)
    except json.JSONDecodeError as error:
        text = line.decode("utf-8")
        indent = len(text) - len(text.lstrip())
        what = error.msg.removesuffix(" starting at")  # the column says where
        return LineFault(error.colno + indent, f"not JSON: {what}")
    except ValueError:
        limit = sys.get_int_max_str_digits()
        what = f"an integer has more than {limit} digits, the most Python reads ({limit} digits)"
        return LineFault(None, what)
    except RecursionError:
        return LineFault(None, "nested too deeply for Python's json")
    return None


def _encoding_fault(line: bytes, error: UnicodeDecodeError) -> LineFault:
    byte = line[error.start]
    what = f"not UTF-8: byte 0x{byte:02x} at byte {error.start + 1} of the line ({error.reason})"
    return LineFault(None, what)


def without_end(line: bytes) -> bytes:
    """The line without its line end."""
    return line.rstrip(_LINE_ENDS)


def describe_type(value: Any) -> str:
    """The JSON name of a value's type, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, Mapping):
        return "an object"
    return "an array"
