"""Files on object stores and servers, read by ranges: the one door to fsspec."""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple

from rolloutds.errors import DataError, DataNotFoundError, MissingExtraError, RolloutDSError
from rolloutds.storage.base import StoredFile
from rolloutds.storage.identity import FileIdentity
from rolloutds.storage.urls import masked, scheme_of, without_query

# A request costs what some ten thousand bytes cost, so ranges so near to each other are one.
_GAP_BYTES: Final = 16 << 10
_SPAN_BYTES: Final = 4 << 20
"""No request is joined to more than this: several at once are quicker than a long one."""
# What services call the mark of a content, the surest first; then the time it was written.
_STRONG: Final = (
    *("ETag", "etag", "e_tag", "md5Hash", "content_md5", "Content-MD5", "md5", "content_hash"),
    *("checksum", "blob_id", "crc32c", "generation", "VersionId", "version_id", "Digest"),
)
_TIMES: Final = (
    *("LastModified", "last_modified", "Last-Modified", "mtime", "modified", "updated", "created"),
)
_PACKAGES: Final = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "http": "aiohttp",
    "https": "aiohttp",
    "hf": "huggingface_hub",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "oss": "ossfs",
    "webhdfs": "requests",
}
"""The package that fsspec needs for a protocol."""


class RemoteFile(StoredFile):
    """A file behind a URL; nothing stays open between reads.

    Args:
        url: ``scheme://…``, of any protocol that fsspec has.

    Raises:
        MissingExtraError: fsspec is not installed.
        DataNotFoundError: there is no such file.
        DataError: it is no file, or cannot be reached; every reason is one.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.path = masked(url)
        self._process, (self._system, self._name) = os.getpid(), _system(url)
        self._is_open = True
        with _our_errors(self.path):
            info = self._system.info(self._name)
        if info.get("type") == "directory":
            raise DataError("a folder, expected a file", where=self.path)
        if info.get("size") is None:
            hint = "Copy it to a local folder, or to a store that knows the size of its files."
            raise DataError("the server does not tell its size", where=self.path, hint=hint)
        self.identity = _identity(info)
        self.cache_name = self.path if url == self.path else self._masked_name()

    def _masked_name(self) -> str:
        """A name for the cache; a query may change with each signature, or select the file."""
        if self.identity.token and not self.identity.mtime_ns:
            return self.path  # the mark of the content tells files apart
        return f"{self.path} {hashlib.sha256(self.url.encode()).hexdigest()[:16]}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (RemoteFile, (self.url,))

    def pread(self, length: int, offset: int) -> bytes:
        """The bytes ``[offset, offset + length)``; fewer only where the file ends."""
        return self.pread_many([(length, offset)])[0]

    def pread_many(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """As `pread` for each (length, offset): all requests at once, near ones as one."""
        if not self._is_open:
            raise DataError("the file was closed", where=self.path)
        found = self._fetched(_joined(ranges))
        starts = sorted(found)
        return [_part(found, starts, length, offset) for length, offset in ranges]

    def _fetched(self, spans: Sequence[tuple[int, int]]) -> dict[int, bytes]:
        """The bytes of each span, by its start."""
        if not spans:
            return {}
        self._after_a_fork()
        starts, stops = [start for start, _ in spans], [stop for _, stop in spans]
        with _our_errors(self.path):
            names = [self._name] * len(spans)
            parts = self._system.cat_ranges(names, starts, stops, on_error="raise")
        if any(len(part) > stop - start for part, (start, stop) in zip(parts, spans, strict=True)):
            hint = "Copy the file to a local folder, or to a server that answers range requests."
            raise DataError("the server does not read by ranges", where=self.path, hint=hint)
        return dict(zip(starts, parts, strict=True))

    def current_identity(self) -> FileIdentity:
        """The identity of the file at the URL now."""
        self._after_a_fork()
        with _our_errors(self.path):
            self._system.invalidate_cache(self._system._parent(self._name))
            return _identity(self._system.info(self._name))

    def _after_a_fork(self) -> None:
        """Connections belong to the process that made them: a child makes its own."""
        if self._process != os.getpid():
            self._process, (self._system, self._name) = os.getpid(), _system(self.url)

    def close(self) -> None:
        """Ends reading; there is nothing to close."""
        self._is_open = False


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans [start, stop) that hold all ranges, near ones joined; empty ones are left out."""
    spans: list[tuple[int, int]] = []
    for start, stop in sorted((offset, offset + length) for length, offset in ranges if length):
        first, last = spans[-1] if spans else (start, start)
        if spans and start - last <= _GAP_BYTES and stop - first <= _SPAN_BYTES:
            spans[-1] = (first, max(last, stop))
        else:
            spans.append((start, stop))
    return spans


