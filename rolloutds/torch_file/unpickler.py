"""The unpickler: it imports nothing, and calls nothing but functions and stand-ins of ours."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Callable
from typing import IO, Any, NoReturn

from rolloutds.torch_file.archive import Archive
from rolloutds.torch_file.arrays import ArrayType, ArrayValue, flat_values
from rolloutds.torch_file.dtypes import STORAGE_TYPES, TENSOR_TYPES, is_shape
from rolloutds.torch_file.foreign import ForeignClass, ForeignObject, PlainDict, foreign_class
from rolloutds.torch_file.scalars import scalar_of
from rolloutds.torch_file.tensors import Storage, TensorValue

_MAX_CLASSES = 10_000
_SCALAR_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")


class Rebuilder:
    """A function of ours that stands for one the file names.

    It has no attribute that a file could set, and refuses to be filled.
    """

    __slots__ = ("_build", "_class_name")

    def __init__(self, class_name: str, build: Callable[..., Any]) -> None:
        self._class_name = class_name
        self._build = build

    def __call__(self, *args: Any) -> Any:
        """What our function makes of the arguments in the file."""
        value = self._build(*args)
        # A form we do not know is kept as it is written, not guessed at.
        return ForeignObject(self._class_name, args) if value is NotImplemented else value

    def __setstate__(self, state: Any) -> NoReturn:
        raise TypeError(f"{self._class_name} cannot be changed")


class SafeUnpickler(pickle.Unpickler):
    """Reads the pickle of an archive (or one without an archive) into inert values."""

    def __init__(self, stream: IO[bytes], archive: Archive | None) -> None:
        super().__init__(stream, encoding="utf-8")
        self._archive = archive
        self._named: dict[tuple[str, str], Any] = {}
        self._storages: dict[tuple[str, str], Storage] = {}

    def keep_scalars(self) -> None:
        """From now on NumPy scalars are `ScalarValue`, not the plain values they equal."""
        for module in _SCALAR_MODULES:
            self._named[module, "scalar"] = Rebuilder(f"{module}.scalar", _kept_scalar)

    def find_class(self, module: str, name: str) -> Any:
        """A function of ours, or an inert stand-in; nothing is imported."""
        known = self._named.get((module, name))
        if known is None:
            if len(self._named) >= _MAX_CLASSES:
                raise TypeError(f"names more than {_MAX_CLASSES} classes")
            build = _BUILDERS.get((module, name))
            class_name = f"{module}.{name}"
            known = Rebuilder(class_name, build) if build else foreign_class(class_name)
            self._named[module, name] = known
        return known

    def persistent_load(self, pid: Any) -> Storage:
        """The storage that a tensor looks at, its size checked against the archive."""
        if self._archive is None or not isinstance(pid, tuple) or len(pid) != 5:
            raise TypeError(f"refers to an object outside the file, of type {type(pid).__name__}")
        tag, kind, key, device, count = pid
        dtype = _storage_dtype(kind)
        if tag != "storage" or not isinstance(key, str) or not isinstance(device, str):
            raise TypeError("refers to an object outside the file that is no tensor storage")
        storage = self._storages.get((key, dtype))
        if storage is None:
            storage = self._open_storage(self._archive, key, dtype, device)
            self._storages[key, dtype] = storage
        if type(count) is not int or count * TENSOR_TYPES[dtype].num_bytes != storage.num_bytes:
            raise TypeError(f"storage {key!r} has {storage.num_bytes} bytes, not {count} {dtype}")
        return storage

    def _open_storage(self, archive: Archive, key: str, dtype: str, device: str) -> Storage:
        member = archive.storage(key)
        if member is None:
            raise TypeError(f"storage {key!r} is missing")
        return Storage(dtype, device, archive.file, member, is_big_endian=archive.is_big_endian)

    @property
    def storages(self) -> list[Storage]:
        """The storages met so far."""
        return list(self._storages.values())


def _storage_dtype(kind: Any) -> str:
    name = kind.class_name.rpartition(".")[2] if isinstance(kind, ForeignClass) else ""
    dtype = STORAGE_TYPES.get(name.removesuffix("Storage"))
    if dtype is None:
        raise TypeError(f"a tensor storage of the unknown type {name!r}")
    return dtype


# --- torch --------------------------------------------------------------------------------


def _tensor_v2(*args: Any) -> Any:
    """`_rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, hooks[, bits])`."""
    if not 6 <= len(args) <= 7 or not isinstance(args[0], Storage):
        return NotImplemented
    bits = args[6] if len(args) == 7 else None
    return _tensor(args[0], args[0].dtype, args[1:5], bits)


def _tensor_v3(*args: Any) -> Any:
    """As v2, with the element type named apart from the storage."""
    if not 7 <= len(args) <= 8 or not isinstance(args[0], Storage):
        return NotImplemented
    if not isinstance(args[6], ForeignClass):
        return NotImplemented
    dtype = args[6].class_name.removeprefix("torch.")
    if dtype not in TENSOR_TYPES:
        return NotImplemented
    return _tensor(args[0], dtype, args[1:5], args[7] if len(args) == 8 else None)


def _tensor(storage: Storage, dtype: str, view: tuple[Any, ...], bits: Any) -> TensorValue:
    offset, shape, strides, requires_grad = view
    if not is_shape(shape) or not is_shape(strides) or len(shape) != len(strides):
        raise TypeError("a tensor whose shape and strides do not fit each other")
    if type(offset) is not int or offset < 0:
        raise TypeError("a tensor with an impossible offset")
    if bits is not None and not (isinstance(bits, dict) and set(bits) <= {"conj", "neg"}):
        raise TypeError("a tensor with unknown marks")
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if 0 not in shape and (last + 1) * TENSOR_TYPES[dtype].num_bytes > storage.num_bytes:
        raise TypeError(f"a tensor of shape {shape} in a storage of {storage.num_bytes} bytes")
    marks = {key: bool(value) for key, value in (bits or {}).items()}
    return TensorValue(
        storage, dtype, offset, shape, strides, requires_grad=bool(requires_grad), bits=marks
    )


def _parameter(*args: Any) -> Any:
    if not 3 <= len(args) <= 4 or not isinstance(args[0], TensorValue):
        return NotImplemented
    value = args[0]
    return TensorValue(
        *(value.storage, value.dtype, value.offset, value.shape, value.strides),
        requires_grad=bool(args[1]),
        is_parameter=True,
        bits=value.bits,
    )


def _size(*args: Any) -> Any:
    return args[0] if len(args) == 1 and isinstance(args[0], tuple) else NotImplemented


# --- NumPy --------------------------------------------------------------------------------


def _array(*args: Any) -> Any:
    """`_reconstruct(ndarray, (0,), b"b")`; the contents follow as its state."""
    is_ndarray = len(args) == 3 and isinstance(args[0], ForeignClass)
    return ArrayValue() if is_ndarray and args[0].class_name == "numpy.ndarray" else NotImplemented


def _array_from_buffer(*args: Any) -> Any:
    if len(args) != 4 or args[3] not in ("C", "F"):
        return NotImplemented
    data, dtype, shape, order = args
    value = ArrayValue()
    value.fill(
        shape,
        dtype,
        bytes(data) if isinstance(data, bytearray) else data,
        is_fortran=order == "F",
    )
    return value


def _array_type(*args: Any) -> Any:
    if not args or not isinstance(args[0], str) or not args[0][:1].isalpha():
        return NotImplemented
    digits = args[0][1:]
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
        return NotImplemented
    size = int(digits)
    return ArrayType(args[0], size * 4 if args[0][0] == "U" else size)


def _scalar(*args: Any) -> Any:
    """A NumPy scalar, as the Python value it is equal to."""
    if len(args) != 2 or not isinstance(args[0], ArrayType) or not isinstance(args[1], bytes):
        return NotImplemented
    dtype, data = args
    if dtype.num_bytes == 0 and not data:
        return {"U": "", "S": b""}.get(dtype.code[0], NotImplemented)
    if len(data) != dtype.num_bytes:
        raise TypeError(f"a NumPy scalar {dtype.code} of {len(data)} bytes")
    values = flat_values(dtype, data)
    return NotImplemented if values is None else values[0]


def _kept_scalar(*args: Any) -> Any:
    """A NumPy scalar, which still knows its type."""
    if len(args) != 2 or not isinstance(args[0], ArrayType) or not isinstance(args[1], bytes):
        return NotImplemented
    found = scalar_of(*args)
    return NotImplemented if found is None else found


# --- the standard library -----------------------------------------------------------------


def _encode(*args: Any) -> Any:
    """Bytes in protocol 2: text of the characters 0 to 255."""
    if len(args) != 2 or not isinstance(args[0], str) or args[1] not in ("latin1", "latin-1"):
        return NotImplemented
    return args[0].encode("latin-1")


def _getattr(*args: Any) -> Any:
    """How protocols below 4 name a nested class or a member of an enum."""
    is_member = len(args) == 2 and isinstance(args[0], ForeignClass) and isinstance(args[1], str)
    return args[0].member(args[1]) if is_member else NotImplemented


def _bytes(*args: Any) -> Any:
    return b"" if not args else NotImplemented


def _bytearray(*args: Any) -> Any:
    if not args:
        return bytearray()
    if len(args) == 2 and isinstance(args[0], str) and args[1] in ("latin1", "latin-1"):
        return bytearray(args[0].encode("latin-1"))
    is_bytes = len(args) == 1 and isinstance(args[0], bytes)
    return bytearray(args[0]) if is_bytes else NotImplemented


def _set(*args: Any) -> Any:
    return set(args[0]) if _is_one_list(args) else NotImplemented


def _frozenset(*args: Any) -> Any:
    return frozenset(args[0]) if _is_one_list(args) else NotImplemented


def _is_one_list(args: tuple[Any, ...]) -> bool:
    return len(args) == 1 and isinstance(args[0], list | tuple)


def _complex(*args: Any) -> Any:
    are_floats = len(args) == 2 and all(type(part) is float for part in args)
    return complex(*args) if are_floats else NotImplemented


def _ordered_dict(*args: Any) -> Any:
    if not args:
        return PlainDict()
    if len(args) == 1 and isinstance(args[0], dict):
        return PlainDict(args[0])
    if len(args) == 1 and isinstance(args[0], list):
        return PlainDict([(key, value) for key, value in args[0]])
    return NotImplemented


def _default_dict(*args: Any) -> Any:
    return PlainDict() if len(args) <= 1 else NotImplemented


def _reconstructor(*args: Any) -> Any:
    """How protocols 0 and 1 make objects: class, base, state of the base."""
    if len(args) != 3 or not isinstance(args[0], ForeignClass):
        return NotImplemented
    return ForeignObject(args[0].class_name, () if args[2] is None else (args[2],))


def _new_object(*args: Any) -> Any:
    if not args or not isinstance(args[0], ForeignClass):
        return NotImplemented
    return ForeignObject(args[0].class_name, args[1:])


def _datetime(*args: Any) -> Any:
    if not _is_packed(args, 10):
        return NotImplemented
    raw, zone = args[0], args[1] if len(args) == 2 else None
    # The month carries the mark of the second of two equal local times.
    year, microsecond = int.from_bytes(raw[:2], "big"), int.from_bytes(raw[7:10], "big")
    month, fold = raw[2] & 0x7F, raw[2] >> 7
    return datetime.datetime(
        year, month, raw[3], raw[4], raw[5], raw[6], microsecond, tzinfo=zone, fold=fold
    )


def _date(*args: Any) -> Any:
    if len(args) != 1 or not isinstance(args[0], bytes) or len(args[0]) != 4:
        return NotImplemented
    raw = args[0]
    return datetime.date(int.from_bytes(raw[:2], "big"), raw[2], raw[3])


def _time(*args: Any) -> Any:
    if not _is_packed(args, 6):
        return NotImplemented
    raw, zone = args[0], args[1] if len(args) == 2 else None
    hour, fold, microsecond = raw[0] & 0x7F, raw[0] >> 7, int.from_bytes(raw[3:6], "big")
    return datetime.time(hour, raw[1], raw[2], microsecond, tzinfo=zone, fold=fold)


def _is_packed(args: tuple[Any, ...], num_bytes: int) -> bool:
    if not 1 <= len(args) <= 2 or not isinstance(args[0], bytes) or len(args[0]) != num_bytes:
        return False
    return len(args) == 1 or isinstance(args[1], datetime.timezone)


def _timedelta(*args: Any) -> Any:
    are_ints = len(args) == 3 and all(type(part) is int for part in args)
    return datetime.timedelta(*args) if are_ints else NotImplemented


def _timezone(*args: Any) -> Any:
    if not 1 <= len(args) <= 2 or not isinstance(args[0], datetime.timedelta):
        return NotImplemented
    if len(args) == 2 and not isinstance(args[1], str):
        return NotImplemented
    is_utc = len(args) == 1 and not args[0]
    return datetime.UTC if is_utc else datetime.timezone(*args)


_BUILDERS: dict[tuple[str, str], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor_v2,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor_v3,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
    ("torch", "Size"): _size,
    ("_codecs", "encode"): _encode,
    ("collections", "OrderedDict"): _ordered_dict,
    ("collections", "Counter"): _ordered_dict,
    ("collections", "defaultdict"): _default_dict,
    ("copyreg", "_reconstructor"): _reconstructor,
    ("copy_reg", "_reconstructor"): _reconstructor,
    ("copyreg", "__newobj__"): _new_object,
    ("datetime", "datetime"): _datetime,
    ("datetime", "date"): _date,
    ("datetime", "time"): _time,
    ("datetime", "timedelta"): _timedelta,
    ("datetime", "timezone"): _timezone,
    ("numpy", "dtype"): _array_type,
}
for _module in ("builtins", "__builtin__"):
    _BUILDERS |= {
        (_module, "getattr"): _getattr,
        (_module, "bytes"): _bytes,
        (_module, "bytearray"): _bytearray,
        (_module, "set"): _set,
        (_module, "frozenset"): _frozenset,
        (_module, "complex"): _complex,
    }
for _module in _SCALAR_MODULES:
    _BUILDERS[_module, "scalar"] = _scalar
for _module in ("numpy.core", "numpy._core"):
    _BUILDERS |= {
        (f"{_module}.multiarray", "_reconstruct"): _array,
        (f"{_module}.numeric", "_frombuffer"): _array_from_buffer,
    }
