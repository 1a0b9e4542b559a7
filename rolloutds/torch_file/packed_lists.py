"""Reading long lists of numbers without an object for each number.

A dump is mostly lists of token ids, masks and log-probs. As Python lists they take four to twelve
times their bytes in the file. Here the stream of the pickle is rewritten on its way to the
unpickler: a list that begins with a run of numbers is made as a `PackedList`, which keeps such
runs as arrays. Everything else passes through as it is; what is no well-formed pickle is left for
the unpickler to refuse.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
import sys
from array import array
from collections.abc import Iterator
from typing import IO, Any, Final, NoReturn, cast

from rolloutds.torch_file.archive import Archive
from rolloutds.torch_file.unpickler import Rebuilder, SafeUnpickler

_MODULE: Final = "rolloutds packed"
_MAKE_LIST: Final = f"c{_MODULE}\nlist\n)R".encode()
_MAKE_RUN: Final = f"c{_MODULE}\nrun\n".encode()
_LEAST: Final = 16
_CHUNK: Final = 1 << 20
# Picklers write a list in batches of 1,000; an opcode with a number has at most nine bytes.
_LOOK_AHEAD: Final = 1 << 14
_WHOLE_NUMBERS: Final = re.compile(rb"(?:K.|M..|J....)+", re.DOTALL)
_FRACTIONS: Final = re.compile(rb"(?:G.{8})+", re.DOTALL)
_BEGIN: Final = re.compile(rb"\](q.|r.{4}|\x94)?\(", re.DOTALL)
_FRAME: Final = 0x95
_STOP: Final = 0x2E


class PackedList:
    """A list of the file, its numbers in arrays. `tolist` gives the list."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def extend(self, items: list[Any]) -> None:
        """Takes a batch of elements; called by the unpickler."""
        if len(items) == 1 and isinstance(items[0], array):
            self._parts.append(items[0])
        else:
            self._parts.append(list(items))

    def append(self, item: Any) -> None:
        """Takes one element; called by the unpickler."""
        self._parts.append([item])

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def tolist(self) -> list[Any]:
        """The list, new each time."""
        items: list[Any] = []
        for part in self._parts:
            items += part
        return items

    def __setstate__(self, state: Any) -> NoReturn:
        raise TypeError("a list takes no state")


def _make_list(*args: Any) -> Any:
    return NotImplemented if args else PackedList()


def _make_run(*args: Any) -> Any:
    if len(args) != 1 or not isinstance(args[0], bytes) or args[0][:1] not in (b"B", b"i", b"d"):
        return NotImplemented
    return array(chr(args[0][0]), args[0][1:])


_BUILDERS: Final = {
    (_MODULE, name): Rebuilder(f"{_MODULE}.{name}", build)
    for name, build in {"list": _make_list, "run": _make_run}.items()
}


class PackingUnpickler(SafeUnpickler):
    """Reads a pickle into inert values, its lists of numbers into `PackedList`.

    A file may name what the rewritten stream names; all it gets is a list or an array.
    """

    def __init__(self, stream: IO[bytes], archive: Archive | None) -> None:
        packing = io.BufferedReader(PackingStream(stream), _CHUNK)
        super().__init__(cast("IO[bytes]", packing), archive)

    def find_class(self, module: str, name: str) -> Any:
        """As without packing, and the two makers above."""
        return _BUILDERS.get((module, name)) or super().find_class(module, name)


