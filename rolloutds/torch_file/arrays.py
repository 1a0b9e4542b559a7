"""NumPy arrays of a file: what they are, and their values, with NumPy or without."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any, Literal

from rolloutds.errors import TorchFileError
from rolloutds.torch_file.dtypes import (
    ARRAY_TYPES,
    check_listed,
    contiguous_strides,
    is_shape,
    strided,
    unpack,
)

_TIMES = {"M8": "datetime64", "m8": "timedelta64"}
_UNIT = re.compile(r"(?:[1-9][0-9]{0,8})?(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)")


class ArrayType:
    """A NumPy dtype of the file.

    Attributes:
        code: kind and size, for example ``f8`` or ``U5``; ``V16`` for records.
        is_big_endian: byte order of its numbers.
        unit: what times and durations count, for example ``ns`` or ``25us``; None for others.
        is_sealed: whether it is in use and can take no further state.
        num_bytes: size of one element.
        fields: names, types and byte offsets of a record's fields; None for anything else.
    """

    __slots__ = ("code", "fields", "is_big_endian", "is_sealed", "num_bytes", "unit")

    def __init__(self, code: str, num_bytes: int) -> None:
        self.code = code
        self.num_bytes = num_bytes
        self.is_big_endian = False
        self.unit: str | None = None
        self.is_sealed = False
        self.fields: dict[str, tuple[ArrayType, int]] | None = None

    def __setstate__(self, state: Any) -> None:
        """Takes what a pickled dtype says of itself: byte order, fields, size, unit."""
        if not isinstance(state, tuple) or len(state) < 7 or state[2] is not None:
            raise TypeError("not a NumPy dtype")
        if self.is_sealed:
            raise TypeError("a NumPy dtype that changes after its use")
        _, order, _, names, fields, num_bytes = state[:6]
        if order not in ("<", ">", "|", "="):
            raise TypeError("not a NumPy dtype")
        self.is_big_endian = order == ">"
        if isinstance(num_bytes, int) and num_bytes >= 0:
            self.num_bytes = num_bytes
        if names is not None:
            self.take_fields({name: fields[name][:2] for name in names})
        if self.code in _TIMES:
            self.unit = _unit(state[8:])
        self.is_sealed = True

    def take_fields(self, fields: Mapping[Any, Any]) -> None:
        """Makes it the type of a record: names, each with a type and the byte it begins at.

        Raises:
            TypeError: they are none, or do not lie inside the record.
        """
        for name, (kind, offset) in fields.items():
            if type(name) is not str or not isinstance(kind, ArrayType) or type(offset) is not int:
                raise TypeError("not a NumPy record type")
            if not 0 <= offset <= self.num_bytes - kind.num_bytes:
                raise TypeError("a NumPy record with a field beyond its end")
            kind.is_sealed = True  # its size must stay what was checked
        self.fields = {name: (kind, offset) for name, (kind, offset) in fields.items()}

    def numpy_dtype(self) -> Any:
        """The dtype itself."""
        import numpy as np

        if self.fields is not None:
            parts = self.fields.values()
            return np.dtype(
                {
                    "names": list(self.fields),
                    "formats": [kind.numpy_dtype() for kind, _ in parts],
                    "offsets": [offset for _, offset in parts],
                    "itemsize": self.num_bytes,
                }
            )
        letter = self.code[0]
        count = self.num_bytes // 4 if letter == "U" else self.num_bytes
        code = f"{letter}{count}" if letter in "USV" else self.code
        code += f"[{self.unit}]" if self.unit else ""
        return np.dtype(code).newbyteorder(">" if self.is_big_endian else "<")

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: getattr(self, name) for name in ("is_big_endian", "fields", "unit")}
        return _rebuild_array_type, (self.code, self.num_bytes, state)

    @property
    def name(self) -> str:
        """How it is shown: its code, and NumPy's name for times: ``datetime64[ns]``."""
        if self.code not in _TIMES:
            return self.code
        return _TIMES[self.code] + (f"[{self.unit}]" if self.unit else "")

    def __repr__(self) -> str:
        return f"<dtype {self.name}>"


def _rebuild_array_type(code: str, num_bytes: int, state: dict[str, Any]) -> ArrayType:
    value = ArrayType(code, num_bytes)
    for name, part in state.items():
        setattr(value, name, part)
    value.is_sealed = True
    return value


def is_time_unit(unit: str) -> bool:
    """Whether it is one NumPy has, with a number before it that may be left out."""
    return _UNIT.fullmatch(unit) is not None


