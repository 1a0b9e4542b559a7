"""The good and the bad lines of a file, apart, byte for byte."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from rolloutds.checks.findings import Result
from rolloutds.checks.scan import Lines, open_source
from rolloutds.errors import DataError
from rolloutds.rollouts.atomic_output import whole_file
from rolloutds.storage import open_stored


class Split(NamedTuple):
    """What was written.

    Attributes:
        good: the file of good lines; blank lines are in it.
        bad: the file of lines with an error.
        num_good: lines in it.
        num_bad: lines in it.
    """

    good: str
    bad: str
    num_good: int
    num_bad: int


def split_bad(path: str, name: str, result: Result, folder: str) -> Split:
    """Writes the lines of a file to ``folder/good`` and ``folder/bad``, in their order.

    Args:
        path: where the file is.
        name: the name its findings have.
        result: a result that kept every finding.
        folder: where to.

    Raises:
        DataError: something cannot be read or written.
    """
    bad_lines = {
        finding.row_id
        for finding in result.findings
        if finding.severity == "error" and finding.file == name and finding.row_id is not None
    }
    base = Path(name).name if name != "<stdin>" else "stdin.jsonl"
    good, bad = Path(folder, "good", base), Path(folder, "bad", base)
    for target in (good, bad):
        _make_folder(target.parent)
    num_good, num_bad = _write(path, bad_lines, str(good), str(bad))
    return Split(str(good), str(bad), num_good, num_bad)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be made ({error.strerror})", where=str(folder)) from error


def _write(path: str, bad_lines: Collection[int], good: str, bad: str) -> tuple[int, int]:
    counts = [0, 0]
    with open_stored(path) as file:
        size = file.size
    with (
        open_source(path) as source,
        whole_file(good) as good_file,
        whole_file(bad) as bad_file,
    ):
        number = 0
        for _, lines in Lines(source, 0, size, size):
            for line in lines:
                is_bad = number in bad_lines
                (bad_file if is_bad else good_file).write(line)
                counts[is_bad] += 1
                number += 1
    return counts[0], counts[1]
