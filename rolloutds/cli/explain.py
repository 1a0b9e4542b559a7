"""``rolloutds explain CODE``: what a code means, why it hurts, an example, how to fix it."""

from __future__ import annotations

from typing import Annotated

import typer

from rolloutds.cli.command import PlainCommand
from rolloutds.cli.options import Invocation, takes_settings

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=PlainCommand)
@takes_settings(has_data=False, has_cache=False)
def explain(
    *,
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="A code, or its name. [default: list all]")
    ] = None,
    invocation: Invocation,
) -> None:
    """Explain a code of `validate` or `buffer replay`: what, why it hurts, an example, a fix."""
    from rolloutds.reports.explain_report import code_report, list_report

    invocation.write(list_report() if code is None else code_report(code))