class PackingStream(io.RawIOBase):
    """The stream of a pickle, rewritten.

    Args:
        source: the stream as it is in the file.
    """

    def __init__(self, source: IO[bytes]) -> None:
        self._pieces = _rewritten(source)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills as much of `buffer` as the next piece has."""
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def _rewritten(source: IO[bytes]) -> Iterator[bytes]:
    """The pickle in pieces; from a place that cannot be followed on, as it is."""
    window = _Window(source)
    while window.is_followed:
        yield window.piece()
    yield window.rest()
    while data := source.read(_CHUNK):
        yield data


class _Window:
    """A part of the stream, always long enough to see a whole batch of numbers."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._data = b""
        self._at = 0
        self._has_open_list = False
        self.is_followed = True

    def rest(self) -> bytes:
        """What is not yet given out."""
        return self._data[self._at :]

    def _fill(self) -> None:
        if len(self._data) - self._at < _LOOK_AHEAD:
            self._data = self._data[self._at :] + self._source.read(_CHUNK)
            self._at = 0

    def piece(self) -> bytes:
        """The next opcodes, about a mebibyte of them."""
        self._fill()
        out: list[bytes] = []
        limit = max(self._at + 1, len(self._data) - _LOOK_AHEAD)
        while self._at < limit and self.is_followed:
            self._step(out)
        return b"".join(out)

    def _step(self, out: list[bytes]) -> None:
        data, at = self._data, self._at
        code = data[at]
        if code == 0x5D and self._begin(out):  # EMPTY_LIST
            return
        if code == 0x28 and self._has_open_list and self._batch(at + 1, b"", out):  # MARK
            return
        self._has_open_list = False
        self._copy(code, out)

    def _begin(self, out: list[bytes]) -> bool:
        found = _BEGIN.match(self._data, self._at)
        if found is None:
            return False
        return self._batch(found.end(), _MAKE_LIST + (found[1] or b""), out)

    def _batch(self, start: int, before: bytes, out: list[bytes]) -> bool:
        """Writes a batch that is all numbers as one run; False when it is none."""
        found = _WHOLE_NUMBERS.match(self._data, start) or _FRACTIONS.match(self._data, start)
        if found is None or self._data[found.end() : found.end() + 1] != b"e":
            return False
        packed = _packed(found[0])
        if packed is None:
            return False
        head = b"B" + len(packed).to_bytes(4, "little")
        out += [before, b"(", _MAKE_RUN, head, packed, b"\x85Re"]
        self._at = found.end() + 1
        self._has_open_list = True
        return True

    def _copy(self, code: int, out: list[bytes]) -> None:
        """Copies one opcode with its argument."""
        size = _SIZES.get(code)
        if size is None or code == _STOP:
            self.is_followed = False
            return
        end = self._end(size)
        if end is None:
            self.is_followed = False
            return
        if code != _FRAME:  # the lengths of frames would be wrong, and nobody needs them
            out.append(self._data[self._at : end])
        missing = end - len(self._data)
        self._at = min(end, len(self._data))
        while missing > 0:
            more = self._source.read(min(missing, _CHUNK))
            if not more:
                self.is_followed = False
                return
            out.append(more)
            missing -= len(more)

    def _end(self, size: int) -> int | None:
        """Where the opcode's argument ends; None when that cannot be said."""
        data, start = self._data, self._at + 1
        if size >= 0:
            return start + size if start + size <= len(data) else None
        if size == pickletools.UP_TO_NEWLINE:
            return self._end_of_lines(start)
        width = _WIDTHS[size]
        if start + width > len(data):
            return None
        length = int.from_bytes(data[start : start + width], "little")
        return start + width + length if length < 1 << 40 else None

    def _end_of_lines(self, start: int) -> int | None:
        lines = 2 if self._data[self._at : start] in (b"c", b"i") else 1
        for _ in range(lines):
            start = self._data.find(b"\n", start) + 1
            if not start:
                return None
        return start


def _packed(run: bytes) -> bytes | None:
    """The numbers of a run as an array's bytes, its type code before them."""
    if run[:1] == b"G":
        return _packed_fractions(run) if len(run) >= 9 * _LEAST else None
    codes = run[::2]
    if codes.count(b"K") == len(codes):  # numbers below 256, as all of a mask are
        return b"B" + run[1::2] if len(codes) >= _LEAST else None
    # Only opcodes of numbers are in a run, so this makes numbers and nothing else.
    values = pickle.loads(b"](" + run + b"e.")
    if len(values) < _LEAST:
        return None
    return b"i" + array("i", values).tobytes()


def _packed_fractions(run: bytes) -> bytes:
    """Each is a code and eight bytes, the highest first."""
    # Without NumPy, which the interpreter that is started for a trial has not.
    data = bytearray(len(run) // 9 * 8)
    for i in range(8):
        data[i if sys.byteorder == "big" else 7 - i :: 8] = run[i + 1 :: 9]
    return b"d" + data


_SIZES: Final[dict[int, int]] = {
    ord(opcode.code): opcode.arg.n if opcode.arg else 0 for opcode in pickletools.opcodes
}
_WIDTHS: Final[dict[int, int]] = {
    pickletools.TAKEN_FROM_ARGUMENT1: 1,
    pickletools.TAKEN_FROM_ARGUMENT4: 4,
    pickletools.TAKEN_FROM_ARGUMENT4U: 4,
    pickletools.TAKEN_FROM_ARGUMENT8U: 8,
}
