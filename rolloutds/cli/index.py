"""``rolloutds index``: the cached indexes of prompt data, built before a run needs them."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

import typer

from rolloutds.cli import output
from rolloutds.cli.command import PlainCommand
from rolloutds.cli.engine_options import EngineName, FilesDone, Jobs, RayAddress, opened_engine
from rolloutds.cli.guessed_keys import guess, guessed_settings, say_guess
from rolloutds.cli.options import Invocation, takes_settings
from rolloutds.config import DataSourceConfig, ResolvedConfig

if TYPE_CHECKING:
    from rolloutds.engines import Engine
    from rolloutds.indexing import Indexes

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_SETTINGS = (
    "hf_checkpoint",
    "rollout_max_prompt_len",
    "input_key",
    "label_key",
    "metadata_key",
    "tool_key",
    "multimodal_keys",
    "apply_chat_template",
    "apply_chat_template_kwargs",
    "chat_template",
    "bad_rows",
    "trust_remote_code",
)
_HAS_BAD_ROWS = 1
_MAX_PROBLEMS = 5


@app.command(cls=PlainCommand)
@takes_settings(*_SETTINGS, has_cache=False)
def index(
    context: typer.Context,
    *,
    engine: EngineName = None,
    jobs: Jobs = None,
    ray_address: RayAddress = None,
    invocation: Invocation,
) -> None:
    """Build the cached index of every file, so that what reads the data next starts at once.

    Give the keys that the run reads: they are part of an index. The exit code is 1 where rows would
    stop the run. With a length limit it says of how many rows the token counts are cached.
    """
    from rolloutds.cache import default_cache_folder
    from rolloutds.reports.index_report import index_report

    resolved = invocation.resolve()
    with opened_engine(engine, jobs, ray_address) as opened:
        config, indexes = _indexed(context, invocation, resolved, opened)
    for notice in indexes.notices:
        output.say(notice.text, label="note")
    limit = config.rollout_max_prompt_len
    num_measured = None
    if limit is not None and not indexes.num_bad:
        whole = dataclasses.replace(config, rollout_max_prompt_len=None)
        num_measured = invocation.open_dataset(whole).num_measured(limit)
    folder = str(default_cache_folder())
    report = index_report(indexes, cache_folder=folder, limit=limit, num_measured=num_measured)
    invocation.write(report)
    if indexes.num_bad:
        _say_bad(indexes)
        raise typer.Exit(_HAS_BAD_ROWS)


def _indexed(
    context: typer.Context, invocation: Invocation, resolved: ResolvedConfig, engine: Engine
) -> tuple[DataSourceConfig, Indexes]:
    """The indexes; keys nobody configured are guessed, which stderr says."""
    from rolloutds.indexing import index_data

    build = partial(
        index_data,
        cache=invocation.cache(),
        engine=engine,
        progress=partial(FilesDone, "indexing"),
    )
    guessed = guess(resolved)
    if guessed is None:
        return resolved.config, build(resolved.config)
    config = dataclasses.replace(resolved.config, **guessed_settings(guessed))
    indexes = build(config)
    if indexes.num_bad and guessed.label_key is not None:
        # A label that only some rows have is no label the run could use.
        guessed = dataclasses.replace(guessed, label_key=None)
        config = dataclasses.replace(resolved.config, **guessed_settings(guessed))
        indexes = build(config)
    say_guess(context, resolved.config, guessed)
    return config, indexes


def _say_bad(indexes: Indexes) -> None:
    problems = [problem for file in indexes.files for problem in file.problems][:_MAX_PROBLEMS]
    rows = "row stops" if indexes.num_bad == 1 else "rows stop"
    output.say(f"{indexes.num_bad:,} bad {rows} a run, the first:", label="error")
    for problem in problems:
        output.say(f"  {problem}")
    output.say("`rolloutds validate` names all of them")
