"""One file format for everything cached: a JSON header, named raw arrays, a checksum.

A file is read through a memory map, without numpy. Whatever is wrong with it (an older
version, a flipped byte, another key) makes it a miss; a folder that cannot be written to only
means that nothing is kept.
"""

from __future__ import annotations

import contextlib
import io
import json
import mmap
import os
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import xxhash

FORMAT_VERSION: Final = 1
_MAGIC: Final = b"rolloutds cache\n"
_PREAMBLE: Final = struct.Struct("<16sIIQ")  # magic, version, header bytes, checksum
_CHECKSUM_OFFSET: Final = _PREAMBLE.size - 8
_SUFFIX: Final = ".rdscache"
_BODY_SUFFIX: Final = ".rdsbody"
_TEMPORARY_PREFIX: Final = ".writing-"
_ALIGNMENT: Final = 8


def default_cache_folder() -> Path:
    """The user's cache folder for this package (``XDG_CACHE_HOME`` wins on every platform)."""
    configured = os.environ.get("XDG_CACHE_HOME")
    if configured and Path(configured).is_absolute():
        return Path(configured) / "rolloutds"
    import platformdirs

    return platformdirs.user_cache_path("rolloutds")


@dataclass(frozen=True)
class CacheEntry:
    """What was kept under one key.

    Attributes:
        header: the plain values, as they came back from JSON.
        arrays: the arrays by name, read-only and cast to their format.
    """

    header: Mapping[str, Any]
    arrays: Mapping[str, memoryview]


@dataclass(frozen=True)
class CachedFile:
    """One file in the cache folder.

    Attributes:
        path: the file itself.
        kind: what it holds (``index``, ``order``, ``tokens``, ``arrow``), "unknown" if damaged.
        source: path of the data it is about, or None.
        num_bytes: its size.
        modified: when it was written, in seconds since the epoch.
    """

    path: Path
    kind: str
    source: str | None
    num_bytes: int
    modified: float


