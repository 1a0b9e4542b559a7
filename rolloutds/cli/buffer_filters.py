"""``rolloutds buffer filters``: the buffer filters that come with the package."""

from __future__ import annotations

import typer

from rolloutds.cli.command import PlainCommand
from rolloutds.cli.options import Invocation, takes_settings

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("filters", cls=PlainCommand)
@takes_settings(has_data=False, has_cache=False)
def list_filters(*, invocation: Invocation) -> None:
    """List the built-in buffer filters: how a run names each, and what it reads from args."""
    from rolloutds.filters import FILTERS
    from rolloutds.reports.buffer_report import filters_report

    invocation.write(filters_report(FILTERS))
