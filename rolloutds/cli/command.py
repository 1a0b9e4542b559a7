"""The class of every subcommand: light to start, with the run's settings listed apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand

from rolloutds.config import SETTING

_SHOWN_CHARACTERS = 60


class _PlainValues:
    """Turns the text of an option into its value.

    Typer's own way loads pydantic, which takes longer than all the rest of a warm `peek`.
    """

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        descriptor = param.type_descriptor
        if value is None or isinstance(value, bool):
            return value
        if descriptor.choices is not None:
            return self._choice(value, descriptor.choices, param, ctx)
        if descriptor.annotation is int:
            return self._number(value, param, ctx)
        return value

    def _choice(self, value: Any, choices: tuple[Any, ...], param: Any, ctx: Any) -> Any:
        if value in choices:
            return value
        expected = ", ".join(repr(choice) for choice in choices)
        raise typer.BadParameter(f"{value!r}, expected one of {expected}", ctx=ctx, param=param)

    def _number(self, value: Any, param: Any, ctx: Any) -> int:
        try:
            number = int(value)
        except ValueError as error:
            raise typer.BadParameter(
                f"{_shortened(value)}, expected a whole number", ctx=ctx, param=param
            ) from error
        # Every number of ours counts something or is an index.
        if number < 0:
            raise typer.BadParameter(f"{number}, expected 0 or more", ctx=ctx, param=param)
        return number


def _shortened(value: str) -> str:
    return repr(value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}…")


_VALUES = _PlainValues()


def _plain_values() -> _PlainValues:
    return _VALUES


def take_plain_values(params: Iterable[Any]) -> None:
    """Makes parameters read their text without pydantic; where Typer has no such way, it stays."""
    for param in params:
        if hasattr(param, "get_runtime_param"):
            param.get_runtime_param = _plain_values


class PlainCommand(TyperCommand):
    """A subcommand; its options are text, whole numbers, choices and switches only."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses without pydantic."""
        take_plain_values(self.get_params(ctx))  # with --help, which is not in `params`
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Lists the command's own options apart from the run's settings."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                title, name = _section(param, record[0])
                sections.setdefault(title, []).append((name, record[1]))
        for title in sorted(sections, key=_SECTIONS.index):
            with formatter.section(title):
                formatter.write_dl(sections[title])


_SECTIONS = ("Arguments", "Options", "Settings of the run")


def _section(param: Any, name: str) -> tuple[str, str]:
    """The section a parameter is listed in, and the name it has there."""
    if param.param_type_name == "argument":
        return "Arguments", param.metavar or name
    return ("Settings of the run" if param.name in SETTING else "Options"), name
