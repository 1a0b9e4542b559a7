"""Values JSON has no form for, as tagged objects, and back.

``{"__rolloutds__": KIND, …}`` where KIND is

- ``float``: ``value`` is ``nan``, ``inf`` or ``-inf``;
- ``bytes``: ``data``, base64;
- ``datetime``: ``value`` in ISO form (a date, a time or both), ``fold`` when it is 1;
- ``timedelta``: ``days``, ``seconds``, ``microseconds``;
- ``tensor``: ``dtype`` (torch's name), ``shape``, ``data``: base64 of the elements, little endian,
  the last index fastest; ``requires_grad`` and ``is_parameter`` when true;
- ``ndarray``: ``dtype`` (NumPy's code), ``shape``, ``data``; ``order`` "F" when the first index
  is fastest; ``fields`` and ``num_bytes`` for records; ``items`` in place of ``data`` for objects;
  ``is_scalar`` true for a NumPy scalar, whose ``shape`` is empty;
- ``tuple``: ``items``; ``dict``: ``items``, pairs, for a dict with keys that are no text, or with
  the key ``__rolloutds__``; ``text``: ``data``, for text that JSON would join up differently.

What comes back is what the reader of dumps gives: `TensorValue`, `ArrayValue` and `ScalarValue`
for tensors, arrays and NumPy scalars, so neither torch nor NumPy is needed on the way.
"""

from __future__ import annotations

import base64
import datetime
import json
import re
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

import msgspec

from rolloutds.errors import DataError, TorchFileError
from rolloutds.rollouts.array_bytes import (
    array_type,
    array_value,
    dtype_code,
    is_element_type,
    scalar_value,
    tensor_bytes,
    tensor_value,
)
from rolloutds.rollouts.plain_walk import PlainWalk, Way
from rolloutds.torch_file import ArrayType, ArrayValue, ScalarValue, TensorValue

TAG: Final = "__rolloutds__"
TAG_BYTES: Final = TAG.encode()
_MAX_DEPTH: Final = 150
# Characters that act on a terminal, end a line for some readers, or fail to encode.
_ESCAPED: Final = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_encode: Final = msgspec.json.Encoder().encode
_PAIR_APART: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class Tagger(PlainWalk):
    """Turns values into what JSON can hold."""

    def number(self, value: float) -> Any:
        """A number that JSON has no form for."""
        return {TAG: "float", "value": repr(value)}

    def text(self, value: str) -> Any:
        """Text; two halves of a character that stand apart would come back as one."""
        if _PAIR_APART.search(value):
            return {TAG: "text", "data": _base64(value.encode("utf-8", "surrogatepass"))}
        return value

    def binary(self, value: bytes) -> Any:
        """Bytes."""
        return {TAG: "bytes", "data": _base64(value)}

    def moment(self, value: Any) -> Any:
        """A datetime, date, time or timedelta."""
        if isinstance(value, datetime.timedelta):
            parts = {name: getattr(value, name) for name in ("days", "seconds", "microseconds")}
            return {TAG: "timedelta", **parts}
        tagged = {TAG: "datetime", "value": value.isoformat()}
        return tagged | {"fold": 1} if getattr(value, "fold", 0) else tagged

    def sequence(self, value: list[Any] | tuple[Any, ...], way: Way) -> Any:
        """A list or a tuple."""
        items = self.items(value, way)
        return {TAG: "tuple", "items": items} if isinstance(value, tuple) else items

    def mapping(self, value: Mapping[Any, Any], way: Way) -> Any:
        """A dict."""
        pairs = self.pairs(value, way)
        if all(type(key) is str and key != TAG and not _PAIR_APART.search(key) for key, _ in pairs):
            return dict(pairs)
        # A scalar that is a key is a tagged object already.
        items = [[self.text(key) if type(key) is str else key, v] for key, v in pairs]
        return {TAG: "dict", "items": items}

    def tensor(self, value: Any, way: Way) -> Any:
        """A tensor."""
        del way
        flags = {n: True for n in ("requires_grad", "is_parameter") if getattr(value, n)}
        data = _base64(tensor_bytes(value))
        return {TAG: "tensor", "dtype": value.dtype, "shape": list(value.shape), **flags} | {
            "data": data
        }

    def scalar(self, value: ScalarValue, way: Way) -> Any:
        """A NumPy scalar."""
        if not is_element_type(value.dtype):
            return self.foreign(value, way)
        head = {TAG: "ndarray", **_type_fields(value.dtype), "shape": [], "is_scalar": True}
        return head | {"data": _base64(value.data)}

    def array(self, value: Any, way: Way) -> Any:
        """A NumPy array."""
        if not is_element_type(value.dtype):
            return self.foreign(value, way)
        head = {TAG: "ndarray", **_type_fields(value.dtype), "shape": list(value.shape)}
        if value.is_fortran:
            head["order"] = "F"
        if isinstance(value.data, list):
            return head | {"items": self.items(value.data, way)}
        return head | {"data": _base64(value.data)}


def _type_fields(dtype: ArrayType) -> dict[str, Any]:
    if dtype.fields is None:
        return {"dtype": dtype_code(dtype)}
    fields = [[name, _type_fields(kind), offset] for name, (kind, offset) in dtype.fields.items()]
    return {"dtype": "record", "fields": fields, "num_bytes": dtype.num_bytes}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def json_line(value: Any) -> str:
    """A tagged value as one line of JSON, without its end; every JSON reader takes it."""
    try:
        text = _encode(value).decode("utf-8")
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError, RecursionError):
        # Lone surrogates and integers beyond 64 bits; slower.
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    if text.isascii() and "\x7f" not in text:
        return text
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


