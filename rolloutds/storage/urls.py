"""Names of files that lie elsewhere: ``scheme://…``, and how they are shown."""

from __future__ import annotations

import re
from typing import Final

from rolloutds.errors import ConfigError

# Two letters or more, so that a Windows drive is none; `zip::s3://` chains one to another.
_REMOTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?:::[A-Za-z][A-Za-z0-9+.-]+)*://")
_LOCAL: Final = re.compile(r"(?:file|local)://", re.IGNORECASE)
_PASSWORD: Final = re.compile(r"(://[^/@:\s]*:)[^/@\s]+@(?!\[)")
_WEB_USER: Final = re.compile(r"((?:https?|hf)://)[^/@:\s]+@(?!\[)")
_QUERY: Final = re.compile(r"(://[^\s?]*\?)[^\s?/]*=[^\s'\"]*")


def local_path(path: str) -> str:
    """The path without the scheme ``file://``; any other as it is."""
    return _LOCAL.sub("", path, count=1) if _LOCAL.match(path) else path


def is_remote(path: str) -> bool:
    """Whether a path is a URL of another place than the local file system."""
    return _REMOTE.match(path) is not None and _LOCAL.match(path) is None


def require_local(path: str, where: str) -> None:
    """Refuses a URL where only the local file system will do.

    Raises:
        ConfigError: the path is one.
    """
    if is_remote(path):
        raise ConfigError(
            f"{masked(path)} is a URL",
            where=where,
            expected="a path on the local file system",
            hint="states and results are written locally: use a mounted folder, or copy them",
        )


def scheme_of(url: str) -> str:
    """The protocol in charge of a URL: the first of a chain."""
    return url.partition("://")[0].partition("::")[0].lower()


def without_query(url: str) -> str:
    """The URL up to its query, which holds signatures and no part of a file's name."""
    if scheme_of(url) in ("http", "https"):
        return url.partition("?")[0]
    return url


def masked(text: str) -> str:
    """The text without what may be secret in its URLs: passwords, tokens, signed queries."""
    if "://" not in text:
        return text
    text = _PASSWORD.sub(r"\1***@", text)
    return _QUERY.sub(r"\1***", _WEB_USER.sub(r"\1***@", text))