class Cache:
    """Named entries in one folder.

    Args:
        folder: where the files lie; made when first written to. None switches caching off.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"Cache({str(self.folder)!r})" if self.folder else "Cache(None)"

    def read(self, kind: str, key: str) -> CacheEntry | None:
        """The entry written under `kind` and `key`, or None; a damaged file is removed."""
        path = self._path(kind, key)
        if path is None:
            return None
        try:
            data = _mapped(path)
        except OSError:
            return None
        try:
            header, arrays = _unpack(data)
        except (ValueError, KeyError, TypeError, struct.error, RecursionError):
            _remove(path)
            return None
        if header.get("kind") != kind or header.get("key") != key:
            return None
        return CacheEntry(header["values"], arrays)

    def write(
        self, kind: str, key: str, header: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> bool:
        """Keeps an entry; returns whether it was written.

        Args:
            kind: ``index``, ``order``, ``tokens`` or ``arrow``.
            key: names the entry within its kind.
            header: values JSON can hold; ``source`` is the path of the data it is about.
            arrays: objects with the buffer interface and one item format.
        """
        path = self._path(kind, key)
        if path is None:
            return False
        head = {"kind": kind, "key": key, "values": dict(header)}
        try:
            with self._temporary(path) as file:
                _pack(file, head, arrays)
        except OSError:
            return False
        return True

    def keep(self, content: bytes) -> bool:
        """Writes what `packed` gave, under its own kind and key; returns whether it was written.

        Raises:
            ValueError: it is damaged, or of another version.
        """
        head, _ = _unpack(memoryview(content))
        path = self._path(head["kind"], head["key"])
        if path is None:
            return False
        try:
            with self._temporary(path) as file:
                file.write(content)
        except OSError:
            return False
        return True

    def body_path(self, kind: str, key: str) -> Path | None:
        """Where a large file that belongs to an entry lies, or None when switched off."""
        path = self._path(kind, key)
        return path.with_suffix(_BODY_SUFFIX) if path else None

    @contextlib.contextmanager
    def writing_body(self, kind: str, key: str) -> Iterator[Any]:
        """A binary file that takes the place of `body_path` when the block ends without error.

        Raises:
            OSError: the folder cannot be written to, or is full.
        """
        path = self.body_path(kind, key)
        if path is None:
            raise OSError("the cache is switched off")
        with self._temporary(path) as file:
            yield file

    def files(self) -> list[CachedFile]:
        """The files of this cache, by path."""
        if self.folder is None:
            return []
        try:
            paths = sorted(path for path in self.folder.iterdir() if _is_own(path))
        except OSError:
            return []
        found = (_describe(path) for path in paths)
        return [file for file in found if file is not None]

    def clear(self) -> tuple[int, int]:
        """Removes the files of this cache and no other.

        Returns:
            How many were removed, and how many bytes they took.
        """
        removed = [file for file in self.files() if _remove(file.path)]
        return len(removed), sum(file.num_bytes for file in removed)

    def _path(self, kind: str, key: str) -> Path | None:
        if self.folder is None:
            return None
        name = xxhash.xxh3_128_hexdigest(key.encode("utf-8", "surrogatepass"))
        return self.folder / f"{kind}-{name}{_SUFFIX}"

    @contextlib.contextmanager
    def _temporary(self, path: Path) -> Iterator[Any]:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=_TEMPORARY_PREFIX, dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
            Path(name).replace(path)
        except BaseException:
            _remove(Path(name))
            raise


def packed(kind: str, key: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> bytes:
    """The bytes of the file that `Cache.write` makes of an entry, for `Cache.keep` elsewhere."""
    file = io.BytesIO()
    _pack(file, {"kind": kind, "key": key, "values": dict(header)}, arrays)
    return file.getvalue()


def _pack(file: Any, head: dict[str, Any], arrays: Mapping[str, Any]) -> None:
    views = {name: memoryview(array) for name, array in arrays.items()}
    head["byteorder"] = sys.byteorder
    head["arrays"] = [[name, view.format, view.nbytes] for name, view in views.items()]
    text = json.dumps(head).encode()
    text += b" " * (-(len(text) + _PREAMBLE.size) % _ALIGNMENT)
    checksum = xxhash.xxh3_64(text)
    parts = [text]
    for view in views.values():
        content = view.cast("B") if view.nbytes else memoryview(b"")
        parts += [content, b"\0" * (-view.nbytes % _ALIGNMENT)]  # type: ignore[list-item]
    for part in parts[1:]:
        checksum.update(part)
    file.write(_PREAMBLE.pack(_MAGIC, FORMAT_VERSION, len(text), checksum.intdigest()))
    for part in parts:
        file.write(part)


def _unpack(data: memoryview) -> tuple[dict[str, Any], dict[str, memoryview]]:
    magic, version, header_bytes, checksum = _PREAMBLE.unpack_from(data)
    content = data[_PREAMBLE.size :]
    if magic != _MAGIC or version != FORMAT_VERSION or header_bytes > len(content):
        raise ValueError("not a cache file of this version")
    if xxhash.xxh3_64_intdigest(content) != checksum:
        raise ValueError("checksum differs")
    head = json.loads(bytes(content[:header_bytes]))
    if head["byteorder"] != sys.byteorder:
        raise ValueError("other byte order")
    arrays = {}
    offset = header_bytes
    for name, item_format, num_bytes in head["arrays"]:
        arrays[name] = content[offset : offset + num_bytes].cast(item_format)
        offset += num_bytes + (-num_bytes % _ALIGNMENT)
    return head, arrays


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _is_own(path: Path) -> bool:
    return path.suffix in (_SUFFIX, _BODY_SUFFIX) or path.name.startswith(_TEMPORARY_PREFIX)


def _describe(path: Path) -> CachedFile | None:
    try:
        stat = path.stat()
        head = _header_alone(path.with_suffix(_SUFFIX))
    except OSError:
        return None
    kind, source = head.get("kind", "unknown"), head.get("values", {}).get("source")
    return CachedFile(path, kind, source, stat.st_size, stat.st_mtime)


def _header_alone(path: Path) -> dict[str, Any]:
    """The header without a look at the arrays; empty when it cannot be read."""
    try:
        with path.open("rb") as file:
            magic, _version, header_bytes, _checksum = _PREAMBLE.unpack(file.read(_PREAMBLE.size))
            if magic != _MAGIC:
                return {}
            head = json.loads(file.read(header_bytes))
    except (OSError, ValueError, struct.error):
        return {}
    return head if isinstance(head, dict) else {}


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
