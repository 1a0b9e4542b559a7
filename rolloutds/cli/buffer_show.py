"""``rolloutds buffer show``: the groups of a buffer file or dump."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rolloutds.cli.buffer_defaults import ONE_FILE, files_or_sample, run_settings
from rolloutds.cli.buffer_inputs import From, say_notices
from rolloutds.cli.command import PlainCommand
from rolloutds.cli.options import Invocation, takes_settings
from rolloutds.errors import ConfigError, GroupError
from rolloutds.rollouts import Groups, open_groups

if TYPE_CHECKING:
    from rolloutds.rollouts.group_facts import GroupFacts

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("show", cls=PlainCommand)
@takes_settings("n_samples_per_prompt", "reward_key", has_data=False, has_cache=False)
def show_groups(
    *,
    file: Annotated[str | None, ONE_FILE] = None,
    group: Annotated[
        int | None,
        typer.Option("--group", metavar="N", help="Show this group in full."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="EXPR", help="Groups for which 'reward_std == 0 and age > 2' holds."
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="COLUMN", help="Order; -COLUMN from the highest down."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="K", help="Show the first K groups.")
    ] = None,
    from_format: From = None,
    invocation: Invocation,
) -> None:
    """Show groups, one a row: statuses, rewards, lengths, weight versions; or one in full.

    The columns that --where and --sort know are those of --format json.
    """
    resolved = run_settings(invocation)
    is_set = resolved.is_set("n_samples_per_prompt")
    groups = open_groups(
        files_or_sample(file),
        format_name=from_format,
        n_samples_per_prompt=resolved.config.n_samples_per_prompt if is_set else None,
    )
    if group is not None:
        if where is not None or sort is not None or limit is not None:
            raise ConfigError(
                "--group with --where, --sort or --limit", expected="one or the other"
            )
        _show_one(invocation, groups, group, resolved.config.reward_key)
        return
    _show_rows(invocation, groups, resolved.config.reward_key, where, sort, limit)


def _show_one(invocation: Invocation, groups: Groups, number: int, reward_key: str | None) -> None:
    from rolloutds.reports.buffer_report import group_report
    from rolloutds.rollouts.group_facts import facts_of

    found = None
    newest = None
    first: int | None = None
    last: int | None = None
    for position, read in enumerate(groups):
        facts = facts_of(read, position, reward_key)
        newest = _newest([facts], newest)
        first = facts.group if first is None else min(first, facts.group)
        last = facts.group if last is None else max(last, facts.group)
        if facts.group == number and found is None:
            found = read, facts
        del read
    say_notices(groups)
    if found is None:
        raise GroupError(
            f"no group {number}",
            where=", ".join(groups.paths[:3]),
            expected="no groups at all" if first is None else f"one of {first} to {last}",
        )
    invocation.write(group_report(*found, newest))


def _show_rows(
    invocation: Invocation,
    groups: Groups,
    reward_key: str | None,
    where: str | None,
    sort: str | None,
    limit: int | None,
) -> None:
    from rolloutds.reports.buffer_report import show_report
    from rolloutds.rollouts.group_facts import COLUMNS
    from rolloutds.rollouts.stats import iter_facts
    from rolloutds.rollouts.where import check_column, parse_where

    condition = parse_where(where, COLUMNS) if where is not None else None
    if sort is not None:
        check_column(sort.removeprefix("-"), COLUMNS, where="--sort")
    facts = list(iter_facts(groups, reward_key))
    say_notices(groups)
    newest = _newest(facts, None)
    shown = facts
    if condition is not None:
        shown = [entry for entry in facts if condition(entry.columns(newest))]
    if sort is not None:
        shown = _sorted(shown, sort, newest)
    invocation.write(show_report(shown[:limit], num_groups=len(facts), newest=newest))


def _newest(facts: Iterable[GroupFacts], newest: int | None) -> int | None:
    found = [entry.versions[-1] for entry in facts if entry.versions]
    return max(found if newest is None else [*found, newest], default=None)


def _sorted(facts: list[GroupFacts], sort: str, newest: int | None) -> list[GroupFacts]:
    """In the order of a column; groups without a value come last, either way."""
    name = sort.removeprefix("-")
    keyed: list[tuple[Any, GroupFacts]] = [(f.columns(newest)[name], f) for f in facts]
    with_value = [pair for pair in keyed if pair[0] is not None]
    with_value.sort(key=lambda pair: pair[0], reverse=sort.startswith("-"))
    return [f for _, f in with_value] + [f for value, f in keyed if value is None]
