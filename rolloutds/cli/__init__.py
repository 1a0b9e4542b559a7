"""The command ``rolloutds``; `main` is its entry, the subcommands are listed in `root`."""

from __future__ import annotations

_INTERRUPTED = 130


def main() -> None:
    """Runs the command with the arguments of the process, and exits with its code."""
    # Imported here, so that an interrupt while it loads ends as quietly as one while it works.
    try:
        from rolloutds.cli.root import run
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None
    run()
