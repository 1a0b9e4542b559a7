"""Files to read by ranges, on the local file system or behind a URL."""

from __future__ import annotations

from rolloutds.storage.base import StoredFile, changed
from rolloutds.storage.identity import FileIdentity
from rolloutds.storage.local import LocalFile, not_found, open_regular
from rolloutds.storage.urls import is_remote, local_path, masked, require_local

__all__ = [
    "FileIdentity",
    "LocalFile",
    "StoredFile",
    "changed",
    "is_remote",
    "local_path",
    "masked",
    "not_found",
    "open_regular",
    "open_stored",
    "require_local",
]


def open_stored(path: str) -> StoredFile:
    """Opens a file to read it by ranges.

    Args:
        path: of the local file system, or a URL (``s3://…``, ``https://…``, ``file://…``).

    Raises:
        DataNotFoundError: there is no such file.
        MissingExtraError: a URL, and fsspec is not installed.
        DataError: it is no regular file, or cannot be read.
    """
    if is_remote(path):
        from rolloutds.storage.remote import RemoteFile

        return RemoteFile(path)
    return LocalFile(local_path(path))
