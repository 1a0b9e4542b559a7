"""What a dialect is: how one system writes where its data stands, and what is read from it."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

UNLIKE, POSSIBLE, LIKELY, CERTAIN = range(4)
"""How much a file looks like a dialect's: by nothing, its content, its name, its neighbours."""

_MAX_COUNT = 1 << 63
_MAX_STEP_INFO = 1 << 16


class Finding(NamedTuple):
    """One thing about a saved state that is wrong, odd, or worth knowing.

    Attributes:
        code: its code; `rolloutds.checkpoints.verify.CODES` describes it.
        field: the field it is about, as the file spells it.
        what: what was found and what was expected, in one sentence.
    """

    code: str
    field: str
    what: str


@dataclass(frozen=True)
class Position:
    """Where a saved state stands; None is what its dialect does not say.

    Attributes:
        epoch_id: 0-based epoch.
        offset: rows of the epoch served.
        num_rows: rows of an epoch.
        num_groups: groups (rows) served over the whole run.
        n_samples_per_prompt: samples in a group.
        num_buffered: groups waiting in the buffer.
        num_in_flight: groups handed out and not settled.
        num_discarded: groups rejected over the whole run.
        order_key: what an epoch without a number is told by; equal in states of one epoch.
        facts: what else the dialect has to say, for people.
        data: the same for programs.
        findings: what is wrong with the state whatever the data.
    """

    epoch_id: int | None = None
    offset: int | None = None
    num_rows: int | None = None
    num_groups: int | None = None
    n_samples_per_prompt: int | None = None
    num_buffered: int | None = None
    num_in_flight: int | None = None
    num_discarded: int | None = None
    order_key: bytes | None = None
    facts: Sequence[tuple[str, str]] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    findings: Sequence[Finding] = ()


class Dialect(ABC):
    """How one system writes its cursor.

    Attributes:
        name: as ``--dialect`` takes it.
        systems: the systems that write it, in words.
        form: what kind of state it is, in words.
        looked_for: what tells such a file from others, in words.
        layouts: where its files lie below a checkpoint folder, ``{id}`` for a number and ``{name}``
            for any text.
        counts_rollouts: whether the number in a file's name is a slime rollout id.
    """

    name: str
    systems: str
    form: str
    looked_for: str
    layouts: tuple[str, ...]
    counts_rollouts: bool = False

    @abstractmethod
    def likeness(self, value: Any, path: Path) -> int:
        """How much a value read from `path` looks like this dialect, `UNLIKE` to `CERTAIN`."""

    @abstractmethod
    def position(self, value: Any) -> Position:
        """Where the state stands. The value may be anything `likeness` was not asked about.

        Raises:
            CheckpointError: it is no state of this dialect at all.
        """


@dataclass(frozen=True)
class CursorFile:
    """A cursor file that was read.

    Attributes:
        path: the file.
        rollout_id: the number in its name (a rollout id or a step); None when it has none.
        value: what is in it, as the safe reader gives it.
        dialect: the dialect it is read as.
        candidates: every dialect it may be, `dialect` first.
        position: where it stands.
        modified: time of its last change, in seconds since 1970.
        num_bytes: its size.
    """

    path: Path
    rollout_id: int | None
    value: Any
    dialect: Dialect
    candidates: Sequence[Dialect]
    position: Position
    modified: float
    num_bytes: int

    @property
    def systems(self) -> str:
        """The systems that may have written it, in words ("verl or SkyRL")."""
        names = [dialect.systems for dialect in self.candidates]
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


class FoundFile(NamedTuple):
    """A file whose place and name are those of a cursor file."""

    path: Path
    rollout_id: int | None
    layout: str


def count_in(value: Any, key: str) -> int | None:
    """The count under a key of a dict; None when there is none, or not one."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if is_count(found) else None


def is_count(value: Any) -> bool:
    """Whether a value is a count of things: an integer from 0 to 2^63."""
    return type(value) is int and 0 <= value < _MAX_COUNT


# --- files by name ------------------------------------------------------------------------


def find_layout(folder: Path, layout: str) -> list[FoundFile]:
    """The files of one layout below `folder`, by ascending id, then by name."""
    found = [
        FoundFile(path, rollout_id, layout)
        for path, rollout_id in _matches(folder, layout.split("/"), _own_id(folder))
        if path.is_file()
    ]
    return sorted(found, key=lambda f: (-1 if f.rollout_id is None else f.rollout_id, str(f.path)))


def id_in_path(path: Path, layouts: Sequence[str]) -> int | None:
    """The id that a path carries when it ends as one of the layouts does."""
    for layout in sorted(layouts, key=len, reverse=True):
        matches = _end_matches(path, layout)
        if matches is not None:
            ids = [match["id"] for match in matches if "id" in match.re.groupindex]
            return _number(ids[0]) if ids else _own_id(path.absolute().parent)
    return None


def id_beside(path: Path) -> int | None:
    """The step in a ``step_info.json`` beside a file (AReaL); None without one."""
    try:
        text = (path.parent / "step_info.json").read_text(encoding="utf-8")[:_MAX_STEP_INFO]
        info = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return None
    return count_in(info, "global_step")


def ends_like(path: Path, layout: str) -> bool:
    """Whether a path ends as a layout does."""
    return _end_matches(path, layout) is not None


def _end_matches(path: Path, layout: str) -> list[re.Match[str]] | None:
    parts = layout.split("/")
    names = path.absolute().parts[-len(parts) :]
    if len(names) < len(parts):
        return None
    found = [_pattern(part).fullmatch(name) for part, name in zip(parts, names, strict=True)]
    matches = [match for match in found if match is not None]
    return matches if len(matches) == len(parts) else None


def _matches(
    folder: Path, parts: Sequence[str], rollout_id: int | None
) -> list[tuple[Path, int | None]]:
    if not parts:
        return [(folder, rollout_id)]
    head, *rest = parts
    if "{" not in head:
        return _matches(folder / head, rest, rollout_id)
    pattern, found = _pattern(head), []
    for name in _names(folder):
        match = pattern.fullmatch(name)
        if match is not None:
            own = _number(match["id"]) if "id" in pattern.groupindex else rollout_id
            found += _matches(folder / name, rest, own)
    return found


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _pattern(part: str) -> re.Pattern[str]:
    escaped = re.escape(part).replace(r"\{id\}", "(?P<id>[0-9]+)")
    return re.compile(escaped.replace(r"\{name\}", ".+"))


def _own_id(folder: Path) -> int | None:
    """The number at the end of a step folder's own name (``global_step_40``)."""
    match = re.fullmatch(r"(?:global_)?step_?([0-9]+)", folder.absolute().name)
    return _number(match[1]) if match else None


def _number(digits: str) -> int | None:
    # A name of thousands of digits is nobody's rollout id, and Python refuses to convert it.
    return int(digits) if len(digits) <= 18 else None
