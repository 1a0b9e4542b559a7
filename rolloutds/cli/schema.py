"""``rolloutds schema KIND``: the JSON Schema of a command's JSON."""

from __future__ import annotations

import difflib
import json
from typing import Annotated

import typer

from rolloutds.cli import output
from rolloutds.cli.command import PlainCommand
from rolloutds.errors import ConfigError
from rolloutds.reports.schemas import SCHEMAS

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=PlainCommand)
def schema(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help="A kind of document. [default: list all]")
    ] = None,
) -> None:
    """Print the JSON Schema of what a command prints with --format json."""
    if kind is None:
        output.write_pieces([f"{name}\n" for name in SCHEMAS], is_for_programs=False)
        return
    if kind not in SCHEMAS:
        nearest = difflib.get_close_matches(kind, SCHEMAS, n=1)
        raise ConfigError(
            f"there is no schema of {kind!r}",
            expected=f"one of {', '.join(SCHEMAS)}",
            hint=f"did you mean {nearest[0]}?" if nearest else None,
        )
    output.write_pieces([json.dumps(SCHEMAS[kind], indent=2) + "\n"], is_for_programs=True)
