"""Element types of tensors and arrays: size in bytes, and how `struct` reads one."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from rolloutds.errors import TorchFileError

_MAX_LISTED = 1 << 20


class ElementType(NamedTuple):
    """One element type.

    Attributes:
        num_bytes: size of one element.
        code: its `struct` code, doubled for complex numbers; None when only torch can read it.
    """

    num_bytes: int
    code: str | None


# By torch's name. bfloat16 has no struct code and is read by hand.
TENSOR_TYPES: dict[str, ElementType] = {
    "float64": ElementType(8, "d"),
    "float32": ElementType(4, "f"),
    "float16": ElementType(2, "e"),
    "bfloat16": ElementType(2, "H"),
    "complex32": ElementType(4, "ee"),
    "complex64": ElementType(8, "ff"),
    "complex128": ElementType(16, "dd"),
    "int64": ElementType(8, "q"),
    "int32": ElementType(4, "i"),
    "int16": ElementType(2, "h"),
    "int8": ElementType(1, "b"),
    "uint64": ElementType(8, "Q"),
    "uint32": ElementType(4, "I"),
    "uint16": ElementType(2, "H"),
    "uint8": ElementType(1, "B"),
    "bool": ElementType(1, "?"),
    **{
        name: ElementType(1, None)
        for name in (
            "float8_e4m3fn",
            "float8_e4m3fnuz",
            "float8_e5m2",
            "float8_e5m2fnuz",
            "float8_e8m0fnu",
            "float4_e2m1fn_x2",
            "bits8",
        )
    },
}

# The class a storage is saved under, without its "Storage".
STORAGE_TYPES: dict[str, str] = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "Untyped": "uint8",
}

# By NumPy's kind and size.
ARRAY_TYPES: dict[str, ElementType] = {
    "f8": TENSOR_TYPES["float64"],
    "f4": TENSOR_TYPES["float32"],
    "f2": TENSOR_TYPES["float16"],
    "c8": TENSOR_TYPES["complex64"],
    "c16": TENSOR_TYPES["complex128"],
    "i8": TENSOR_TYPES["int64"],
    "i4": TENSOR_TYPES["int32"],
    "i2": TENSOR_TYPES["int16"],
    "i1": TENSOR_TYPES["int8"],
    "u8": TENSOR_TYPES["uint64"],
    "u4": TENSOR_TYPES["uint32"],
    "u2": TENSOR_TYPES["uint16"],
    "u1": TENSOR_TYPES["uint8"],
    "b1": TENSOR_TYPES["bool"],
}


def unpack(data: bytes | memoryview, code: str, *, big_endian: bool) -> list[Any]:
    """All elements of `data`, whose length is a multiple of the element's."""
    order = ">" if big_endian else "<"
    count = len(data) // struct.calcsize(order + code)
    numbers = struct.unpack(f"{order}{count * len(code)}{code[0]}", data)
    if len(code) == 2:
        return [complex(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
    return list(numbers)


def bfloat16_to_float(halves: list[int]) -> list[float]:
    """The upper halves of float32 numbers, as numbers."""
    words = [half << 16 for half in halves]
    return list(struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *words)))


def strided(
    flat: list[Any], shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0
) -> Any:
    """`flat` as nested lists; strides and offset count elements."""
    if not shape:
        return flat[offset]
    step = strides[0]
    nest: Callable[[int], Any] = (
        flat.__getitem__
        if len(shape) == 1
        else lambda start: strided(flat, shape[1:], strides[1:], start)
    )
    return [nest(offset + i * step) for i in range(shape[0])]


def contiguous_strides(shape: tuple[int, ...], *, fortran: bool = False) -> tuple[int, ...]:
    """Strides in elements of an array without gaps; the last index runs fastest, or the first."""
    strides, step = [], 1
    for length in shape if fortran else reversed(shape):
        strides.append(step)
        step *= length
    return tuple(strides if fortran else reversed(strides))


def is_shape(value: Any) -> bool:
    """Whether it is a tuple of lengths that an array can have."""
    return (
        isinstance(value, tuple)
        and len(value) <= 64
        and all(type(n) is int and 0 <= n < 1 << 63 for n in value)
    )


def check_listed(value: Any, count: int) -> None:
    """Refuses to make a Python list of more than 1,048,576 elements."""
    if count > _MAX_LISTED:
        raise TorchFileError(
            f"{value!r} is too large to list ({count} elements)",
            expected=f"at most {_MAX_LISTED}",
            hint="use to_torch() or to_numpy()",
        )
