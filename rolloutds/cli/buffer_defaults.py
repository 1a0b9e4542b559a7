"""What the ``buffer`` commands that look into files do where nothing is said."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from rolloutds.cli import output
from rolloutds.cli.options import Invocation
from rolloutds.config import ResolvedConfig, resolve
from rolloutds.errors import DataNotFoundError

FOUND_ERRORS = 1
NOTHING_CHECKED = 4

FILES = typer.Argument(
    metavar="[FILE]...",
    help="Buffer files or rollout dumps, folders, globs or URLs of them; else the sample buffer.",
)
ONE_FILE = typer.Argument(
    metavar="[FILE]",
    help="Buffer file or rollout dump, a folder, glob or URL of them; else the sample buffer.",
)


def files_or_sample(files: Sequence[str] | str | None) -> list[str]:
    """The files that are named, else the sample buffer, which stderr says.

    Raises:
        DataNotFoundError: none is named and there is no sample buffer.
    """
    from rolloutds.sample_files import sample_data_folder

    if files:
        return [files] if isinstance(files, str) else list(files)
    sample = sample_data_folder() / "buffer.jsonl"
    if not sample.is_file():
        raise DataNotFoundError("no file is named, and the sample buffer is not installed")
    output.say(f"no file named: using the sample buffer ({sample})", label="note")
    return [str(sample)]


def run_settings(invocation: Invocation) -> ResolvedConfig:
    """The settings of the run, without the sample data's; remarks go to stderr.

    Raises:
        ConfigError: a setting is unknown or has a wrong value.
    """
    resolved = resolve(
        invocation.flags,
        environment=os.environ,
        config_file=Path(invocation.config_file) if invocation.config_file else None,
        start_folder=Path.cwd(),
        script=invocation.script,
    )
    for notice in resolved.notices:
        output.say(notice, label="note")
    return resolved
