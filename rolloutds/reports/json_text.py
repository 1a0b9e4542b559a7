"""Plain values as JSON that every reader takes.

Python writes NaN, which is not JSON, and lone surrogates, which are not UTF-8. Here the numbers
JSON has no form for are tagged objects, as in a buffer file, and every character that would act
on a terminal, end a line or fail to encode is written as its escape, which reads back the same.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
import re
from collections.abc import Mapping
from typing import Any

_TAG = "__rolloutds__"
_ESCAPED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def as_json(value: Any, *, indent: int | None = None) -> str:
    """`value` as JSON; without `indent`, on one line."""
    try:
        text = json.dumps(
            value, ensure_ascii=False, allow_nan=False, indent=indent, default=_tagged
        )
    except (TypeError, ValueError):
        text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=indent)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def value_text(value: Any) -> str:
    """Text as it is, a number as Python writes it, anything else as JSON."""
    if isinstance(value, str):
        return value
    return repr(value) if isinstance(value, float) else as_json(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return _tagged(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return _tagged(value)


def _tagged(value: Any) -> dict[str, str]:
    if isinstance(value, float):
        return {_TAG: "float", "value": repr(value)}
    if isinstance(value, bytes | bytearray | memoryview):
        return {_TAG: "bytes", "data": base64.b64encode(value).decode("ascii")}
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return {_TAG: "datetime", "value": value.isoformat()}
    return {_TAG: type(value).__name__, "value": str(value)}
