"""``rolloutds config``: every setting, its value and where it comes from."""

from __future__ import annotations

from typing import Any

import typer

from rolloutds.cli.command import PlainCommand
from rolloutds.cli.options import ALL_SETTINGS, Invocation, say_left_out, takes_settings
from rolloutds.config import SETTINGS, ResolvedConfig
from rolloutds.reports.json_text import as_json
from rolloutds.reports.model import Cells, Column, Facts, Report, Table
from rolloutds.storage import masked

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=PlainCommand)
@takes_settings(*ALL_SETTINGS, has_cache=False)
def config(*, invocation: Invocation) -> None:
    """Show every setting, its value and where it comes from.

    A flag wins over a variable ROLLOUTDS_*, a variable over a launch script, a script over a config
    file, a file over the default.
    """
    resolved = invocation.resolve()
    say_left_out(resolved, "buffer_filter_path")
    invocation.write(config_report(resolved))


def config_report(resolved: ResolvedConfig) -> Report:
    """Every setting in its order."""
    config_file = str(resolved.config_file) if resolved.config_file else None
    rows = [
        Cells(
            [setting.name, _shown(_value(resolved, setting.name)), resolved.origins[setting.name]]
        )
        for setting in SETTINGS
    ]
    table = Table(
        [
            Column("setting"),
            Column("value", limit=100, is_flexible=True),
            Column("from", keeps_end=True),
        ],
        rows,
    )
    return Report(
        kind="config",
        data={"config_file": config_file},
        records_name="settings",
        records=[
            {
                "name": setting.name,
                "value": _value(resolved, setting.name),
                "origin": resolved.origins[setting.name],
                "flag": setting.flag,
                "variable": setting.variable,
                "default": setting.default,
                "help": setting.help,
            }
            for setting in SETTINGS
        ],
        sections=[Facts([("config file", config_file or "none found")]), table],
    )


def _value(resolved: ResolvedConfig, name: str) -> Any:
    value = getattr(resolved.config, name)
    return masked(value) if isinstance(value, str) else value


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else as_json(value)
