"""Reads damaged copies of a file and counts what comes of it: ``path cut|flip|flip-pickle count``.

A program of its own, because without torch a trial takes three milliseconds.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rolloutds.errors import TorchFileError
from rolloutds.torch_file import Budget, read
from rolloutds.torch_file.pickled import Pickle


def cut(data: bytes, count: int) -> Iterator[bytes]:
    """Copies cut at places all over the file."""
    for i in range(count):
        yield data[: i * len(data) // count]


def flip(data: bytes, count: int, *, start: int, stop: int) -> Iterator[bytes]:
    """Copies with one bit turned, between `start` and `stop`."""
    draw = random.Random(4)
    for _ in range(count):
        damaged = bytearray(data)
        damaged[draw.randrange(start, stop)] ^= 1 << draw.randrange(8)
        yield bytes(damaged)


def outcome(path: Path) -> str:
    """How reading ends; anything but these two ends the program."""
    try:
        read(path, budget=Budget(max_seconds=5.0))
    except TorchFileError as error:
        return "refused" if str(path) in str(error) else "refused without its path"
    return "read"


def main(source: Path, how: str, count: int) -> None:
    """Prints the counts as JSON."""
    data = source.read_bytes()
    if how == "cut":
        copies = cut(data, count)
    elif how == "flip":
        copies = flip(data, count, start=0, stop=len(data))
    else:
        # The checksum would hide what the unpickler makes of it.
        Pickle.check = lambda self: None  # type: ignore[method-assign]
        start = data.index(b"\x80\x02}")
        copies = flip(data, count, start=start, stop=start + 400)
    path = source.with_name("damaged.pt")
    found: Counter[str] = Counter()
    for damaged in copies:
        path.write_bytes(damaged)
        found[outcome(path)] += 1
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
