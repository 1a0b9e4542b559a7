"""Files with one sample a line: lines to groups."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rolloutds.rollouts.base import GroupPlace
from rolloutds.rollouts.dump_file import Line, LinesFile
from rolloutds.rollouts.record import Record


def runs_of_equal(file: LinesFile, name: str) -> Iterator[tuple[GroupPlace, list[Record]]]:
    """Consecutive records whose field has the same value, as they come.

    Raises:
        DataError: a line is no object.
    """

    def key(line: Line) -> Any:
        return line.value.get(name) if isinstance(line.value, dict) else None

    for position, (_, lines) in enumerate(groupby(file.lines(), key)):
        yield _placed(file, position, list(lines))


def records_by(file: LinesFile, *names: str) -> Iterator[tuple[GroupPlace, list[Record]]]:
    """Records that agree in all the fields, wherever in the file they are.

    Raises:
        DataError: a line is no object.
    """

    def key(line: Line) -> str:
        value = line.value if isinstance(line.value, dict) else {}
        return repr([value.get(name) for name in names])  # whatever it is, it can be a key

    for position, lines in enumerate(file.grouped(key)):
        yield _placed(file, position, lines)


def _placed(file: LinesFile, position: int, lines: list[Line]) -> tuple[GroupPlace, list[Record]]:
    place = GroupPlace(file.path, position, lines[0].number)
    return place, [Record.of_line(line, file.path) for line in lines]
