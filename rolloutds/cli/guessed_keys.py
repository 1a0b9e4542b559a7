"""Opening prompt data whose keys nobody has configured: they are guessed, and stderr says so."""

from __future__ import annotations

import dataclasses
import shlex
from typing import TYPE_CHECKING, Any

import typer

from rolloutds.cli import output
from rolloutds.cli.group import arguments_of
from rolloutds.cli.options import Invocation
from rolloutds.config import SETTING, DataSourceConfig, ResolvedConfig
from rolloutds.errors import BadRowsError, DataError, MissingExtraError
from rolloutds.key_guess import GuessedKeys, guess_keys

if TYPE_CHECKING:
    from rolloutds.dataset import Dataset


def open_with_guessed_keys(
    context: typer.Context, invocation: Invocation, resolved: ResolvedConfig
) -> Dataset:
    """The dataset; keys nobody configured are guessed, which stderr says.

    Raises:
        DataError: the data cannot be used.
    """
    guessed = guess(resolved)
    if guessed is None:
        return invocation.open_dataset(resolved.config)
    try:
        dataset = _open_guessed(invocation, resolved.config, guessed)
    except BadRowsError:
        if guessed.label_key is None:
            raise
        # A label that only some rows have is no label the run could use: show the rows without.
        guessed = dataclasses.replace(guessed, label_key=None)
        dataset = _open_guessed(invocation, resolved.config, guessed)
    say_guess(context, resolved.config, guessed)
    return dataset


def guess(resolved: ResolvedConfig) -> GuessedKeys | None:
    """The keys nobody configured, from the first row; None where they are, or it has none."""
    config = resolved.config
    if resolved.is_set("input_key") or config.prompt_data is None:
        return None
    row = _first_row(config.prompt_data)
    if row is None:
        return None
    return guess_keys(row, configured=config.input_key, has_label=resolved.is_set("label_key"))


def _first_row(prompt_data: str) -> dict[str, Any] | None:
    # What is wrong with the data is not said here: opening it says so, and where.
    from rolloutds.readers import first_row

    try:
        return first_row(prompt_data)
    except (OSError, DataError, MissingExtraError):
        return None


def _open_guessed(
    invocation: Invocation, config: DataSourceConfig, guessed: GuessedKeys
) -> Dataset:
    return invocation.open_dataset(dataclasses.replace(config, **guessed_settings(guessed)))


def guessed_settings(guessed: GuessedKeys) -> dict[str, Any]:
    """The settings that guessed keys are."""
    changes = {"input_key": guessed.input_key, "label_key": guessed.label_key}
    return {name: value for name, value in changes.items() if value is not None}


def say_guess(context: typer.Context, config: DataSourceConfig, guessed: GuessedKeys) -> None:
    """Says what was guessed, and the command that guesses nothing."""
    flags: list[str] = []
    for name, value in guessed_settings(guessed).items():
        flags += [SETTING[name].flag, value]
    output.say(
        f"no input key is set and rows have no {config.input_key!r}: guessed {shlex.join(flags)}",
        label="note",
    )
    arguments = arguments_of(context)
    after = arguments.index(context.info_name or "") + 1
    command = shlex.join(["rolloutds", *arguments[:after], *flags, *arguments[after:]])
    output.say(f"the same without guessing: {command}", label="note")
