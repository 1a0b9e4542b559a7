"""What the names of files and folders say: the rollout id, and whether it was an evaluation."""

from __future__ import annotations

import re
from pathlib import Path


def number_in_name(path: str, pattern: str) -> int | None:
    """The number a file's name has where `pattern` has its group; None without a match."""
    match = re.fullmatch(pattern, Path(path).name)
    return int(match[1]) if match else None


def number_in_folder(path: str, pattern: str) -> int | None:
    """The same for the nearest folder whose name fits."""
    for folder in Path(path).absolute().parents:
        if match := re.fullmatch(pattern, folder.name):
            return int(match[1])
    return None


def has_folder(path: str, name: str) -> bool:
    """Whether a folder above the file has that name."""
    return name in Path(path).absolute().parent.parts
