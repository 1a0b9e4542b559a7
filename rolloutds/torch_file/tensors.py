"""Tensors of a file: what they are, and their numbers, with torch or without."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping
from math import prod
from typing import Any, NoReturn

from rolloutds.errors import MissingExtraError, TorchFileError
from rolloutds.torch_file.archive import Member, OpenFile
from rolloutds.torch_file.dtypes import (
    TENSOR_TYPES,
    bfloat16_to_float,
    check_listed,
    strided,
    unpack,
)


class Storage:
    """The bytes that one or more tensors look at, read from the file when asked for.

    Attributes:
        dtype: the element type it was saved under.
        device: where it was, for example ``cuda:0``.
        num_bytes: its size.
    """

    __slots__ = (
        "_crc",
        "_file",
        "_held",
        "_start",
        "device",
        "dtype",
        "is_big_endian",
        "num_bytes",
    )

    def __init__(
        self, dtype: str, device: str, file: OpenFile, member: Member, *, is_big_endian: bool
    ) -> None:
        self.dtype = dtype
        self.device = device
        self.num_bytes = member.num_bytes
        self.is_big_endian = is_big_endian
        self._file: OpenFile | None = file
        self._start = member.start
        self._crc = member.crc
        self._held: bytes | None = None

    @classmethod
    def of_bytes(
        cls, dtype: str, data: bytes, *, device: str = "cpu", is_big_endian: bool = False
    ) -> Storage:
        """A storage of bytes at hand, of no file."""
        storage = cls.__new__(cls)
        storage.dtype, storage.device, storage.is_big_endian = dtype, device, is_big_endian
        storage.num_bytes, storage._start, storage._crc = len(data), 0, 0
        storage._file, storage._held = None, data
        return storage

    def read(self, start: int = 0, num_bytes: int | None = None) -> bytes:
        """Bytes of the storage; all of it by default.

        Raises:
            TorchFileError: the file became shorter, or all bytes do not match their checksum.
        """
        count = self.num_bytes - start if num_bytes is None else num_bytes
        if self._held is not None or self._file is None:
            return (self._held or b"")[start : start + count]
        data = self._file.pread(self._start + start, count)
        # Writers may leave the checksum out (0).
        if count == self.num_bytes and self._crc and zlib.crc32(data) != self._crc:
            raise self._file.refusal(
                "the bytes of a tensor do not match their checksum",
                hint="the file is damaged; copy it again or use an earlier one",
            )
        return data

    def hold(self) -> None:
        """Reads the bytes now, so that the file is no longer needed."""
        self._held = self.read()
        self._file = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Storage:
        return self

    def __setstate__(self, state: Any) -> NoReturn:
        raise TypeError("a storage takes no further state")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_storage, (self.dtype, self.device, self.read(), self.is_big_endian)


def _rebuild_storage(dtype: str, device: str, data: bytes, is_big_endian: bool) -> Storage:  # noqa: FBT001 - called by pickle
    return Storage.of_bytes(dtype, data, device=device, is_big_endian=is_big_endian)


class TensorValue:
    """A tensor of the file, without torch.

    Attributes:
        dtype: torch's name of the element type, for example ``bfloat16``.
        shape: its lengths.
        strides: steps between neighbours, in elements.
        offset: its first element in the storage, in elements.
        storage: the bytes; tensors that shared them still do.
        requires_grad: as saved.
        is_parameter: whether it was a `torch.nn.Parameter`.
        bits: torch's lazy marks (``conj``, ``neg``), almost always empty.
    """

    __slots__ = (
        *("bits", "dtype", "is_parameter", "offset"),
        *("requires_grad", "shape", "storage", "strides"),
    )

    def __init__(
        self,
        storage: Storage,
        dtype: str,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        *,
        requires_grad: bool = False,
        is_parameter: bool = False,
        bits: Mapping[str, bool] | None = None,
    ) -> None:
        self.storage = storage
        self.dtype = dtype
        self.offset = offset
        self.shape = shape
        self.strides = strides
        self.requires_grad = requires_grad
        self.is_parameter = is_parameter
        self.bits = dict(bits or {})

    @property
    def device(self) -> str:
        """Where it was when it was saved."""
        return self.storage.device

    @property
    def num_elements(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    def tolist(self) -> Any:
        """Its numbers as nested lists (a single one for shape ``()``), without torch.

        Raises:
            TorchFileError: it has more than 1,048,576 elements, or numbers only torch can read.
        """
        element = TENSOR_TYPES[self.dtype]
        if element.code is None or self.bits:
            raise TorchFileError(
                f"{self!r} has numbers that only torch can read", hint="use to_torch()"
            )
        check_listed(self, self.num_elements)
        if not self.num_elements:
            return strided([], self.shape, self.strides)
        reach = sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)) + 1
        # A view with wide gaps may reach over far more than it has.
        check_listed(self, reach)
        data = self.storage.read(self.offset * element.num_bytes, reach * element.num_bytes)
        if self.dtype == "bool":
            flat: list[Any] = [byte != 0 for byte in data]
        else:
            flat = unpack(data, element.code, big_endian=self.storage.is_big_endian)
        if self.dtype == "bfloat16":
            flat = bfloat16_to_float(flat)
        return strided(flat, self.shape, self.strides)

    def to_torch(self) -> Any:
        """The tensor itself, on the CPU.

        Raises:
            MissingExtraError: torch is not installed.
        """
        return TensorMaker().tensor(self)

    def __setstate__(self, state: Any) -> NoReturn:
        raise TypeError("a tensor takes no further state")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_tensor, (
            *(self.storage, self.dtype, self.offset, self.shape, self.strides),
            *(self.requires_grad, self.is_parameter, self.bits),
        )

    def __repr__(self) -> str:
        return f"<tensor {self.dtype} {list(self.shape)}>"


def _rebuild_tensor(*parts: Any) -> TensorValue:
    *main, requires_grad, is_parameter, bits = parts
    return TensorValue(*main, requires_grad=requires_grad, is_parameter=is_parameter, bits=bits)


class TensorMaker:
    """Makes tensors; those that shared a storage share it again."""

    def __init__(self) -> None:
        self._torch = load_torch(needed_for="a tensor in a .pt file")
        self._bytes: dict[int, tuple[Storage, Any]] = {}

    def tensor(self, value: TensorValue) -> Any:
        """The tensor, on the CPU."""
        torch = self._torch
        dtype = getattr(torch, value.dtype)
        tensor = torch.empty((0,), dtype=dtype)
        tensor.set_(self._storage(value), value.offset, value.shape, value.strides)
        if value.bits:
            torch._C._set_tensor_metadata(tensor, value.bits)
        if value.is_parameter:
            return torch.nn.Parameter(tensor, requires_grad=value.requires_grad)
        return tensor.requires_grad_(value.requires_grad)

    def _storage(self, value: TensorValue) -> Any:
        storage = value.storage
        known = self._bytes.get(id(storage))
        if known is None:
            # bytearray: torch wants bytes it may write to.
            flat = (
                self._torch.frombuffer(bytearray(storage.read()), dtype=self._torch.uint8)
                if storage.num_bytes
                else self._torch.empty(0, dtype=self._torch.uint8)
            )
            untyped = flat.untyped_storage()
            if storage.is_big_endian != (sys.byteorder == "big"):
                untyped.byteswap(getattr(self._torch, value.dtype))
            known = self._bytes[id(storage)] = (storage, untyped)
        return known[1]


def require_torch(*, needed_for: str) -> None:
    """Makes sure that torch is installed, without loading it.

    Raises:
        MissingExtraError: it is not.
    """
    from importlib.util import find_spec

    try:
        is_there = sys.modules.get("torch") is not None or find_spec("torch") is not None
    except ValueError:  # a module without a spec, put there by hand
        is_there = False
    if not is_there:
        raise MissingExtraError("torch", extra="torch", needed_for=needed_for)


def load_torch(*, needed_for: str) -> Any:
    """The torch module.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("torch", extra="torch", needed_for=needed_for) from error
    return torch
