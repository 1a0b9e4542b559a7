"""Where results and remarks go: stdout is the result, stderr is everything said about it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from typing import Any

from rolloutds.errors import RolloutDSError
from rolloutds.reports import render
from rolloutds.reports.model import Report
from rolloutds.reports.visible import visible_lines
from rolloutds.storage import masked

_FOR_PROGRAMS = frozenset({"json", "jsonl"})


def say(text: str, *, label: str | None = None) -> None:
    """A remark on stderr, as ``label: text``.

    What it quotes from data is made visible; what may be secret in a URL is not shown.
    """
    if sys.stderr is None:
        return
    lines = visible_lines(masked(f"{label}: {text}" if label else text))
    try:
        _forgiving(sys.stderr).write("\n".join(lines) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # nobody reads the remarks; the result and the exit code still count


def write_report(report: Report, format_name: str) -> None:
    """The report on stdout. A reader that went away ends it quietly.

    Raises:
        RolloutDSError: stdout cannot be written.
    """
    pieces = render(report, format_name, on_terminal=_is_terminal(sys.stdout))
    write_pieces(pieces, is_for_programs=format_name in _FOR_PROGRAMS)


def write_pieces(pieces: Iterable[str], *, is_for_programs: bool) -> None:
    """Rendered text on stdout; what programs read is UTF-8.

    Raises:
        RolloutDSError: stdout cannot be written.
    """
    if sys.stdout is None:
        raise RolloutDSError("standard output is closed", hint="send it to a file or a pipe")
    stream = _forgiving(sys.stdout)
    if is_for_programs and isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8")  # what JSON is, whatever the locale
    for piece in pieces:
        # Only the write is guarded: an error while a row is read is not one of the output.
        if not _written(stream, piece):
            return
    _written(stream, "")


def _written(stream: Any, piece: str) -> bool:
    try:
        if piece:
            stream.write(piece)
        else:
            stream.flush()
    except BrokenPipeError:
        silence_stdout()
        return False
    except OSError as error:
        silence_stdout()
        raise _unwritable(error) from error
    return True


def _unwritable(error: OSError) -> RolloutDSError:
    return RolloutDSError(f"standard output cannot be written ({error.strerror})")


def close_stdout(code: int) -> int:
    """Flushes stdout at the end; gives the exit code, 3 when the result could not be written."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
    except OSError as error:
        silence_stdout()
        say(_unwritable(error).headline, label="error")
        return 3
    return code


def silence_stdout() -> None:
    """Sends what is still buffered nowhere, so that the exit of the process cannot fail on it."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass  # stdout is no file (a test's buffer): there is nothing to fail


def stderr_is_terminal() -> bool:
    """Whether somebody watches the remarks as they come."""
    return _is_terminal(sys.stderr)


def _is_terminal(stream: Any) -> bool:
    return stream is not None and stream.isatty()


def _forgiving(stream: Any) -> Any:
    # A locale that lacks a character shows its escape instead of stopping the command.
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream
