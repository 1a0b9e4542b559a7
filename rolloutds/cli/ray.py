"""``rolloutds ray``: a shared source that runs on a Ray cluster, seen from outside."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from rolloutds.cli.command import PlainCommand
from rolloutds.cli.options import Invocation, takes_settings

app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    help="Look at a shared source that runs on a Ray cluster.",
)


@app.callback()
def ray() -> None:
    """Look at a shared source that runs on a Ray cluster."""


@app.command(cls=PlainCommand)
@takes_settings(has_data=False, has_cache=False)
def status(
    *,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name of the shared source.")
    ] = "rolloutds",
    namespace: Annotated[
        str, typer.Option("--namespace", metavar="NAME", help="Namespace of Ray that it is in.")
    ] = "rolloutds",
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address",
            metavar="ADDR",
            help="Cluster to ask. [default: $RAY_ADDRESS, else this machine's]",
        ),
    ] = None,
    invocation: Invocation,
) -> None:
    """Show where a shared source stands, and what each of its workers holds.

    A worker that holds a group for longer than `slow_after` is slow. No cluster is started.
    """
    from rolloutds.integrations.ray.status import read_status
    from rolloutds.reports.ray_report import status_report

    # Ray prints what befalls its workers to stdout, which is for the result.
    with contextlib.redirect_stdout(sys.stderr):
        stats = read_status(name, namespace, ray_address)
    invocation.write(status_report(stats))
