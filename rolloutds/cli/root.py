"""The command ``rolloutds``: each subcommand is one module and one line here.

A subcommand's module is imported when it is called, so that the others cost it nothing.
"""

from __future__ import annotations

from typing import Annotated

import typer

from rolloutds.cli.group import DEBUG, LazyGroup, Subcommand

SUBCOMMANDS: dict[str, Subcommand] = {
    "peek": Subcommand("rolloutds.cli.peek", "Show the next groups, as the run gets them."),
    "plan": Subcommand("rolloutds.cli.plan", "Lay rollouts out over epochs: leftovers, wraps."),
    "ckpt": Subcommand("rolloutds.cli.ckpt", "Look at cursor files: where a run stands."),
    "buffer": Subcommand("rolloutds.cli.buffer", "Look into buffer files and dumps; convert them."),
    "validate": Subcommand("rolloutds.cli.validate", "Check data, groups and checkpoints, for CI."),
    "manifest": Subcommand("rolloutds.cli.manifest", "List a dataset's files: rows, digests."),
    "index": Subcommand("rolloutds.cli.index", "Build the cached indexes of prompt data ahead."),
    "ray": Subcommand("rolloutds.cli.ray", "Look at a source that the workers of a run share."),
    "explain": Subcommand("rolloutds.cli.explain", "Explain the code of a finding, and the fix."),
    "schema": Subcommand("rolloutds.cli.schema", "Print the JSON Schema of a command's JSON."),
    "config": Subcommand("rolloutds.cli.config", "Show every setting and where it comes from."),
    "env": Subcommand("rolloutds.cli.env", "Show versions and paths, for a bug report."),
    "cache": Subcommand("rolloutds.cli.cache", "Show or clear the cache of indexes and counts."),
}
"""Every subcommand: its module, which has a Typer app named ``app``, and its line of help."""


class _Root(LazyGroup):
    subcommands = SUBCOMMANDS


app = typer.Typer(
    cls=_Root,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(value: bool) -> None:  # noqa: FBT001 - Typer calls it with the value alone
    if value:
        from rolloutds.cli.versions import installed_version

        typer.echo(f"rolloutds {installed_version('rolloutds') or '(not installed as a package)'}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    debug: Annotated[bool, DEBUG] = False,
) -> None:
    """The data source of an RL post-training run, and the tools to look inside it."""
    del version, debug  # both act through their callbacks
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def run() -> None:
    """Runs the command with the arguments of the process, and exits with its code."""
    typer.main.get_command(app).main(prog_name="rolloutds")
