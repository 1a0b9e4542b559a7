"""``rolloutds buffer replay``: what a buffer filter would do, tried on a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import typer

from rolloutds.cli import output
from rolloutds.cli.buffer_defaults import (
    FOUND_ERRORS,
    NOTHING_CHECKED,
    ONE_FILE,
    files_or_sample,
    run_settings,
)
from rolloutds.cli.buffer_inputs import From, say_notices
from rolloutds.cli.command import PlainCommand
from rolloutds.cli.options import Invocation, say_left_out, takes_settings
from rolloutds.config import SETTINGS, ResolvedConfig
from rolloutds.errors import ConfigError, GroupError
from rolloutds.rollouts import open_groups

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_DEFAULT_FILTER = "rolloutds.filters.pop_first"
_DEFAULT_NUM_SAMPLES = 32
_DEFAULT_TIME_LIMIT = 30.0


@app.command("replay", cls=PlainCommand)
@takes_settings(
    "n_samples_per_prompt",
    "reward_key",
    "rollout_batch_size",
    "rollout_seed",
    "buffer_filter_path",
    has_data=False,
    has_cache=False,
)
def replay_filters(
    *,
    file: Annotated[str | None, ONE_FILE] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="MOD.FN",
            help="Filter: mod.fn, mod:fn or file.py:fn; several are shown side by side.",
        ),
    ] = None,
    num_samples: Annotated[
        int | None,
        typer.Option(
            "--num-samples", metavar="K", help="Groups asked for a round. [default: batch size]"
        ),
    ] = None,
    num_rounds: Annotated[
        int | None,
        typer.Option("--rounds", metavar="N", help="Rounds. [default: until the buffer is empty]"),
    ] = None,
    rollout_id: Annotated[
        int | None,
        typer.Option("--rollout-id", metavar="R", help="Rollout id of the first round."),
    ] = None,
    refill: Annotated[
        list[str] | None,
        typer.Option("--refill", metavar="DUMP", help="Groups that come back between rounds."),
    ] = None,
    set_args: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An attribute of the filter's args."),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option("--time-limit", metavar="S", help="Seconds a call may take. [default: 30]"),
    ] = None,
    fail_on: Annotated[
        Literal["error", "warning"],
        typer.Option("--fail-on", help="Findings that make the exit code 1.", show_default=True),
    ] = "error",
    from_format: From = None,
    invocation: Invocation,
) -> None:
    """Try a buffer filter: round by round what it takes and leaves, and what is wrong with it.

    The filter is run on copies, in a process of its own. The current folder can be imported from.
    """
    from rolloutds.replay import ReplaySettings
    from rolloutds.replay_child import replay_in_child
    from rolloutds.reports.replay_report import replay_report

    resolved = run_settings(invocation)
    paths = files_or_sample(file)
    size = _set_size(resolved)
    groups = _members(paths, from_format, size)
    if not groups:
        output.say(f"{', '.join(paths)}: no groups, so there is nothing to replay", label="error")
        raise typer.Exit(NOTHING_CHECKED)
    returning = _members(refill, from_format, size) if refill else []
    settings = ReplaySettings(
        num_samples=_num_samples(num_samples, resolved),
        num_rounds=num_rounds,
        rollout_id=rollout_id,
        n_samples_per_prompt=size or _say_commonest(groups),
        time_limit=_seconds(time_limit),
    )
    _check_refill(returning, settings.n_samples_per_prompt)
    args = _filter_args(resolved, settings, set_args or ())
    sys.path.insert(0, str(Path.cwd()))
    try:
        replays = [
            replay_in_child(path, groups, args=args, settings=settings, refill=returning)
            for path in _filters(filters, resolved)
        ]
    finally:
        sys.path.pop(0)
    invocation.write(
        replay_report(
            replays,
            files=paths,
            num_samples=settings.num_samples,
            reward_key=resolved.config.reward_key,
        )
    )
    found = [finding for replay in replays for finding in replay.findings]
    if any(finding.severity == "error" or fail_on == "warning" for finding in found):
        raise typer.Exit(FOUND_ERRORS)


def _members(paths: Sequence[str], format_name: str | None, size: int | None) -> list[Any]:
    groups = open_groups(paths, format_name=format_name, n_samples_per_prompt=size)
    members: list[Any] = [group.members for group in groups]
    say_notices(groups)
    return members


def _check_refill(groups: Sequence[Any], size: int | None) -> None:
    from rolloutds.replay import number_of, size_of

    for position, group in enumerate(groups):
        if size is not None and size_of(group) != size:
            raise GroupError(
                f"group {number_of(group, position)} has {size_of(group)} samples",
                where="--refill",
                expected=f"{size}, n_samples_per_prompt",
                hint="a run takes groups of one size only",
            )


def _set_size(resolved: ResolvedConfig) -> int | None:
    is_set = resolved.is_set("n_samples_per_prompt")
    return resolved.config.n_samples_per_prompt if is_set else None


def _say_commonest(groups: Sequence[Any]) -> int | None:
    from rolloutds.replay import commonest_size

    size = commonest_size(groups)
    output.say(
        f"n_samples_per_prompt is not set: {size}, the commonest size of the groups", label="note"
    )
    return size


def _num_samples(given: int | None, resolved: ResolvedConfig) -> int:
    if given is not None:
        return given
    if resolved.config.groups_per_request is not None:
        output.say(
            f"{resolved.config.groups_per_request} groups are asked for a round, the batch size",
            label="note",
        )
        return resolved.config.groups_per_request
    output.say(f"{_DEFAULT_NUM_SAMPLES} groups are asked for a round (--num-samples)", label="note")
    return _DEFAULT_NUM_SAMPLES


def _seconds(text: str | None) -> float:
    try:
        return _DEFAULT_TIME_LIMIT if text is None else float(text)
    except ValueError as error:
        raise ConfigError(f"{text!r}", where="--time-limit", expected="seconds") from error


def _filters(given: Sequence[str] | None, resolved: ResolvedConfig) -> list[str]:
    if given:
        return list(dict.fromkeys(given))
    if resolved.config.buffer_filter_path is not None:
        return [resolved.config.buffer_filter_path]
    say_left_out(resolved, "buffer_filter_path")
    output.say(f"no filter named (--filter): {_DEFAULT_FILTER}", label="note")
    return [_DEFAULT_FILTER]


def _filter_args(
    resolved: ResolvedConfig, settings: Any, assignments: Sequence[str]
) -> SimpleNamespace:
    """What the filter gets as ``args``: the run's settings, and what ``--set`` says."""
    values = {setting.name: getattr(resolved.config, setting.name) for setting in SETTINGS}
    values["n_samples_per_prompt"] = settings.n_samples_per_prompt
    values["rollout_batch_size"] = values["rollout_batch_size"] or settings.num_samples
    for assignment in assignments:
        name, sign, text = assignment.partition("=")
        if not sign or not name.isidentifier():
            raise ConfigError(f"{assignment!r}", where="--set", expected="NAME=VALUE")
        values[name] = _value(text)
    return SimpleNamespace(**values)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"True": True, "False": False, "None": None}.get(text, text)
