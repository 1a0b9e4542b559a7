"""The ZIP archive that `torch.save` writes: its members, checked against the file.

Our own reader of the directory, because nothing may be believed: members are stored (not
compressed), lie inside the file, have one name each and are no larger than what is there.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from rolloutds.errors import TorchFileError

_END = struct.Struct("<4s4H2IH")  # end of central directory
_END64_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQ2H2I4Q")
_ENTRY = struct.Struct("<4s6H3I5H2I")  # central directory
_LOCAL = struct.Struct("<4s5H3I2H")  # before each member's bytes
_MAX_COMMENT = 0xFFFF
_MAX_MEMBERS = 1_000_000
_MAX_DIRECTORY_BYTES = 1 << 30
_CHUNK = 1 << 22
_CUT = "the file may be cut short; copy it again or use an earlier one"


class Member(NamedTuple):
    """One stored member: where its bytes are in the file, how many, and their CRC-32."""

    start: int
    num_bytes: int
    crc: int


class OpenFile:
    """A regular file held open, read by position; closed when nothing refers to it any more."""

    __slots__ = ("_descriptor", "num_bytes", "path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(path)
        self._descriptor = -1
        try:
            # Not blocking: opening a named pipe would otherwise wait for a writer.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise self.refusal(f"cannot be opened ({reason})") from error
        self._measure()

    @classmethod
    def of_descriptor(cls, descriptor: int, path: str) -> OpenFile:
        """A file that is open already; it belongs to the new object."""
        file = cls.__new__(cls)
        file.path = path
        file._descriptor = descriptor
        file._measure()
        return file

    def _measure(self) -> None:
        status = os.fstat(self._descriptor)
        self.num_bytes = status.st_size
        if stat.S_ISDIR(status.st_mode):
            raise self.refusal("is a folder", expected="a .pt file")
        if not stat.S_ISREG(status.st_mode):
            raise self.refusal("is not a regular file", expected="a .pt file")

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    @property
    def descriptor(self) -> int:
        """The open descriptor, valid as long as this object."""
        return self._descriptor

    def pread(self, start: int, num_bytes: int) -> bytes:
        """Exactly `num_bytes` from `start`.

        Raises:
            TorchFileError: the file ends earlier or cannot be read.
        """
        if start < 0 or start + num_bytes > self.num_bytes:
            raise self.refusal(f"ends at byte {self.num_bytes}", expected=_more(start, num_bytes))
        parts: list[bytes] = []
        missing = num_bytes
        while missing:
            part = self.pread_some(start + num_bytes - missing, missing)
            if not part:
                raise self.refusal("became shorter while it was read", hint=_CUT)
            parts.append(part)
            missing -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def pread_some(self, start: int, num_bytes: int) -> bytes:
        """Up to `num_bytes` from `start`; less at the end of the file."""
        try:
            return os.pread(self._descriptor, min(num_bytes, 1 << 30), start)
        except OSError as error:
            raise self.refusal(f"cannot be read ({error.strerror})") from error

    def crc(self, member: Member) -> int:
        """CRC-32 of a member's bytes as they are in the file."""
        crc, position, stop = 0, member.start, member.start + member.num_bytes
        while position < stop:
            part = self.pread(position, min(_CHUNK, stop - position))
            crc = zlib.crc32(part, crc)
            position += len(part)
        return crc

    def refusal(
        self, what: str, *, expected: str | None = None, hint: str | None = None
    ) -> TorchFileError:
        """The error for this file."""
        size = f" ({self.num_bytes} bytes)" if self._descriptor >= 0 else ""
        return TorchFileError(what, where=f"{self.path}{size}", expected=expected, hint=hint)


def _more(start: int, num_bytes: int) -> str:
    return f"{num_bytes} bytes at {start}"


