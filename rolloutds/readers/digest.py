"""The digest of a file's bytes, the same wherever the file lies and however it is read."""

from __future__ import annotations

from typing import Final

import xxhash

from rolloutds.readers.line_scan import BLOCK_BYTES
from rolloutds.storage import StoredFile, changed, open_stored

_PIECE_BYTES: Final = 1 << 20


def digest_of_file(path: str) -> str:
    """Hex digest of a file, read from front to back.

    Raises:
        DataError: it cannot be read.
    """
    with open_stored(path) as file:
        return digest_of(file)


def digest_of(file: StoredFile) -> str:
    """Hex digest of an open file's bytes: of the digests of its blocks.

    Raises:
        DataError: it cannot be read, or became shorter.
    """
    if file.descriptor is not None:
        return _digest(file)
    from rolloutds.storage.read_ahead import ReadAhead

    with ReadAhead(file) as ahead:
        return _digest(ahead)


def _digest(file: StoredFile) -> str:
    digests = b""
    for offset in range(0, file.size, BLOCK_BYTES):
        block = xxhash.xxh3_128()
        stop = min(offset + BLOCK_BYTES, file.size)
        for start in range(offset, stop, _PIECE_BYTES):
            length = min(_PIECE_BYTES, stop - start)
            data = file.pread(length, start)
            if len(data) < length:
                raise changed(file.path, "it was read")
            block.update(data)
        digests += block.digest()
    return xxhash.xxh3_128_hexdigest(digests)
