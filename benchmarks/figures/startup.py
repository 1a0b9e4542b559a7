"""The command's help, beside importing what it is made with."""

from __future__ import annotations

import sys

from benchmarks.bench import Bench
from benchmarks.result import Outcome, time_target

_IMPORTS = "import typer, rich.console"


def measure(bench: Bench) -> Outcome:
    """``rolloutds --help`` beside a Python that imports Typer and Rich and does nothing."""
    help_command = bench.cli("--help")
    bench.run(*help_command)  # writes the bytecode
    ours = bench.timing(lambda: bench.run(*help_command))
    imports = bench.timing(lambda: bench.run(sys.executable, "-c", _IMPORTS))
    target = time_target(ours, imports, "typer, rich", limit=1.3)
    return Outcome(ours, {"typer, rich": imports}, [target])
