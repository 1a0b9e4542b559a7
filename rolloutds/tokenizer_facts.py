"""What is known of a tokenizer in a local folder, kept so that it need not be loaded again.

Loading one takes seconds, most of them for importing its library. Where every prompt's length is
in the cache, or proved by its bytes, only these facts are asked for.
"""

from __future__ import annotations

import json
import os
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

from rolloutds.cache import Cache
from rolloutds.token_bounds import TokenBounds

_KIND: Final = "tokenizer"
_FACTS_VERSION: Final = 1
"""Goes up when the facts of the same files come out differently."""
_PACKAGES: Final = ("transformers", "tokenizers")
_SUBFOLDER: Final = "additional_chat_templates"
# A change so soon after the last one might leave the same time stamp.
_SETTLING_NS: Final = 100_000_000


class TokenizerFacts(NamedTuple):
    """What is found in a tokenizer.

    Attributes:
        digest: SHA-256 in hex of what decides the tokens of a text.
        bounds: what the bytes of a text prove of its tokens.
        chat_template: text of the template in use; several as one JSON object; None: none.
    """

    digest: str
    bounds: TokenBounds
    chat_template: str | None


class FactsMemory:
    """The facts of one folder's tokenizer in the cache; files as they are when this is made.

    Args:
        cache: where they are kept.
        folder: the tokenizer's folder.
        chat_template: the template used instead of the folder's own, or None.
    """

    def __init__(self, cache: Cache, folder: Path, chat_template: str | None) -> None:
        self._cache = cache
        self._folder = folder
        self._key = json.dumps([str(folder.absolute()), chat_template])
        self._identity = _identity(folder)

    def recall(self) -> TokenizerFacts | None:
        """The facts; None where none are kept, or a file or package is another by now."""
        entry = self._cache.read(_KIND, self._key)
        if self._identity is None or entry is None or entry.header["identity"] != self._identity:
            return None
        digest, bounds, chat_template = entry.header["facts"]
        return TokenizerFacts(digest, TokenBounds(*bounds), chat_template)

    def keep(self, facts: TokenizerFacts) -> None:
        """Keeps the facts, unless a file changed while the tokenizer was loaded from it."""
        if self._identity is not None and self._identity == _identity(self._folder):
            header = {"source": str(self._folder), "identity": self._identity, "facts": facts}
            self._cache.write(_KIND, self._key, header, {})


def _identity(folder: Path) -> list[Any] | None:
    """What differs where the tokenizer may be another one; None: that cannot be told.

    All files of the folder count, since any may be read; a link stands for what it leads to.
    """
    try:
        versions = [version(package) for package in _PACKAGES]
        files = sorted(_files(folder)) + sorted(_files(folder / _SUBFOLDER))
    except (PackageNotFoundError, OSError):
        return None
    newest = max((ctime_ns for *_, ctime_ns in files), default=0)
    if time.time_ns() - newest < _SETTLING_NS:
        return None
    return [_FACTS_VERSION, versions, [list(file) for file in files]]


def _files(folder: Path) -> list[tuple[str, int, int, int, int]]:
    """Name, size, inode and times of each file; none where there is no such folder."""
    if not folder.is_dir():
        return []
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file():
                stat = entry.stat()
                times = (stat.st_mtime_ns, stat.st_ctime_ns)
                found.append((entry.name, stat.st_size, stat.st_ino, *times))
    return found