class Archive:
    """A `torch.save` archive: where the pickle and the tensors' bytes lie.

    Attributes:
        file: the file.
        pickle: the member with the pickled value.
        is_big_endian: whether the tensors' bytes are.

    Raises:
        TorchFileError: it is another kind of file, damaged, or not written by `torch.save`.
    """

    def __init__(self, file: OpenFile) -> None:
        self.file = file
        self._members = dict(self._read_members())
        self._root = self._find_root()
        self.pickle = self._members[f"{self._root}data.pkl"]
        self.is_big_endian = self._read_byte_order()

    def storage(self, key: str) -> Member | None:
        """The bytes of the tensor storage saved under `key`."""
        return self._members.get(f"{self._root}data/{key}")

    def _find_root(self) -> str:
        if any(name.partition("/")[2].startswith("code/") for name in self._members) or any(
            name.endswith("/constants.pkl") for name in self._members
        ):
            raise self.file.refusal(
                "is a TorchScript archive", expected="a file written by torch.save", hint=_SAVE
            )
        pickles = [name for name in self._members if name.partition("/")[2] == "data.pkl"]
        if len(pickles) != 1:
            raise self.file.refusal(
                f"is a ZIP archive with {len(pickles)} members named data.pkl",
                expected="the one that torch.save writes",
                hint=_SAVE,
            )
        return pickles[0][: -len("data.pkl")]

    def _read_byte_order(self) -> bool:
        member = self._members.get(f"{self._root}byteorder")
        if member is None:
            return False
        order = self.file.pread(member.start, min(member.num_bytes, 16))
        if order not in (b"little", b"big"):
            raise self.file.refusal(f"has the byte order {order!r}", expected="little or big")
        return order == b"big"

    # --- the directory ---------------------------------------------------------------------

    def _read_members(self) -> Iterator[tuple[str, Member]]:
        start, num_bytes, count = self._find_directory()
        seen: set[str] = set()
        directory, position = self.file.pread(start, num_bytes), 0
        for _ in range(count):
            name, member, position = self._read_entry(directory, position, limit=start)
            if name in seen:
                raise self._broken(f"the member {name!r} twice")
            seen.add(name)
            yield name, member
        if position != num_bytes:
            raise self._broken("a directory longer than its members")

    def _find_directory(self) -> tuple[int, int, int]:
        """Start, size and number of members of the central directory."""
        size = self.file.num_bytes
        tail_start = max(0, size - _END.size - _MAX_COMMENT)
        tail = self.file.pread(tail_start, size - tail_start)
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or len(tail) - at < _END.size:
            raise self.file.refusal("has no ZIP directory at its end", hint=_CUT)
        end_start = tail_start + at
        _, disk, first_disk, _, count, num_bytes, start, _ = _END.unpack_from(tail, at)
        end64 = self._read_end64(end_start)
        if end64 is not None:
            start, num_bytes, count, end_start = end64
        elif disk or first_disk:
            raise self._broken("several disks")
        self._check_directory(start, num_bytes, count, end_start)
        return start, num_bytes, count

    def _read_end64(self, end_start: int) -> tuple[int, int, int, int] | None:
        at = end_start - _END64_LOCATOR.size
        if at < 0:
            return None
        magic, _, end64_start, _ = _END64_LOCATOR.unpack(self.file.pread(at, _END64_LOCATOR.size))
        if magic != b"PK\x06\x07":
            return None
        if end64_start + _END64.size > at:
            raise self._broken("a ZIP64 record outside the file")
        fields = _END64.unpack(self.file.pread(end64_start, _END64.size))
        if fields[0] != b"PK\x06\x06":
            raise self._broken("no ZIP64 record where one is promised")
        count, num_bytes, start = fields[7], fields[8], fields[9]
        return start, num_bytes, count, end64_start

    def _check_directory(self, start: int, num_bytes: int, count: int, stop: int) -> None:
        if start + num_bytes > stop:
            raise self.file.refusal(
                f"has a ZIP directory of {num_bytes} bytes at {start}, beyond byte {stop}",
                hint=_CUT,
            )
        if count * _ENTRY.size > num_bytes or count > _MAX_MEMBERS:
            raise self._broken(f"{count} members in a directory of {num_bytes} bytes")
        if num_bytes > _MAX_DIRECTORY_BYTES:
            raise self._broken(f"a directory of {num_bytes} bytes")

    def _read_entry(self, directory: bytes, at: int, *, limit: int) -> tuple[str, Member, int]:
        if at + _ENTRY.size > len(directory) or directory[at : at + 4] != b"PK\x01\x02":
            raise self._broken("a damaged directory")
        fields = _ENTRY.unpack_from(directory, at)
        flags, method, crc = fields[3], fields[4], fields[7]
        name_length, extra_length, comment_length = fields[10:13]
        name_at = at + _ENTRY.size
        extra_at = name_at + name_length
        stop = extra_at + extra_length + comment_length
        if stop > len(directory):
            raise self._broken("a damaged directory")
        name = self._check_name(directory[name_at:extra_at])
        if flags & 0x2041:
            raise self._broken(f"the encrypted member {name!r}")
        if method != 0:
            raise self._broken(f"the compressed member {name!r}")
        packed, size, start = self._sizes(
            fields[8], fields[9], fields[16], directory[extra_at : extra_at + extra_length]
        )
        if packed != size:
            raise self._broken(f"{packed} stored bytes for {size} of the member {name!r}")
        member = Member(self._data_start(name, start, limit), size, crc)
        if member.start + size > limit:
            raise self._broken(f"{size} bytes of the member {name!r}, more than the file holds")
        return name, member, stop

    def _check_name(self, raw: bytes) -> str:
        name = raw.decode("utf-8", "backslashreplace")
        if "\x00" in name or name.startswith("/") or ".." in name.split("/"):
            raise self._broken(f"the member name {name!r}")
        return name

    def _sizes(self, packed: int, size: int, start: int, extra: bytes) -> tuple[int, int, int]:
        """The three numbers, from the ZIP64 field where the short ones are full."""
        if 0xFFFFFFFF not in (packed, size, start):
            return packed, size, start
        field = self._zip64_field(extra)
        wide = [field[i : i + 8] for i in range(0, len(field) - 7, 8)]
        values = []
        for number in (size, packed, start):  # the order they have in the field
            if number == 0xFFFFFFFF:
                if not wide:
                    raise self._broken("a ZIP64 field that is too short")
                number = int.from_bytes(wide.pop(0), "little")
            values.append(number)
        return values[1], values[0], values[2]

    def _zip64_field(self, extra: bytes) -> bytes:
        at = 0
        while at + 4 <= len(extra):
            kind, length = struct.unpack_from("<2H", extra, at)
            if kind == 1:
                return extra[at + 4 : at + 4 + length]
            at += 4 + length
        return b""

    def _data_start(self, name: str, start: int, limit: int) -> int:
        """Where a member's bytes begin: after its own header, which repeats the name."""
        if start + _LOCAL.size > limit:
            raise self._broken(f"the member {name!r} outside the file")
        fields = _LOCAL.unpack(self.file.pread(start, _LOCAL.size))
        magic, flags, method, name_length, extra_length = (
            fields[0],
            fields[2],
            fields[3],
            fields[9],
            fields[10],
        )
        header = self.file.pread(start + _LOCAL.size, name_length)
        if magic != b"PK\x03\x04" or header.decode("utf-8", "backslashreplace") != name:
            raise self._broken(f"no header of the member {name!r} where one is promised")
        if method != 0 or flags & 0x2041:
            raise self._broken(f"a compressed or encrypted member {name!r}")
        return int(start + _LOCAL.size + name_length + extra_length)

    def _broken(self, what: str) -> TorchFileError:
        return self.file.refusal(
            f"the ZIP archive has {what}",
            expected="what torch.save writes",
            hint="it is damaged, or was not written by torch.save",
        )


_SAVE = "write the value again with torch.save(value, path)"
