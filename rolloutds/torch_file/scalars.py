"""NumPy scalars of a file: numbers and text as any other, which know their NumPy type."""

from __future__ import annotations

import struct
from typing import Any, ClassVar, Literal, NoReturn, Self

from rolloutds.torch_file.arrays import ArrayType, ArrayValue, flat_values
from rolloutds.torch_file.dtypes import ARRAY_TYPES


class ScalarValue:
    """A NumPy scalar of the file, without NumPy.

    It is a `PlainScalar`, or an `OpaqueScalar` where no Python value equals it. Neither can be
    changed.
    """

    __slots__ = ()

    @property
    def dtype(self) -> ArrayType:
        """Its element type."""
        raise NotImplementedError

    @property
    def data(self) -> bytes:
        """Its bytes, in the order that `dtype` says."""
        raise NotImplementedError

    def to_numpy(self) -> Any:
        """The scalar itself."""
        return _zero_dimensional(self).to_numpy()[()]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return scalar_of, (self.dtype, self.data)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()

    def __setstate__(self, state: Any) -> NoReturn:
        raise TypeError("a NumPy scalar takes no state")


def _zero_dimensional(scalar: ScalarValue) -> ArrayValue:
    array = ArrayValue()
    array.fill((), scalar.dtype, scalar.data, is_fortran=False)
    return array


class PlainScalar(ScalarValue):
    """A number, text or bytes.

    It is of a subclass of the Python class too, so it compares, sorts and calculates as what it
    equals; NumPy's truths are whole numbers here, 0 and 1, that are spelled as truths.
    """

    __slots__ = ()

    def tolist(self) -> Any:
        """The Python value it equals, of a plain type."""
        raise NotImplementedError

    def item(self) -> Any:
        """As `tolist`: NumPy has both."""
        return self.tolist()


class _Number(PlainScalar):
    __slots__ = ()

    code: ClassVar[str]
    plain: ClassVar[Any]

    @property
    def dtype(self) -> ArrayType:
        return ArrayType(self.code, ARRAY_TYPES[self.code].num_bytes)

    @property
    def data(self) -> bytes:
        value = self.tolist()
        parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
        return struct.pack(f"<{ARRAY_TYPES[self.code].code}", *parts)

    def tolist(self) -> Any:
        return self.plain(self)


class _Truth(_Number, int):
    __slots__ = ()

    def __repr__(self) -> str:
        return repr(bool(self))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(bool(self), spec)


class _Text(PlainScalar, str):
    __slots__ = ()

    @property
    def dtype(self) -> ArrayType:
        return ArrayType(f"U{len(self)}", 4 * len(self))

    @property
    def data(self) -> bytes:
        return self.encode("utf-32-le", "surrogatepass")

    def tolist(self) -> str:
        return str(self)

    def to_numpy(self) -> Any:
        import numpy as np

        return np.str_(str(self))


class _Bytes(PlainScalar, bytes):
    __slots__ = ()

    @property
    def dtype(self) -> ArrayType:
        return ArrayType(f"S{len(self)}", len(self))

    @property
    def data(self) -> bytes:
        return self.tolist()

    def tolist(self) -> bytes:
        return bytes(memoryview(self))  # bytes(self) may be this very object

    def to_numpy(self) -> Any:
        import numpy as np

        return np.bytes_(self.tolist())


class OpaqueScalar(ScalarValue):
    """A time, a duration, raw bytes or a record: a scalar that no plain value equals."""

    __slots__ = ("_data", "_dtype")

    def __init__(self, dtype: ArrayType, data: bytes) -> None:
        dtype.is_sealed = True  # its size must stay what was checked
        self._dtype = dtype
        self._data = data

    @property
    def dtype(self) -> ArrayType:
        """Its element type."""
        return self._dtype

    @property
    def data(self) -> bytes:
        """Its bytes, in the order that `dtype` says."""
        return self._data

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpaqueScalar):
            return NotImplemented
        return (_signature(self._dtype), self._data) == (_signature(other._dtype), other._data)

    def __hash__(self) -> int:
        return hash((self._dtype.name, self._data))

    def __repr__(self) -> str:
        if self._dtype.fields is not None or self._dtype.code[0] == "V":
            return f"<scalar {self._dtype.name}>"
        order: Literal["big", "little"] = "big" if self._dtype.is_big_endian else "little"
        count = int.from_bytes(self._data, order, signed=True)
        return f"<scalar {self._dtype.name} {'NaT' if count == -(1 << 63) else count}>"


def _signature(dtype: ArrayType) -> tuple[Any, ...]:
    fields = (dtype.fields or {}).items()
    parts = tuple((name, _signature(kind), offset) for name, (kind, offset) in fields)
    return dtype.name, dtype.num_bytes, dtype.is_big_endian, parts


def _class(name: str, code: str, base: type, plain: Any) -> type:
    bases = (base,) if issubclass(base, ScalarValue) else (_Number, base)
    body = {"__slots__": (), "__module__": __name__, "code": code, "plain": plain}
    return type(name, bases, body)


_NUMBERS: dict[str, Any] = {"b1": _class("bool", "b1", _Truth, bool)}
for _letter, _name, _base in (("i", "int", int), ("u", "uint", int)):
    for _size in (1, 2, 4, 8):
        _code = f"{_letter}{_size}"
        _NUMBERS[_code] = _class(f"{_name}{8 * _size}", _code, _base, int)
for _size in (2, 4, 8):
    _NUMBERS[f"f{_size}"] = _class(f"float{8 * _size}", f"f{_size}", float, float)
for _size in (8, 16):
    _NUMBERS[f"c{_size}"] = _class(f"complex{8 * _size}", f"c{_size}", complex, complex)


def scalar_of(dtype: ArrayType, data: bytes) -> ScalarValue | None:
    """The scalar of some type with these bytes; None for types that are not known.

    Raises:
        TypeError: the bytes do not fit the type.
        ValueError: they are no text.
    """
    if len(data) != dtype.num_bytes:
        raise TypeError(f"a NumPy scalar {dtype.code} of {len(data)} bytes")
    letter = dtype.code[:1]
    if dtype.fields is None and letter in ("U", "S"):
        values = flat_values(dtype, data) if data else None
        value = values[0] if values else None
        return _Text(value or "") if letter == "U" else _Bytes(value or b"")
    number = _NUMBERS.get(dtype.code) if dtype.fields is None else None
    if number is not None:
        values = flat_values(dtype, data)
        return number(values[0]) if values else None
    is_time = dtype.code in ("M8", "m8") and dtype.num_bytes == 8 and dtype.fields is None
    return OpaqueScalar(dtype, data) if is_time or (letter == "V" and data) else None