# --- and back -----------------------------------------------------------------------------


def untagged(value: Any, where: str) -> Any:
    """The value that was tagged.

    Args:
        value: what JSON gave; it is used up.
        where: its place, for messages.

    Raises:
        DataError: a tag is malformed, or the value nested too deeply.
    """
    return _Untagger(where).turn(value, 0)


class _Untagger:
    def __init__(self, where: str) -> None:
        self._where = where

    def turn(self, value: Any, depth: int) -> Any:
        if not isinstance(value, dict | list):
            return value
        if depth > 2 * _MAX_DEPTH:
            raise DataError("nested too deeply", where=self._where)
        if isinstance(value, list):
            for i, item in enumerate(value):
                if isinstance(item, dict | list):
                    value[i] = self.turn(item, depth + 1)
            return value
        if TAG in value:
            return self._tagged(value, depth)
        return {key: self.turn(item, depth + 1) for key, item in value.items()}

    def _tagged(self, value: dict[str, Any], depth: int) -> Any:
        kind = value[TAG]
        make = _MAKERS.get(kind) if isinstance(kind, str) else None
        try:
            if make is not None:
                return make(value)
            if kind in ("tuple", "dict") or (kind == "ndarray" and "items" in value):
                items = self.turn(_list(value["items"]), depth + 1)
                return _CONTAINERS[kind](value, items)
            if kind == "ndarray":
                return _array(value, base64.b64decode(value["data"], validate=True))
        except DataError:
            raise
        except (ValueError, TypeError, KeyError, OverflowError, TorchFileError) as error:
            raise self._malformed(kind, error) from error
        raise DataError(
            f"a value tagged {kind!r:.40}",
            where=self._where,
            expected=f"one of {', '.join(KINDS)}",
            hint="it was written by a newer version, or by hand",
        )

    def _malformed(self, kind: str, error: Exception) -> DataError:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        return DataError(f"a malformed value tagged {kind!r} ({what:.80})", where=self._where)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("items are no list")
    return value


def _float(value: dict[str, Any]) -> float:
    if value["value"] not in ("nan", "inf", "-inf"):
        raise ValueError(f"{value['value']!r:.40} is none of nan, inf, -inf")
    return float(value["value"])


def _bytes(value: dict[str, Any]) -> bytes:
    return base64.b64decode(value["data"], validate=True)


def _text(value: dict[str, Any]) -> str:
    return _bytes(value).decode("utf-8", "surrogatepass")


def _moment(value: dict[str, Any]) -> Any:
    text = value["value"]
    if not isinstance(text, str):
        raise TypeError("its value is no text")
    kind: Any = (
        datetime.datetime if "T" in text else datetime.time if ":" in text else datetime.date
    )
    moment = kind.fromisoformat(text)
    return moment.replace(fold=1) if value.get("fold") == 1 else moment


def _timedelta(value: dict[str, Any]) -> datetime.timedelta:
    return datetime.timedelta(value["days"], value["seconds"], value["microseconds"])


def _tensor(value: dict[str, Any]) -> TensorValue:
    return tensor_value(
        value["dtype"],
        _shape(value["shape"]),
        _bytes(value),
        requires_grad=value.get("requires_grad") is True,
        is_parameter=value.get("is_parameter") is True,
    )


def _array(value: dict[str, Any], data: bytes | list[Any]) -> ArrayValue | ScalarValue:
    shape = _shape(value["shape"])
    if value.get("is_scalar") is True and isinstance(data, bytes):
        return scalar_value(_array_type(value), shape, data)
    if isinstance(data, list) and len(data) != prod(shape):
        raise ValueError("the items do not fill the shape")
    return array_value(_array_type(value), shape, data, is_fortran=value.get("order") == "F")


def _array_type(value: dict[str, Any]) -> ArrayType:
    if value["dtype"] != "record":
        return array_type(value["dtype"])
    dtype = ArrayType(f"V{value['num_bytes']}", value["num_bytes"])
    dtype.take_fields({name: (_array_type(kind), at) for name, kind, at in value["fields"]})
    return dtype


def _shape(value: Any) -> tuple[int, ...]:
    if not all(type(length) is int and length >= 0 for length in value):
        raise ValueError("a shape that is none")
    return tuple(value)


def _dict(value: dict[str, Any], items: list[Any]) -> dict[Any, Any]:
    del value
    return dict(items)


def _tuple(value: dict[str, Any], items: list[Any]) -> tuple[Any, ...]:
    del value
    return tuple(items)


_MAKERS: Final[dict[str, Callable[[dict[str, Any]], Any]]] = {
    "float": _float,
    "bytes": _bytes,
    "text": _text,
    "datetime": _moment,
    "timedelta": _timedelta,
    "tensor": _tensor,
}
_CONTAINERS: Final[dict[str, Callable[[dict[str, Any], list[Any]], Any]]] = {
    "tuple": _tuple,
    "dict": _dict,
    "ndarray": _array,
}
KINDS: Final = (*_MAKERS, *_CONTAINERS)
"""Every kind of tag."""
