"""Which groups a ``buffer`` command is about: files, their format, the size of a group."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rolloutds.cli import output
from rolloutds.cli.options import Invocation
from rolloutds.config import resolve
from rolloutds.rollouts import READERS, Groups, open_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

_ReaderName: Any = Literal[tuple(READERS)]
From = Annotated[
    _ReaderName | None,
    typer.Option("--from", help="Take the files for this format. [default: seen from content]"),
]


def chosen_groups(
    invocation: Invocation, paths: str | Sequence[str], format_name: str | None
) -> Groups:
    """The groups of the files a command was given.

    Raises:
        ConfigError: a setting has a wrong value.
        DataNotFoundError: a path names nothing.
    """
    return open_groups(
        paths, format_name=format_name, n_samples_per_prompt=configured_size(invocation)
    )


def configured_size(invocation: Invocation) -> int | None:
    """`n_samples_per_prompt` as flag, variable or config file say it; None when none does.

    Raises:
        ConfigError: a setting has a wrong value.
    """
    resolved = resolve(
        invocation.flags,
        environment=os.environ,
        config_file=Path(invocation.config_file) if invocation.config_file else None,
        start_folder=Path.cwd(),
        script=invocation.script,
    )
    if not resolved.is_set("n_samples_per_prompt"):
        return None
    return resolved.config.n_samples_per_prompt


def say_notices(groups: Groups) -> None:
    """What was odd about the files, on stderr."""
    for notice in groups.notices:
        output.say(notice.text, label="note")