def _unit(rest: tuple[Any, ...]) -> str | None:
    """The unit in the last part of a pickled dtype: ``(metadata, (name, count, parts, events))``."""
    try:
        ((_, (name, count, parts, _)),) = rest
        unit = f"{'' if count == 1 else count}{name.decode('ascii')}"
    except (TypeError, ValueError, AttributeError) as error:
        raise TypeError("not a NumPy type of times") from error
    if unit == "generic":
        return None
    if parts != 1 or not is_time_unit(unit):
        raise TypeError("not a NumPy type of times")
    return unit


class ArrayValue:
    """A NumPy array of the file, without NumPy.

    Attributes:
        dtype: its element type.
        shape: its lengths.
        is_fortran: whether the first index runs fastest.
        data: its bytes; for arrays of objects the list of them.
    """

    __slots__ = ("data", "dtype", "is_fortran", "shape")

    def __init__(self) -> None:
        self.dtype = ArrayType("u1", 1)
        self.shape: tuple[int, ...] = (0,)
        self.is_fortran = False
        self.data: bytes | list[Any] = b""

    def __setstate__(self, state: Any) -> None:
        """Takes what a pickled array says of itself, and checks that the sizes agree."""
        if not isinstance(state, tuple) or len(state) != 5:
            raise TypeError("not a NumPy array")
        if self.dtype.is_sealed:
            raise TypeError("a NumPy array that changes after its use")
        _, shape, dtype, is_fortran, data = state
        self.fill(shape, dtype, data, is_fortran=bool(is_fortran))

    def fill(self, shape: Any, dtype: Any, data: Any, *, is_fortran: bool) -> None:
        """Takes the contents.

        Raises:
            TypeError: they do not fit each other.
        """
        if not isinstance(dtype, ArrayType) or not is_shape(shape):
            raise TypeError("not a NumPy array")
        if dtype.code.startswith("O"):
            if not isinstance(data, list) or len(data) != prod(shape):
                raise TypeError(f"an array of shape {shape} with other contents")
        elif not isinstance(data, bytes) or len(data) != prod(shape) * dtype.num_bytes:
            raise TypeError(f"an array of shape {shape} with other contents")
        self.dtype, self.shape, self.data, self.is_fortran = dtype, shape, data, is_fortran
        self.dtype.is_sealed = True

    @property
    def num_elements(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    def tolist(self) -> Any:
        """Its values as nested lists (a single one for shape ``()``), without NumPy.

        Raises:
            TorchFileError: it has more than 1,048,576 elements, or values only NumPy can read.
        """
        check_listed(self, self.num_elements)
        flat = flat_values(self.dtype, self.data)
        if flat is None:
            raise TorchFileError(
                f"{self!r} has values that only NumPy can read", hint="use to_numpy()"
            )
        return strided(flat, self.shape, contiguous_strides(self.shape, fortran=self.is_fortran))

    def with_objects(self, data: list[Any]) -> ArrayValue:
        """The same array with other objects, as many."""
        value = ArrayValue()
        value.fill(self.shape, self.dtype, data, is_fortran=self.is_fortran)
        return value

    def to_numpy(self) -> Any:
        """The array itself, writable and apart from this object."""
        import numpy as np

        order: Literal["C", "F"] = "F" if self.is_fortran else "C"
        if isinstance(self.data, list):
            flat = np.empty(len(self.data), dtype=object)
            for i, value in enumerate(self.data):
                flat[i] = value
            return flat.reshape(self.shape, order=order)
        flat = np.frombuffer(self.data, dtype=self.dtype.numpy_dtype(), count=self.num_elements)
        return flat.reshape(self.shape, order=order).copy(order="K")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_array, (self.shape, self.dtype, self.is_fortran, self.data)

    def __repr__(self) -> str:
        return f"<array {self.dtype.name} {list(self.shape)}>"


def _rebuild_array(shape: Any, dtype: Any, is_fortran: bool, data: Any) -> ArrayValue:  # noqa: FBT001 - called by pickle
    value = ArrayValue()
    value.fill(shape, dtype, data, is_fortran=is_fortran)
    return value


def flat_values(dtype: ArrayType, data: bytes | list[Any]) -> list[Any] | None:
    """The elements as Python values; None for types that only NumPy can read."""
    if isinstance(data, list):
        return data
    size, kind = dtype.num_bytes, dtype.code[0]
    element = ARRAY_TYPES.get(dtype.code)
    if element is not None and element.code is not None and size == element.num_bytes:
        if dtype.code == "b1":
            return [byte != 0 for byte in data]
        return unpack(data, element.code, big_endian=dtype.is_big_endian)
    if kind not in "US" or size == 0 or dtype.fields is not None:
        return None
    cells = [data[i : i + size] for i in range(0, len(data), size)]
    if kind == "S":
        return [cell.rstrip(b"\0") for cell in cells]
    encoding = "utf-32-be" if dtype.is_big_endian else "utf-32-le"
    return [cell.decode(encoding, "surrogatepass").rstrip("\0") for cell in cells]
