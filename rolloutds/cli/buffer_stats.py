"""``rolloutds buffer stats``: figures over the groups of buffer files and dumps."""

from __future__ import annotations

from typing import Annotated

import typer

from rolloutds.cli import output
from rolloutds.cli.buffer_defaults import FILES, NOTHING_CHECKED, files_or_sample, run_settings
from rolloutds.cli.buffer_inputs import From, say_notices
from rolloutds.cli.command import PlainCommand
from rolloutds.cli.options import Invocation, takes_settings
from rolloutds.rollouts import open_groups

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("stats", cls=PlainCommand)
@takes_settings("n_samples_per_prompt", "reward_key", has_data=False, has_cache=False)
def show_stats(
    *,
    files: Annotated[list[str] | None, FILES] = None,
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="FIELD", help="Split by a field, as metadata.source."),
    ] = None,
    from_format: From = None,
    invocation: Invocation,
) -> None:
    """Count groups and samples; draw rewards and lengths; of several files, show the trend.

    Memory holds one dump at a time.
    """
    from rolloutds.reports.buffer_report import stats_report
    from rolloutds.rollouts.stats import stats_of

    resolved = run_settings(invocation)
    is_set = resolved.is_set("n_samples_per_prompt")
    groups = open_groups(
        files_or_sample(files),
        format_name=from_format,
        n_samples_per_prompt=resolved.config.n_samples_per_prompt if is_set else None,
    )
    stats = stats_of(groups, reward_key=resolved.config.reward_key, by=by)
    say_notices(groups)
    if not stats.dumps:
        output.say("no groups in the files", label="error")
        raise typer.Exit(NOTHING_CHECKED)
    invocation.write(stats_report(stats, by=by))
