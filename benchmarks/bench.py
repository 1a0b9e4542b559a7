"""What a figure measures with: folders, data files, child processes.

Everything measured runs in a child process of its own, for two reasons: a clean start, and the
kernel's account of its memory. The peak that it reports for a child begins with the size of the
parent, so this process stays small and imports nothing of what it measures.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from benchmarks import process_tree, prompt_files
from benchmarks.result import Timing

_PROJECT = Path(__file__).resolve().parent.parent
# macOS counts in bytes what Linux counts in kilobytes.
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024


class MeasureError(Exception):
    """A measured process failed, or did other work than its yardstick."""


@dataclass(frozen=True)
class Run:
    """One finished child process.

    Attributes:
        seconds: wall time from its start to its end, interpreter start included.
        peak_bytes: resident memory at its highest, of the largest process among the child and
            the children it waited for.
        output: what it wrote to stdout.
    """

    seconds: float
    peak_bytes: int
    output: str


class Bench:
    """The place and size of one benchmark run.

    Args:
        folder: where data and caches go; made if needed, data files are kept for the next run.
        rows: rows of the main file.
        repeat: how often everything is measured.
    """

    def __init__(self, folder: Path, *, rows: int, repeat: int) -> None:
        self.folder = folder.resolve()
        self.rows = rows
        self.repeat = repeat
        self.folder.mkdir(parents=True, exist_ok=True)
        self._made_once: dict[str, Any] = {}

    # --- data -----------------------------------------------------------------------------

    @cached_property
    def message_file(self) -> Path:
        """`rows` rows of about 640 bytes: a message, label, metadata."""
        return prompt_files.make(self.folder, prompt_files.message_line, self.rows)

    @cached_property
    def text_file(self) -> Path:
        """A fifth of the rows, whose prompts are plain text, of about 270 bytes."""
        return prompt_files.make(self.folder, prompt_files.text_line, max(self.rows // 5, 1))

    @cached_property
    def short_file(self) -> Path:
        """Ten times as many rows, of some 40 bytes."""
        return prompt_files.make(self.folder, prompt_files.short_line, self.rows * 10)

    def made_file(self, name: str, make: Callable[..., Any], **arguments: Any) -> Path:
        """A file of the bench folder, made by a child process if it is not there yet.

        Args:
            name: its name, which says all that it depends on.
            make: called with `path` and `arguments`.
            arguments: what else it takes.
        """
        path = self.folder / name
        if not path.exists():
            unfinished = path.with_name(f"unfinished-{name}")
            self.call(make, path=str(unfinished), **arguments)
            unfinished.replace(path)
        return path

    # --- cache ----------------------------------------------------------------------------

    @property
    def cache_home(self) -> Path:
        """The ``XDG_CACHE_HOME`` of everything measured."""
        return self.folder / "cache"

    def empty_cache(self) -> None:
        """Makes the next measurement a cold one."""
        shutil.rmtree(self.cache_home, ignore_errors=True)

    # --- measuring ------------------------------------------------------------------------

    def run(self, *command: str | Path) -> Run:
        """Runs a command in the bench folder and waits for it.

        Raises:
            MeasureError: when it fails; the text ends with what it wrote to stderr.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            started = time.perf_counter()
            process = self._start(command, out, err)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - started
            process.returncode = os.waitstatus_to_exitcode(status)
            _require_success(process, err)
            out.seek(0)
            text = out.read().decode("utf-8")
        return Run(seconds, usage.ru_maxrss * _MAXRSS_BYTES, text)

    def peak_of_all_processes(self, *command: str | Path) -> int | None:
        """Runs a command and returns the most memory that it and its children held together.

        Returns:
            Bytes, pages that processes share counted once; None where the system does not tell.
        """
        with tempfile.TemporaryFile() as err:
            process = self._start(command, subprocess.DEVNULL, err)
            peak_bytes = process_tree.watch_peak_bytes(process)
            _require_success(process, err)
        return peak_bytes

    def _start(
        self, command: Sequence[str | Path], out: IO[bytes] | int, err: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=self.folder,
            env=self._environment(),
        )

    def cli(self, *arguments: str | Path) -> list[str | Path]:
        """The command line of ``rolloutds`` with these arguments."""
        script = Path(sys.executable).with_name("rolloutds")
        starter = [script] if script.exists() else [sys.executable, "-m", "rolloutds"]
        return [*starter, *arguments]

    def call(self, function: Callable[..., Any], **arguments: Any) -> tuple[Run, Any]:
        """Calls a function of this package in a child process.

        Args:
            function: a function at the top of a module; takes and returns what JSON can hold.
            arguments: its arguments.

        Returns:
            The run of the child, and what the function returned.
        """
        name = f"{function.__module__}:{function.__qualname__}"
        call = json.dumps([name, arguments])
        run = self.run(sys.executable, "-m", "benchmarks.bench", call)
        return run, json.loads(run.output)

    def timing(
        self,
        measure: Callable[[], Run],
        *,
        before: Callable[[], None] | None = None,
        repeat: int | None = None,
    ) -> Timing:
        """Measures a child process `repeat` times.

        Args:
            measure: starts the child.
            before: called before each measurement, outside its time.
            repeat: how often, where that is not the bench's own number.
        """
        runs = []
        for _ in range(repeat or self.repeat):
            if before is not None:
                before()
            runs.append(measure())
        return Timing([run.seconds for run in runs], [run.peak_bytes for run in runs])

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """Returns what `make` returned the first time: a yardstick several figures share."""
        if name not in self._made_once:
            self._made_once[name] = make()
        return self._made_once[name]

    def _environment(self) -> dict[str, str]:
        ours = {k: v for k, v in os.environ.items() if not k.startswith("ROLLOUTDS_")}
        path = os.pathsep.join(filter(None, [str(_PROJECT), os.environ.get("PYTHONPATH")]))
        return {
            **ours,
            "PYTHONPATH": path,
            "XDG_CACHE_HOME": str(self.cache_home),
            "HF_HUB_OFFLINE": "1",
            # Bytecode is written once, by the first run, as in an installed package.
            "PYTHONDONTWRITEBYTECODE": "",
        }


def _require_success(process: subprocess.Popen[bytes], err: IO[bytes]) -> None:
    if process.returncode != 0:
        err.seek(0)
        lines = err.read().decode("utf-8", "replace").strip().splitlines()
        msg = "\n".join([f"exit {process.returncode}", *lines[-4:]])
        raise MeasureError(msg)


def _call_here(call: str) -> None:
    """The child's side of `Bench.call`."""
    name, arguments = json.loads(call)
    module, _, function = name.partition(":")
    result = getattr(importlib.import_module(module), function)(**arguments)
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    _call_here(sys.argv[1])
