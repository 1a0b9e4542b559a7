"""Tensors, arrays and scalars as bytes and back, without torch or NumPy where that is possible."""

from __future__ import annotations

import re
import sys
from math import prod
from typing import Any, Final

from rolloutds.errors import TorchFileError
from rolloutds.torch_file import ArrayType, ArrayValue, ScalarValue, Storage, TensorValue
from rolloutds.torch_file.arrays import is_time_unit
from rolloutds.torch_file.dtypes import ARRAY_TYPES, TENSOR_TYPES, contiguous_strides, is_shape
from rolloutds.torch_file.scalars import scalar_of

_DTYPE: Final = re.compile(r"([<>|])([a-zA-Z])(\d+)(?:\[(\w+)\])?")
_TIMES: Final = ("M8", "m8")
_TEXT_KINDS: Final = {"U": 4, "S": 1, "V": 1}
# A view may repeat a few bytes any number of times; a file of ours holds every element.
_MAX_REPEATED_BYTES: Final = 256 << 20


def tensor_bytes(value: TensorValue) -> bytes:
    """The elements of a tensor without gaps, little endian, the last index fastest.

    Raises:
        TorchFileError: it has lazy marks (conjugated, negated), or the file is gone.
    """
    if value.bits:
        raise TorchFileError(f"{value!r} is conjugated or negated lazily")
    size = TENSOR_TYPES[value.dtype].num_bytes
    if not value.num_elements:
        return b""
    if value.num_elements * size > max(value.storage.num_bytes, _MAX_REPEATED_BYTES):
        raise TorchFileError(f"{value!r} repeats a storage of {value.storage.num_bytes} bytes")
    if value.strides == contiguous_strides(value.shape):
        data = value.storage.read(value.offset * size, value.num_elements * size)
    else:
        data = _gathered(value, size)
    return _swapped(data, value.dtype) if value.storage.is_big_endian else data


def _gathered(value: TensorValue, size: int) -> bytes:
    """The elements of a view, picked out of its storage."""
    import numpy as np

    reach = sum((n - 1) * step for n, step in zip(value.shape, value.strides, strict=True)) + 1
    data = value.storage.read(value.offset * size, reach * size)
    strides = tuple(step * size for step in value.strides)
    return np.ndarray(value.shape, dtype=f"V{size}", buffer=data, strides=strides).tobytes()


def _swapped(data: bytes, dtype: str) -> bytes:
    import numpy as np

    element = TENSOR_TYPES[dtype]
    size = element.num_bytes // len(element.code or "x")  # a complex number is two
    return np.frombuffer(data, dtype=f">u{size}").astype(f"<u{size}").tobytes()


def tensor_value(
    dtype: Any,
    shape: tuple[int, ...],
    data: bytes,
    *,
    requires_grad: bool = False,
    is_parameter: bool = False,
) -> TensorValue:
    """A tensor from such bytes.

    Raises:
        ValueError: they do not fit the type and shape.
    """
    if dtype not in TENSOR_TYPES or not is_shape(shape):
        raise ValueError("no tensor's type or shape")
    if len(data) != prod(shape) * TENSOR_TYPES[dtype].num_bytes:
        raise ValueError(f"{len(data)} bytes do not fill the shape {list(shape)}")
    return TensorValue(
        Storage.of_bytes(dtype, data),
        dtype,
        0,
        shape,
        contiguous_strides(shape),
        requires_grad=requires_grad,
        is_parameter=is_parameter,
    )


def array_value(
    dtype: ArrayType, shape: tuple[int, ...], data: bytes | list[Any], *, is_fortran: bool
) -> ArrayValue:
    """An array from its bytes or objects.

    Raises:
        TypeError: they do not fit the type and shape.
    """
    value = ArrayValue()
    value.fill(shape, dtype, data, is_fortran=is_fortran)
    return value


