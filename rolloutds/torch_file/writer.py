"""Writing a `.pt` file: plain values only, and whole or not at all."""

from __future__ import annotations

import contextlib
import enum
import fcntl
import io
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from rolloutds.errors import CheckpointError, UnsavableValueError
from rolloutds.torch_file.foreign import PlainDict
from rolloutds.torch_file.tensors import TensorMaker, TensorValue, load_torch

_MAX_DEPTH = 150
# torch's careful loader knows integers of up to 255 bytes only.
_MAX_INT_BITS = 255 * 8 - 1
_PLAIN_TYPES = frozenset({str, float, bool, type(None)})
_LEFTOVER = re.compile(r"\..+\.rolloutds-[0-9a-f]{16}\.tmp")
_LEFTOVER_SECONDS = 60.0
_FOREIGN_LEFTOVER_SECONDS = 86_400.0


def write(path: str | os.PathLike[str], value: Any) -> None:
    """Writes a value so that ``torch.load(path, weights_only=True)`` and `read` give it back.

    Dicts (keys: str or int), lists, tuples, str, int, float, bool, None, bytes and tensors are
    written as they are; NumPy numbers and text as the Python values they equal; OrderedDict as a
    dict. Tensors are written from the CPU. What is shared stays shared.

    At every moment there is a good file of that name, the old one or the new one.

    Raises:
        UnsavableValueError: a value is anything else; the message names its key.
        CheckpointError: the file cannot be written; the old one is untouched.
        MissingExtraError: torch is not installed.
    """
    target = Path(os.path.realpath(path))
    torch = load_torch(needed_for=f"writing {path}")
    plain = _Plainer(torch, str(path)).turn(value, ())
    packed = io.BytesIO()
    torch.save(plain, packed)
    try:
        _replace(target, packed.getbuffer())
    except OSError as error:
        raise CheckpointError(
            f"cannot be written ({error.strerror or error})",
            where=str(path),
            hint="check the folder, its permissions and the free space; an old file is untouched",
        ) from error
    _remove_leftovers(target.parent)


