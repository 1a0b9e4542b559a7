"""Which format a file has: by what is in it, or by the name the user gives."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from rolloutds.errors import ConfigError, DataError
from rolloutds.rollouts.base import GroupReader
from rolloutds.rollouts.dump_file import DumpFile, LinesFile, ParquetFile, TorchFile

Readers = Mapping[str, GroupReader[Any]]


def reader_for(file: DumpFile, readers: Readers, format_name: str | None) -> GroupReader[Any]:
    """The reader of a file.

    Args:
        file: the file, opened.
        readers: every reader by name.
        format_name: the format to take it for; None to recognise it.

    Raises:
        ConfigError: there is no format of that name, or it is in another kind of file.
        DataError: it is recognised as none; the message says what was looked for.
    """
    if isinstance(file, LinesFile):
        file.first_value  # noqa: B018 - an empty file is an error, whatever it is taken for
    if format_name is not None:
        return _named(file, readers, format_name)
    for reader in readers.values():
        if isinstance(file, reader.file_type) and reader.recognises(file):
            return reader
    raise _unknown(file, readers)


def check_format(readers: Readers, name: str | None) -> None:
    """Refuses a name that no format has.

    Raises:
        ConfigError: there is none of that name.
    """
    if name is None or name in readers:
        return
    nearest = difflib.get_close_matches(name, readers, n=1)
    raise ConfigError(
        f"there is no format {name!r}",
        expected=f"one of {', '.join(readers)}",
        hint=f"did you mean {nearest[0]!r}?" if nearest else None,
    )


def _named(file: DumpFile, readers: Readers, name: str) -> GroupReader[Any]:
    check_format(readers, name)
    reader = readers[name]
    if not isinstance(file, reader.file_type):
        raise ConfigError(
            f"is {_KINDS[type(file)]}", where=file.path, expected=f"{name}: {reader.looks_for}"
        )
    return reader


_KINDS: dict[type[DumpFile], str] = {
    LinesFile: "JSON Lines",
    TorchFile: "a .pt file",
    ParquetFile: "a Parquet file",
}


def _unknown(file: DumpFile, readers: Readers) -> DataError:
    looked_for = "\n".join(
        f"  {name}: {reader.looks_for}"
        for name, reader in readers.items()
        if isinstance(file, reader.file_type)
    )
    return DataError(
        f"has no format that is known: {_KINDS[type(file)]} with {_found(file)}; "
        f"what was looked for:\n{looked_for}",
        where=file.path,
        hint=_hint(file),
    )


def _found(file: DumpFile) -> str:
    if isinstance(file, ParquetFile):
        return f"the columns {_some([name for name, _ in file.columns])}"
    value = file.first_value if isinstance(file, LinesFile) else getattr(file, "value", None)
    if isinstance(value, dict):
        return f"the keys {_some(list(value))}" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    return f"a {type(value).__name__}"


def _some(names: list[Any]) -> str:
    shown = ", ".join(f"{name!r:.40}" for name in names[:12])
    return f"{shown}, …" if len(names) > 12 else shown


def _hint(file: DumpFile) -> str:
    value = getattr(file, "value", None) if isinstance(file, TorchFile) else None
    if isinstance(value, dict) and "sample_offset" in value:
        return "it is a cursor file without a buffer: `rolloutds ckpt show` reads it"
    return "name the format with --from where the content does not show it"
