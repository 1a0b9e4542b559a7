"""Options that say where the work of a command is done: here, in more processes, or on Ray."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import typer

from rolloutds.cli.progress import Progress
from rolloutds.engines import ENGINES, Engine, open_engine
from rolloutds.errors import ConfigError

_EngineName: Any = Literal[ENGINES]
EngineName = Annotated[
    _EngineName | None,
    typer.Option("--engine", help="Processes of this machine, or a Ray cluster. [default: local]"),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", metavar="N", help="Tasks at a time; 0: one a core. [default: 1; ray: 0]"
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="ADDR",
        help="Ray cluster to join. [default: $RAY_ADDRESS, else new]",
    ),
]


@contextmanager
def opened_engine(name: str | None, jobs: int | None, ray_address: str | None) -> Iterator[Engine]:
    """The engine that the options ask for, closed with the block; write the result after it.

    Raises:
        ConfigError: options contradict each other.
        MissingExtraError: Ray is asked for and not installed.
        EngineError: the Ray cluster cannot be joined.
    """
    if ray_address is not None and name != "ray":
        raise ConfigError(
            "--ray-address without --engine ray",
            expected="both, or neither",
            hint=f"--engine ray --ray-address {ray_address}",
        )
    # Ray prints what befalls its workers to stdout, which is for the result.
    aside = contextlib.redirect_stdout(sys.stderr) if name == "ray" else contextlib.nullcontext()
    with aside, open_engine(name or "local", jobs, ray_address) as engine:
        yield engine


class FilesDone:
    """Progress over files.

    Args:
        doing: what is going on ("reading").
        total: how many files there are.
    """

    def __init__(self, doing: str, total: int) -> None:
        self._bar = Progress(f"{doing}, files", total)
        self._done = 0

    def __call__(self, name: str) -> None:
        """One more file is done."""
        del name
        self._done += 1
        self._bar(self._done)

    def __enter__(self) -> FilesDone:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.clear()
