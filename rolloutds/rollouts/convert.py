"""Groups of any format to a file of another: our buffer file, lines to read, Parquet, a slime dump."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rolloutds.errors import ConfigError
from rolloutds.rollouts.atomic_output import refuse_existing
from rolloutds.rollouts.json_outputs import BufferFile, ReadableLines
from rolloutds.rollouts.opening import Groups
from rolloutds.rollouts.parquet_output import ParquetOutput
from rolloutds.rollouts.slime_output import SlimeDump
from rolloutds.rollouts.writer import GroupWriter

WRITERS: Final[dict[str, type[GroupWriter]]] = {
    "rolloutds": BufferFile,
    "readable": ReadableLines,
    "parquet": ParquetOutput,
    "slime": SlimeDump,
}
"""Every format that can be written, by name; each has an ending of its own."""


@dataclass(frozen=True)
class Conversion:
    """What was written.

    Attributes:
        path: the file.
        format_name: its format, a key of `WRITERS`.
        num_groups: groups in it.
        num_samples: samples in it.
        num_bytes: its size.
        dropped: values left out because of their class, by its name.
        remarks: what was changed on the way.
    """

    path: str
    format_name: str
    num_groups: int
    num_samples: int
    num_bytes: int
    dropped: dict[str, int]
    remarks: list[str]


def convert(
    groups: Groups,
    path: str,
    *,
    format_name: str | None = None,
    drop_tokens: bool = False,
    drop_foreign: bool = False,
    force: bool = False,
) -> Conversion:
    """Writes groups to a file, whole or not at all.

    Args:
        groups: what to write.
        path: the file; its ending decides the format.
        format_name: a key of `WRITERS`, which wins over the ending.
        drop_tokens: leave out what there is for each token.
        drop_foreign: leave out and count values of classes that cannot be written, where the
            default is to refuse.
        force: replace a file that is there.

    Raises:
        ConfigError: neither the ending nor the name is one of a format.
        DataError: the groups cannot be read, a value cannot be written, or the file cannot.
        GroupError: a group is malformed.
    """
    name = format_name or format_of(path)
    if name not in WRITERS:
        raise ConfigError(f"there is no format {name!r} to write", expected=_listed())
    refuse_existing(path, force=force)
    writer = WRITERS[name](drop_tokens=drop_tokens, drop_foreign=drop_foreign)
    writer.write(groups, path)
    return Conversion(
        path=path,
        format_name=name,
        num_groups=sum(file.num_groups for file in groups.files),
        num_samples=sum(file.num_samples for file in groups.files),
        num_bytes=Path(path).stat().st_size,
        dropped=dict(writer.walk.dropped),
        remarks=writer.remarks,
    )


def format_of(path: str) -> str:
    """The format that a file's ending stands for.

    Raises:
        ConfigError: it stands for none.
    """
    for name, writer in WRITERS.items():
        if path.endswith(writer.ending):
            return name
    raise ConfigError(
        "its ending says no format",
        where=path,
        expected=_listed(),
        hint="or name the format with --to",
    )


def _listed() -> str:
    named = (f"{writer.ending} ({name})" for name, writer in WRITERS.items())
    return f"one of {', '.join(named)}"
