"""``rolloutds cache``: what the cache holds, and how to be rid of it."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import typer

from rolloutds.cli.command import PlainCommand
from rolloutds.cli.options import Invocation, takes_settings
from rolloutds.reports.model import Cells, Column, Facts, Report, Table

if TYPE_CHECKING:
    from rolloutds.cache import CachedFile

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    help="Show or clear the cache of row indexes, orders and token counts.",
)


@app.command(cls=PlainCommand)
@takes_settings(has_data=False, has_cache=False)
def show(*, invocation: Invocation) -> None:
    """Show the cached files, their sizes and what data each is about."""
    from rolloutds.cache import default_cache_folder

    files = invocation.cache().files()
    invocation.write(cache_report(str(default_cache_folder()), files))


@app.command(cls=PlainCommand)
@takes_settings(has_data=False, has_cache=False)
def clear(*, invocation: Invocation) -> None:
    """Remove the cached files; they are made anew when they are needed."""
    from rolloutds.cache import default_cache_folder

    num_files, num_bytes = invocation.cache().clear()
    folder = str(default_cache_folder())
    invocation.write(
        Report(
            kind="cache_clear",
            data={"folder": folder, "num_files": num_files, "num_bytes": num_bytes},
            sections=[
                Facts(
                    [
                        ("folder", folder),
                        ("removed", f"{num_files:,} files, {size_text(num_bytes)}"),
                    ]
                )
            ],
        )
    )


def cache_report(folder: str, files: list[CachedFile]) -> Report:
    """The files of the cache, the largest first."""
    files = sorted(files, key=lambda file: (-file.num_bytes, str(file.path)))
    num_bytes = sum(file.num_bytes for file in files)
    facts = Facts([("folder", folder), ("files", f"{len(files):,}, {size_text(num_bytes)}")])
    rows = [
        Cells(
            [
                file.kind,
                size_text(file.num_bytes),
                _when(file).strftime("%Y-%m-%d %H:%M"),
                file.source or "-",
            ]
        )
        for file in files
    ]
    columns = [
        Column("kind"),
        Column("size", justify="right"),
        Column("made"),
        Column("about", limit=200, is_flexible=True, keeps_end=True),
    ]
    return Report(
        kind="cache",
        data={"folder": folder, "num_files": len(files), "num_bytes": num_bytes},
        records_name="files",
        records=[
            {
                "path": str(file.path),
                "kind": file.kind,
                "source": file.source,
                "num_bytes": file.num_bytes,
                "modified": _when(file).isoformat(),
            }
            for file in files
        ],
        sections=[facts, Table(columns, rows)] if files else [facts],
    )


def _when(file: CachedFile) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(file.modified, tz=datetime.UTC)


def size_text(num_bytes: int) -> str:
    """A size for people, in decimal units."""
    size = float(num_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