def _part(found: dict[int, bytes], starts: list[int], length: int, offset: int) -> bytes:
    if not length:
        return b""
    start = starts[bisect_right(starts, offset) - 1]
    return found[start][offset - start : offset - start + length]


# --- listing ----------------------------------------------------------------------------------


class Listed(NamedTuple):
    """One entry of a listing.

    Attributes:
        path: its URL, with all that is in the one that was asked about.
        identity: of a file.
        is_folder: whether it is one.
    """

    path: str
    identity: FileIdentity
    is_folder: bool


class Listing(NamedTuple):
    """What a URL names: one file, the entries of a folder, or what matches a glob; sorted."""

    form: Literal["file", "folder", "glob"]
    entries: list[Listed]


def list_remote(url: str) -> Listing:
    """Asks for what lies at a URL, once.

    Args:
        url: of a file, a folder, or a glob (``s3://bucket/part-*.jsonl``).

    Raises:
        MissingExtraError: fsspec is not installed.
        DataNotFoundError: nothing is there; a glob that matches nothing has no entries.
        DataError: it cannot be reached.
    """
    system, name = _system(url)
    with _our_errors(masked(url)):
        system.invalidate_cache()
        if has_magic(url):
            found = system.glob(name, detail=True).items()
            entries = _entries(url, name, found)
            return Listing("glob", [entry for entry in entries if _is_matched(entry.path, url)])
        info = system.info(name)
        if info.get("type") != "directory":
            return Listing("file", [Listed(url, _identity(info), is_folder=False)])
        inside = [(info["name"], info) for info in system.ls(name, detail=True)]
        return Listing("folder", _entries(f"{url.rstrip('/')}/", f"{name.rstrip('/')}/", inside))


def _is_matched(path: str, pattern: str) -> bool:
    """As on the local file system, names that begin with a dot match only where it is written."""
    return "/." in pattern or "/." not in path


def has_magic(url: str) -> bool:
    """Whether a URL is a glob; in http a question mark begins the query."""
    magic = "*[" if scheme_of(url) in ("http", "https") else "*[?"
    return any(character in magic for character in without_query(url))


def _entries(url: str, name: str, found: Any) -> list[Listed]:
    """Entries with URLs made of the one asked about, whose user and query names do not have."""
    base_url, base_name = _literal(url), _literal(name)
    listed = []
    for path, info in found:
        rest = path.removeprefix(base_name) if path.startswith(base_name) else ""
        if not rest.strip("/"):
            continue  # what stands for the folder itself
        is_folder = info.get("type") == "directory"
        listed.append(Listed(base_url + rest.rstrip("/"), _identity(info), is_folder))
    return sorted(listed)


def _literal(pattern: str) -> str:
    """The folder, with its slash, up to the first character that a glob reads."""
    at = min((i for c in "*[?" if (i := pattern.find(c)) >= 0), default=len(pattern))
    return pattern[: pattern.rfind("/", 0, at) + 1]


# --- fsspec -----------------------------------------------------------------------------------