def _replace(target: Path, data: memoryview) -> None:
    temporary = target.with_name(f".{target.name[:150]}.rolloutds-{os.urandom(8).hex()}.tmp")
    # Mode 0o666 less the umask: the permissions of any new file.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            _lock(descriptor)
            _write_all(descriptor, data)
            os.fsync(descriptor)
            os.replace(temporary, target)  # noqa: PTH105 - both are full paths
        finally:
            os.close(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _lock(descriptor: int) -> bool:
    """Marks a temporary file as in use; False where another process has it or locks are unknown."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data[: 1 << 26]) :]


def _sync_folder(folder: Path) -> None:
    """Makes the new name last; some file systems cannot, and the file is good all the same."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_leftovers(folder: Path) -> None:
    """Removes temporary files of writers that were killed: ours by name, and locked by nobody."""
    with contextlib.suppress(OSError):
        names = [entry.name for entry in os.scandir(folder)]
        for path in [folder / name for name in names if _LEFTOVER.fullmatch(name)]:
            with contextlib.suppress(OSError):
                if _is_abandoned(path):
                    path.unlink()


def _is_abandoned(path: Path) -> bool:
    age = time.time() - path.stat().st_mtime
    if age < _LEFTOVER_SECONDS:
        return False  # it may be new, and not locked yet
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return _lock(descriptor) or age > _FOREIGN_LEFTOVER_SECONDS
    finally:
        os.close(descriptor)


# --- plain values -------------------------------------------------------------------------

_Way = tuple[Any, ...]


class _Plainer:
    """Turns a value into one of plain types, or names the key that is not."""

    def __init__(self, torch: Any, where: str) -> None:
        self._torch = torch
        self._where = where
        self._made: dict[int, tuple[Any, Any]] = {}
        self._open: set[int] = set()
        self._tensors: TensorMaker | None = None

    def turn(self, value: Any, way: _Way) -> Any:
        kind = type(value)
        if kind in _PLAIN_TYPES:
            return value
        if kind is int:
            return self._int(value, way)
        if kind in (list, tuple, dict, PlainDict) or _is_ordered_dict(value):
            return self._container(value, way)
        if kind is bytes and value:
            return value
        return self._other(value, way)

    def _int(self, value: int, way: _Way) -> int:
        if value.bit_length() > _MAX_INT_BITS:
            raise self._unsavable(
                way, f"an integer of {value.bit_length()} bits", "torch.load cannot read it back"
            )
        return value

    def _container(self, value: Any, way: _Way) -> Any:
        made = self._made.get(id(value))
        if made is not None:
            return made[1]
        if id(value) in self._open:
            raise self._unsavable(way, "a container inside itself", "plain data has an end")
        if len(way) >= _MAX_DEPTH:
            raise self._unsavable(way, f"nested more than {_MAX_DEPTH} levels deep", None)
        self._open.add(id(value))
        turned = self._dict(value, way) if isinstance(value, dict) else self._sequence(value, way)
        self._open.discard(id(value))
        # The original is kept as well: its id must not pass to another object.
        self._made[id(value)] = (value, turned)
        return turned

    def _dict(self, value: dict[Any, Any], way: _Way) -> dict[Any, Any]:
        turned = {}
        for key, item in value.items():
            if type(key) is not str and type(key) is not int:
                raise self._unsavable(way, f"the key {_shown_key(key)}", "keys are text or int")
            if type(key) is int:
                self._int(key, way)
            turned[key] = self.turn(item, (*way, key))
        return turned

    def _sequence(self, value: list[Any] | tuple[Any, ...], way: _Way) -> Any:
        if _is_plain(value):
            return value
        turned = [self.turn(item, (*way, i)) for i, item in enumerate(value)]
        return tuple(turned) if isinstance(value, tuple) else turned

    def _other(self, value: Any, way: _Way) -> Any:
        if isinstance(value, TensorValue):
            self._tensors = self._tensors or TensorMaker()
            return self._shared(value, lambda: self._tensors.tensor(value))
        if type(value) in (self._torch.Tensor, self._torch.nn.Parameter):
            return self._shared(value, value.cpu) if value.device.type != "cpu" else value
        if type(value).__module__ == "numpy":
            number = _numpy_plain(value)
            if number is not None:
                return number
        raise self._unsavable(way, _type_name(value), _advice(value))

    def _shared(self, value: Any, make: Any) -> Any:
        made = self._made.get(id(value))
        if made is None:
            made = self._made[id(value)] = (value, make())
        return made[1]

    def _unsavable(self, way: _Way, what: str, hint: str | None) -> UnsavableValueError:
        return UnsavableValueError(
            f"{spell(way)} is {what}",
            where=self._where,
            expected="plain values and tensors only",
            hint=hint,
        )


def spell(way: _Way) -> str:
    """A place inside a value, as one would write it: ``metadata["score"][3]``."""
    if not way:
        return "the value itself"
    head, *rest = way
    name = head if isinstance(head, str) else f"[{head}]"
    return name + "".join(f'["{key}"]' if isinstance(key, str) else f"[{key}]" for key in rest)


def _is_plain(items: list[Any] | tuple[Any, ...]) -> bool:
    """Whether nothing in it needs a look: token ids and masks are long."""
    kinds = set(map(type, items))
    if kinds == {int}:
        return bool(min(items) >= -(1 << 63) and max(items) < 1 << 63)
    return kinds <= _PLAIN_TYPES


def _is_ordered_dict(value: Any) -> bool:
    return type(value).__module__ == "collections" and type(value).__name__ == "OrderedDict"


def _numpy_plain(value: Any) -> Any:
    """The Python value a NumPy number or text equals; None for other kinds."""
    numpy = sys.modules["numpy"]
    if isinstance(value, numpy.bool_ | numpy.integer | numpy.floating | numpy.str_):
        plain = value.item()
        return plain if type(plain) in (bool, int, float, str) else None
    return None


def _type_name(value: Any) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{'empty ' if kind is bytes else ''}{module}{kind.__qualname__}"


def _advice(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return "store its .value or its .name"
    if isinstance(value, set | frozenset):
        return "store a sorted list of it"
    if isinstance(value, tuple):
        return "store tuple(…) or a dict of its fields"
    if hasattr(value, "tolist"):
        return "store its .tolist(), or a torch tensor"
    return "store plain values that it can be made from"


def _shown_key(key: Any) -> str:
    return (
        f"{key!r:.40}"
        if isinstance(key, float | bool | type(None))
        else f"of type {_type_name(key)}"
    )