def dtype_code(dtype: ArrayType) -> str:
    """NumPy's code of an element type, byte order first: ``<f8``, ``|b1``, ``<U5``, ``<M8[ns]``."""
    letter = dtype.code[0]
    if letter == "O":
        return "|O8"
    count = dtype.num_bytes // _TEXT_KINDS.get(letter, 1)
    order = ">" if dtype.is_big_endian else "<"
    unit = f"[{dtype.unit}]" if dtype.unit else ""
    return f"{'|' if dtype.num_bytes == 1 or letter in 'SV' else order}{letter}{count}{unit}"


def array_type(code: Any) -> ArrayType:
    """The element type of such a code.

    Raises:
        ValueError: it is none, or one that cannot be kept.
    """
    match = _DTYPE.fullmatch(code) if isinstance(code, str) else None
    if match is None or not _is_known(f"{match[2]}{match[3]}", match[4]):
        raise ValueError(f"{code!r:.40} is no element type that is known")
    order, letter, count = match[1], match[2], int(match[3])
    num_bytes = count * _TEXT_KINDS.get(letter, 1)
    dtype = ArrayType(f"{letter}{count}", num_bytes)
    dtype.is_big_endian = order == ">"
    dtype.unit = match[4]
    return dtype


def is_element_type(dtype: ArrayType) -> bool:
    """Whether its code, or for a record those of its fields, can be read again."""
    if dtype.fields is not None:
        return all(is_element_type(kind) for kind, _ in dtype.fields.values())
    try:
        array_type(dtype_code(dtype))
    except ValueError:
        return False
    return True


def _is_known(code: str, unit: str | None) -> bool:
    if unit is not None:
        return code in _TIMES and is_time_unit(unit)
    return code in ARRAY_TYPES or code[0] in "USVO"


def scalar_value(dtype: ArrayType, shape: tuple[int, ...], data: bytes) -> ScalarValue:
    """A scalar from its bytes.

    Raises:
        TypeError: they do not fit the type and shape.
        ValueError: no scalar has that type.
    """
    found = scalar_of(dtype, data) if shape == () else None
    if found is None:
        raise ValueError(f"no scalar has the type {dtype.name} and the shape {list(shape)}")
    return found


def stand_in(value: Any) -> TensorValue | ArrayValue | ScalarValue | None:
    """The stand-in of a live tensor, array or scalar; None for anything else, and odd types."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return _of_tensor(value, torch)
    if numpy is not None and type(value) is numpy.ndarray:
        return _of_array(value)
    if numpy is not None and isinstance(value, numpy.generic):
        return _of_scalar(value)
    return None


def _of_tensor(value: Any, torch: Any) -> TensorValue | None:
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in TENSOR_TYPES or value.layout is not torch.strided:
        return None
    flat = value.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return tensor_value(
        dtype,
        tuple(value.shape),
        data,
        requires_grad=bool(value.requires_grad),
        is_parameter=isinstance(value, torch.nn.Parameter),
    )


def _of_array(value: Any) -> ArrayValue | None:
    if value.dtype.fields is not None or value.dtype.subdtype is not None:
        return None
    if _is_of_others(value.dtype):
        return None
    if value.dtype.kind == "O":
        dtype, data = ArrayType("O8", 8), value.ravel().tolist()
        return array_value(dtype, value.shape, data, is_fortran=False)
    try:
        return array_value(
            array_type(value.dtype.str), value.shape, value.tobytes(), is_fortran=False
        )
    except ValueError:
        return None


def _of_scalar(value: Any) -> ScalarValue | None:
    if value.dtype.fields is not None or _is_of_others(value.dtype):
        return None
    # NumPy gives empty text four bytes.
    data = value.tobytes()[: value.dtype.itemsize]
    try:
        return scalar_value(array_type(value.dtype.str), (), data)
    except ValueError:
        return None


def _is_of_others(dtype: Any) -> bool:
    """Whether it is no type of NumPy's own: bfloat16 of another package calls itself raw bytes."""
    return bool(dtype.isbuiltin == 2)
