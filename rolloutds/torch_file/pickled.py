"""The pickle in a file: found cheaply, and loaded into inert values."""

from __future__ import annotations

import gc
import io
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from rolloutds.errors import TorchFileError
from rolloutds.torch_file.archive import Archive, Member, OpenFile
from rolloutds.torch_file.budget import Budget
from rolloutds.torch_file.forms import is_archive, other_form
from rolloutds.torch_file.unpickler import SafeUnpickler

_CHUNK = 1 << 20
# Small storages are read at once, so that thousands of read files do not stay open.
_HELD_BYTES = 1 << 20
_DAMAGED = "the file is damaged; copy it again or use an earlier one"


class Pickle:
    """The pickled bytes of an open file, and what they refer to.

    Attributes:
        file: the file.
        archive: the archive around the pickle; None for a plain pickle file.
        member: where the pickle lies.
        is_packed: whether lists of numbers are loaded as `PackedList`.
    """

    def __init__(self, file: OpenFile, archive: Archive | None, *, is_packed: bool = False) -> None:
        self.file = file
        self.archive = archive
        self.member = archive.pickle if archive else Member(0, file.num_bytes, 0)
        self.is_packed = is_packed

    def load(self) -> Any:
        """The value. Unlimited in time and memory: see `rolloutds.torch_file.trial`.

        Raises:
            TorchFileError: the pickle is damaged.
        """
        unpickler = self._unpickler()
        try:
            value = unpickler.load()
        except (TorchFileError, MemoryError):
            raise
        except RecursionError as error:
            raise self.file.refusal("is nested too deeply", hint=_DAMAGED) from error
        except Exception as error:
            raise self._damaged(error) from error
        if sum(storage.num_bytes for storage in unpickler.storages) <= _HELD_BYTES:
            for storage in unpickler.storages:
                storage.hold()
        return value

    def _unpickler(self) -> SafeUnpickler:
        section = io.BufferedReader(_Section(self.file, self.member), _CHUNK)
        stream = cast("IO[bytes]", section)
        if not self.is_packed:
            return SafeUnpickler(stream, self.archive)
        # Imported when it is needed: it loads the table of all opcodes.
        from rolloutds.torch_file.packed_lists import PackingUnpickler

        return PackingUnpickler(stream, self.archive)

    def check(self) -> None:
        """Compares the checksum of the archive; writers may leave it out (0).

        Raises:
            TorchFileError: the bytes are not the ones that were written.
        """
        if self.member.crc and self.file.crc(self.member) != self.member.crc:
            raise self.file.refusal("the pickle inside does not match its checksum", hint=_DAMAGED)

    def _damaged(self, error: Exception) -> TorchFileError:
        text = str(error) if isinstance(error, pickle.UnpicklingError | TypeError) else ""
        text = text[:200] or f"{type(error).__name__}: {error!s:.200}"
        return self.file.refusal(f"the pickle inside cannot be read ({text})", hint=_DAMAGED)


class _Section(io.RawIOBase):
    """One member of the file, as a stream."""

    def __init__(self, file: OpenFile, member: Member) -> None:
        self._file = file
        self._position = member.start
        self._stop = member.start + member.num_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.pread_some(self._position, min(len(buffer), self._stop - self._position))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def open_pickle(
    file: OpenFile, budget: Budget, *, may_be_plain: bool = False, is_packed: bool = False
) -> Pickle:
    """Finds the pickle in a file; cheap, bounded, and without reading it.

    Args:
        file: the file.
        budget: limits.
        may_be_plain: whether a pickle without an archive around it is taken too.
        is_packed: see `Pickle`.

    Raises:
        TorchFileError: it is another kind of file, damaged, or too large.
    """
    if file.num_bytes > budget.max_bytes:
        raise file.refusal("is too large", expected=f"at most {budget.max_bytes} bytes")
    start = file.pread(0, min(512, file.num_bytes))
    if is_archive(start):
        return Pickle(file, Archive(file), is_packed=is_packed)
    what, hint = other_form(file, start)
    if may_be_plain and what == "is a plain pickle":
        return Pickle(file, None, is_packed=is_packed)
    raise file.refusal(what, expected="a file written by torch.save", hint=hint)


_pauses = 0
_pauses_lock = threading.Lock()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keeps the cyclic garbage collector from walking the growing value again and again."""
    global _pauses  # one collector, one count of who wants it paused
    with _pauses_lock:
        was_enabled = gc.isenabled()
        _pauses += was_enabled or _pauses > 0
        if was_enabled:
            gc.disable()
    try:
        yield
    finally:
        with _pauses_lock:
            if _pauses:
                _pauses -= 1
                if not _pauses:
                    gc.enable()
