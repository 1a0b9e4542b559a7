"""``rolloutds buffer stats``: figures over the groups of buffer files and dumps."""

from __future__ import annotations

from typing import Annotated

import typer

from rolloutds.cli import output
from rolloutds.cli.buffer_defaults import FILES, NOTHING_CHECKED, files_or_sample, run_settings
from rolloutds.cli.buffer_inputs import From
from rolloutds.cli.command import PlainCommand
from rolloutds.cli.engine_options import EngineName, FilesDone, Jobs, RayAddress, opened_engine
from rolloutds.cli.options import Invocation, takes_settings
from rolloutds.rollouts import READERS, open_groups

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
    engine: EngineName = None,
    jobs: Jobs = None,
    ray_address: RayAddress = None,
    invocation: Invocation,
) -> None:
    """Count groups and samples; draw rewards and lengths; of several files, show the trend.

    Memory holds one dump at a time, of each process.
    """
    from rolloutds.reports.buffer_report import stats_report
    from rolloutds.rollouts.file_stats import FileSettings, stats_of_files

    resolved = run_settings(invocation)
    is_set = resolved.is_set("n_samples_per_prompt")
    paths = open_groups(files_or_sample(files)).paths
    settings = FileSettings(
        READERS,
        from_format,
        resolved.config.n_samples_per_prompt if is_set else None,
        resolved.config.reward_key,
        by,
    )
    with (
        opened_engine(engine, jobs, ray_address) as opened,
        FilesDone("reading", len(paths)) as done,
    ):
        stats, notices = stats_of_files(paths, settings, opened, on_done=done)
    for notice in notices:
        output.say(notice.text, label="note")
    if not stats.dumps:
        output.say("no groups in the files", label="error")
        raise typer.Exit(NOTHING_CHECKED)
    invocation.write(stats_report(stats, by=by))