def _system(url: str) -> tuple[Any, str]:
    """The file system in charge of a URL, and the file's name there."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        needed_for = f"reading {scheme_of(url)}:// URLs"
        raise MissingExtraError("fsspec", extra="remote", needed_for=needed_for) from error
    with _our_errors(masked(url)):
        try:
            system, name = url_to_fs(url)
        except ImportError as error:
            raise _missing_package(url, error) from error
        except ValueError as error:
            if "Protocol not known" not in str(error):
                raise
            what = f"the protocol {scheme_of(url)!r} is not known"
            hint = "Check the URL; s3://, gs://, az://, https:// and the others of fsspec work."
            raise DataError(what, where=masked(url), hint=hint) from error
    return system, name


def _missing_package(url: str, error: ImportError) -> DataError:
    package = _PACKAGES.get(scheme_of(url))
    what = f"{scheme_of(url)}:// needs a package that is not installed ({masked(str(error))})"
    if package is not None:
        what = f"{scheme_of(url)}:// needs the package {package!r}, which is not installed"
    hint = f"pip install {package}" if package else "Install it; fsspec's message names it."
    return DataError(what, where=masked(url), hint=hint)


def _identity(info: Mapping[str, Any]) -> FileIdentity:
    size = int(info.get("size") or 0)
    for name in _STRONG:
        if info.get(name):
            return FileIdentity(size, 0, token=f"{name}={info[name]}")
    for name in _TIMES:
        if info.get(name):
            nanoseconds = _nanoseconds(info[name])
            return FileIdentity(size, nanoseconds, token=f"{name}={nanoseconds or info[name]}")
    return FileIdentity(size, 0)


def _nanoseconds(moment: Any) -> int:
    """A time in nanoseconds since the epoch, to the microsecond; 0 where it cannot be told."""
    import datetime

    if isinstance(moment, str):
        try:
            moment = datetime.datetime.fromisoformat(moment)
        except ValueError:
            return 0
    if isinstance(moment, datetime.datetime):
        moment = moment.timestamp()
    return round(float(moment) * 1e6) * 1000 if isinstance(moment, (int, float)) else 0


# --- errors -----------------------------------------------------------------------------------

_REFUSED: Final = (401, 403)
_ABSENT: Final = (404, 410)


@contextmanager
def _our_errors(where: str) -> Iterator[None]:
    """Says whatever goes wrong elsewhere as an error of ours: each store has its own kinds."""
    try:
        yield
    except RolloutDSError:
        raise
    except Exception as error:
        raise _as_ours(error, where) from error


def _as_ours(error: Exception, where: str) -> DataError:
    text = masked(" ".join(str(error).split()))
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    # fsspec says of every answer to a first question over http that there is no such file.
    status = getattr(error, "status", None) or getattr(error.__cause__, "status", None)
    is_refused = isinstance(error, PermissionError) or status in _REFUSED
    if not is_refused and (isinstance(error, FileNotFoundError) or status in _ABSENT):
        hint = "Check the URL; a file, a folder, a glob or URL@[start:end] is expected."
        return DataNotFoundError("no such file or folder", where=where, hint=hint)
    if is_refused or _is_about_credentials(error):
        if error.__cause__ is not None:
            said = masked(f"{type(error.__cause__).__name__}: {error.__cause__}")
        hint = "Check the credentials in the environment, and what their account may read."
        return DataError(f"access is refused ({said})", where=where, hint=hint)
    if isinstance(error, TimeoutError):
        hint = "Try again; check the network and the address of the service."
        return DataError(f"no answer in time ({said})", where=where, hint=hint)
    hint = "Check the address, the network and the credentials in the environment."
    return DataError(f"cannot be read ({said})", where=where, hint=hint)


def _is_about_credentials(error: Exception) -> bool:
    name = type(error).__name__
    return "Credential" in name or "Unauthorized" in name or "Auth" in name
