"""``rolloutds peek --from-ckpt``: the next groups of a saved state."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rolloutds.cli.ckpt_inputs import Data, choose, named_path, say_bad
from rolloutds.cli.options import Invocation, say_left_out
from rolloutds.errors import ConfigError
from rolloutds.filters import BufferFilter, load_function, pop_first
from rolloutds.sample import SampleGroup


def show_resume(
    context: Any, invocation: Invocation, named: str, num_groups: int, *, full: bool
) -> None:
    """Shows what a run resumed from a state is served next, and where each group comes from.

    Args:
        context: the call, for messages that repeat it.
        invocation: its shared options.
        named: a rollout id in the configured folder, or a cursor file or checkpoint folder.
        num_groups: how many groups.
        full: whether prompts are shown whole.

    Raises:
        CheckpointError: there is no such state, or it does not fit the data.
        DataError: the data cannot be used.
        FilterError: the filter cannot be loaded.
    """
    from rolloutds.reports.peek_resume_report import resume_report

    rollout_id = int(named) if named.isdecimal() else None
    found = named_path(invocation, named if rollout_id is None else None)
    if rollout_id is not None and invocation.script and found.resolved.config.load is None:
        raise ConfigError(
            f"--from-ckpt {named} is an id in a folder, and the script's --load is not known",
            hint="name the folder with --load, or give --from-ckpt a path",
        )
    chosen = choose(found.path, rollout_id, None)
    say_bad(chosen)
    file = chosen.require()
    data = Data(context, invocation, found.resolved, file)
    config = data.dataset.config
    if config.buffer_filter_path is None:
        say_left_out(found.resolved, "buffer_filter_path")
    picks, filter_name = _filter(config.buffer_filter_path)

    def pick(buffer: list[SampleGroup], count: int) -> Sequence[SampleGroup]:
        return picks(config, None, buffer, count)

    groups = data.upcoming(num_groups, None, pick=pick)
    invocation.write(resume_report(file, data.dataset, groups, filter_name=filter_name, full=full))


def _filter(path: str | None) -> tuple[BufferFilter, str]:
    # A path that a config file merely found lies in never gets here: `config.resolve` drops it.
    if path is None:
        return pop_first, "pop_first"
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    return load_function(path), path
