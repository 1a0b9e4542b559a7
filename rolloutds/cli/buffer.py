"""``rolloutds buffer``: buffer files and rollout dumps of many systems.

Each of its subcommands is one module and one line here, imported when it is called.
"""

from __future__ import annotations

import typer

from rolloutds.cli.group import LazyGroup, Subcommand

BUFFER_SUBCOMMANDS: dict[str, Subcommand] = {
    "show": Subcommand("rolloutds.cli.buffer_show", "Show groups: one a row, or one in full."),
    "stats": Subcommand("rolloutds.cli.buffer_stats", "Count and draw: rewards, lengths, trends."),
    "replay": Subcommand("rolloutds.cli.buffer_replay", "Try a buffer filter before the run does."),
    "filters": Subcommand("rolloutds.cli.buffer_filters", "List the built-in buffer filters."),
    "convert": Subcommand(
        "rolloutds.cli.buffer_convert", "Write groups to a file of another format."
    ),
}
"""Every subcommand of ``rolloutds buffer``."""


class _Buffer(LazyGroup):
    subcommands = BUFFER_SUBCOMMANDS


app = typer.Typer(
    cls=_Buffer,
    rich_markup_mode=None,
    add_completion=False,
    help="Look into buffer files and rollout dumps of many systems, and convert them.",
)


@app.callback(invoke_without_command=True)
def buffer(context: typer.Context) -> None:
    """Look into buffer files and rollout dumps of many systems, and convert them."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)
