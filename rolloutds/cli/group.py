"""The root of the command: subcommands loaded when called, every error mapped to an exit code.

Exit codes: 0 fine, 1 findings, 2 wrong usage, 3 could not run, 4 nothing was checked,
70 a bug, 130 interrupted.
"""

from __future__ import annotations

import importlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from rolloutds.cli import output
from rolloutds.cli.command import take_plain_values
from rolloutds.errors import ConfigError, RolloutDSError

WRONG_USAGE = 2
COULD_NOT_RUN = 3
BUG = 70
INTERRUPTED = 130

_ARGUMENTS = "rolloutds.arguments"
_DEBUG = "rolloutds.debug"


class Subcommand(NamedTuple):
    """A subcommand that is not loaded yet."""

    module: str
    help: str


def _note_debug(context: typer.Context, value: bool) -> None:  # noqa: FBT001 - called by Typer
    if value:
        context.meta[_DEBUG] = True


DEBUG = typer.Option(
    "--debug", callback=_note_debug, is_eager=True, help="Show the traceback of an error."
)
"""The option ``--debug``, before the subcommand or after it."""


def arguments_of(context: Any) -> list[str]:
    """The whole command line of a context, without the program's name."""
    return list(context.meta.get(_ARGUMENTS, ()))


class LazyGroup(TyperGroup):
    """A group whose help and completion know subcommands by name, without importing them."""

    subcommands: ClassVar[Mapping[str, Subcommand]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, subcommand in self.subcommands.items():
            # A stand-in with the name and help; `resolve_command` puts the real one in its place.
            self.add_command(TyperCommand(name, short_help=subcommand.help, rich_markup_mode=None))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keeps the command line, for messages that repeat it."""
        ctx.meta.setdefault(_ARGUMENTS, list(args))  # a nested group is given only the rest
        take_plain_values(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Loads the subcommand that is named."""
        name, found, rest = super().resolve_command(ctx, args)
        if name is None or name not in self.subcommands:
            return name, found, rest
        module = importlib.import_module(self.subcommands[name].module)
        return name, typer.main.get_command(module.app), rest

    def invoke(self, ctx: Any) -> Any:
        """Runs the subcommand; whatever it raises becomes a message and an exit code."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise typer.Exit(_report(error, ctx.meta)) from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - the signature of Typer
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002 - the signature of Typer
        **extra: Any,
    ) -> Any:
        """Parses and runs; usage errors are printed in our form."""
        try:
            code = super().main(
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except typer.TyperException as error:
            code = _report_usage(error)
        except typer.Abort:
            code = INTERRUPTED
        except (Exception, KeyboardInterrupt) as error:
            # Before a subcommand runs: --version and --help write while arguments are parsed.
            code = _report(error, {_ARGUMENTS: sys.argv[1:] if args is None else list(args)})
        code = output.close_stdout(code if isinstance(code, int) else 0)
        if standalone_mode:
            sys.exit(code)
        return code


def _report_usage(error: Any) -> int:
    """Prints a parser's error in our form: what is wrong, then where to read on."""
    message = " ".join(_usage_message(error).split()).rstrip(".")
    command = error.ctx.command_path if getattr(error, "ctx", None) else "rolloutds"
    output.say(message[:1].lower() + message[1:], label="error")
    output.say(f"`{command} --help` lists what it takes")
    return WRONG_USAGE


def _usage_message(error: Any) -> str:
    nearest = getattr(error, "possibilities", None)
    if nearest:
        return f"{error.message}. Did you mean {' or '.join(nearest)}?"
    return str(error.format_message()).replace("Invalid value for ", "")


def _report(error: BaseException, meta: Mapping[str, Any]) -> int:
    """Says what stopped the command; gives its exit code."""
    if isinstance(error, BrokenPipeError):
        output.silence_stdout()
        return 0
    if isinstance(error, KeyboardInterrupt):
        output.say("interrupted", label="error")
        return INTERRUPTED
    if meta.get(_DEBUG):
        _print_traceback(error)
    if isinstance(error, RolloutDSError):
        output.say(error.headline, label="error")
        if error.hint:
            output.say(error.hint)
        return WRONG_USAGE if isinstance(error, ConfigError) else COULD_NOT_RUN
    if isinstance(error, OSError) and error.strerror is not None:
        where = f"{error.filename}: " if error.filename is not None else ""
        output.say(f"{where}{error.strerror}", label="error")
        return COULD_NOT_RUN
    if isinstance(error, MemoryError):
        output.say("out of memory", label="error")
        return COULD_NOT_RUN
    return _report_bug(error, meta)


def _report_bug(error: BaseException, meta: Mapping[str, Any]) -> int:
    output.say(f"{type(error).__name__}: {error}", label="bug in rolloutds")
    if not meta.get(_DEBUG):
        again = shlex.join(["rolloutds", "--debug", *meta.get(_ARGUMENTS, ())])
        output.say("for a traceback, run:")
        output.say(f"  {again}")
    output.say("please report it with the output of `rolloutds env`")
    return BUG


def _print_traceback(error: BaseException) -> None:
    import traceback

    for line in traceback.format_exception(error):
        output.say(line.rstrip("\n"))
