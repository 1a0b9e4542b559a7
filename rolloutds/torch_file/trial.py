"""The trial: a child process with limits reads the pickle first, and says how it went.

A few bytes of a pickle can ask for gigabytes, hours or a crash of the interpreter, and no check
of the bytes is as cheap as reading them. So the same code reads the same bytes in a child that
may use only so much memory and time; only when that ends well are they read in this process.
One child can read many files, each within limits of its own.
"""

from __future__ import annotations

import contextlib
import copyreg
import enum
import faulthandler
import gc
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rolloutds.errors import TorchFileError
from rolloutds.torch_file.budget import Budget
from rolloutds.torch_file.extent import check_extent
from rolloutds.torch_file.pickled import Pickle

if TYPE_CHECKING:
    import subprocess

_TOO_MUCH = "it was not written by an honest program, or needs a larger budget"
_CHILD = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from rolloutds.torch_file.trial import run_spawned; run_spawned(*sys.argv[2:])"
)
_PACKAGE_PARENT = str(Path(__file__).resolve().parents[2])
_MAX_TEXT = 1000
# macOS takes a limit on the address space and does not keep it: there the child is watched.
_MEMORY_LIMIT_HOLDS = sys.platform == "linux"
_LOOK_SECONDS = 0.05


def try_out(pickles: Sequence[Pickle], budget: Budget) -> list[TorchFileError | None]:
    """Reads pickles in a child process, one after the other, each under the budget.

    Returns:
        For each of them why it must not be read here; None when the reading ended well.
    """
    with Trial(pickles, budget) as trial:
        return [trial.outcome() for _ in pickles]


class Trial:
    """A child that reads pickles one after the other, each under the budget, from now on.

    What it says of the first can be asked for while it is at the next. Leaving the context ends
    it.

    Args:
        pickles: what to read; their files stay open meanwhile.
        budget: limits on each of them.
    """

    def __init__(self, pickles: Sequence[Pickle], budget: Budget) -> None:
        self._pickles = pickles
        self._budget = budget
        self._child = _Child(pickles, budget) if pickles else None
        self._outcomes = self._all_outcomes()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Ends the child, whatever it is at."""
        if self._child is not None:
            self._child.end()

    def outcome(self) -> TorchFileError | None:
        """Why the next pickle must not be read here; None when the reading ended well."""
        if not _MEMORY_LIMIT_HOLDS:  # a child is only watched while it is listened to
            self._outcomes = iter(list(self._outcomes))
        return next(self._outcomes)

    def _all_outcomes(self) -> Iterator[TorchFileError | None]:
        """The outcomes, from one child after the other.

        What ends a child may be left from the pickles before, so only a pickle that is the first
        in its child is refused for it; another one begins the next child.
        """
        num_done = 0
        while self._child is not None:
            first = num_done
            for outcome in self._child.outcomes():
                num_done += 1
                yield outcome
            refusal = self._child.refusal()
            if num_done == first:
                num_done += 1
                yield refusal
            left = self._pickles[num_done:]
            self._child = _Child(left, self._budget) if left else None


class _Child:
    """One child process at work on pickles."""

    def __init__(self, pickles: Sequence[Pickle], budget: Budget) -> None:
        self._pickles = pickles
        self._budget = budget
        self._ending = _End.INTERRUPTED
        self._code: int | None = None
        self._reader, writer = os.pipe()
        try:
            self._process = _start(pickles, budget, writer)
        except BaseException:
            os.close(self._reader)
            raise
        finally:
            os.close(writer)

    def outcomes(self) -> Iterator[TorchFileError | None]:
        """What it says of each pickle, up to the first that went over a limit."""
        heard = b""
        for number, found in enumerate(self._pickles, start=1):
            said, heard = self._next_line(heard, found.member.num_bytes)
            if said is None:
                return
            if number == len(self._pickles):
                self._ending = _End.DONE
            problem = json.loads(said)
            yield found.file.refusal(**problem) if problem else None

    def _next_line(self, heard: bytes, num_bytes: int) -> tuple[bytes | None, bytes]:
        """A line that the child says, and what was heard behind it; None when it ended before."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN | select.POLLHUP)
        most = self._budget.memory_bytes(num_bytes)
        deadline = time.monotonic() + self._budget.seconds(num_bytes)
        while b"\n" not in heard:
            left = deadline - time.monotonic()
            if left <= 0:
                self._ending = _End.TIME
                return None, heard
            if poll.poll(1000 * (left if _MEMORY_LIMIT_HOLDS else min(left, _LOOK_SECONDS))):
                part = os.read(self._reader, 1 << 16)
                if not part:
                    self._ending = _End.SILENT
                    return None, heard
                heard += part
            elif not _MEMORY_LIMIT_HOLDS and _resident_bytes(self._process.pid) > most:
                self._ending = _End.MEMORY
                return None, heard
        said, _, heard = heard.partition(b"\n")
        return said, heard

    def refusal(self) -> TorchFileError:
        """Why its first pickle is refused, once it has ended without a word on it."""
        return _refusal(self._pickles[0], self._budget, self._ending, self.end())

    def end(self) -> int:
        """Ends it where it has not ended by itself; returns its exit code."""
        if self._code is None:
            try:
                if self._ending in (_End.TIME, _End.MEMORY, _End.INTERRUPTED):
                    self._process.kill()
                self._code = self._process.wait()
            finally:
                os.close(self._reader)
        return self._code


class _End(enum.Enum):
    """How a child came to its end."""

    DONE = enum.auto()
    SILENT = enum.auto()  # without a word on what it was reading
    TIME = enum.auto()
    MEMORY = enum.auto()
    INTERRUPTED = enum.auto()


def _refusal(found: Pickle, budget: Budget, end: _End, code: int) -> TorchFileError:
    if end is _End.TIME or code == -signal.SIGXCPU:
        seconds = budget.seconds(found.member.num_bytes)
        return found.file.refusal(f"takes more than {seconds:.0f} s to read", hint=_TOO_MUCH)
    if end is _End.MEMORY:
        return _takes_too_much(found, budget)
    # Killed by a limit, or it crashed the interpreter.
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return found.file.refusal(f"cannot be read within the limits ({how})", hint=_TOO_MUCH)


def _takes_too_much(found: Pickle, budget: Budget) -> TorchFileError:
    needs = budget.memory_bytes(found.member.num_bytes) >> 20
    return found.file.refusal(f"takes more than {needs} MiB to read", hint=_TOO_MUCH)


def _resident_bytes(pid: int) -> int:
    """What a process has in memory, asked of `ps`; 0 when it does not say."""
    import subprocess

    ran = subprocess.run(
        ["/bin/ps", "-o", "rss=", "-p", str(pid)], capture_output=True, check=False
    )
    return int(ran.stdout) * 1024 if ran.stdout.strip().isdigit() else 0


# --- two ways to start the child ---------------------------------------------------------


class _Forked:
    """A forked child: 2 ms, but only right in a process with one thread."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        try:
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:
            return 0  # the program around us ignores SIGCHLD; what the child said counts


def _start(
    pickles: Sequence[Pickle], budget: Budget, writer: int
) -> _Forked | subprocess.Popen[bytes]:
    if has_one_thread():
        pid = os.fork()
        if not pid:
            _run_forked(pickles, budget, writer)
        return _Forked(pid)
    import subprocess

    limits = [budget.max_bytes, budget.max_depth, budget.max_items, budget.max_seconds]
    files = [
        (found.file.descriptor, {"may_be_plain": not found.archive, "is_packed": found.is_packed})
        for found in pickles
    ]
    return subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", "-c", _CHILD, _PACKAGE_PARENT),
            *(json.dumps(files), json.dumps(limits), str(writer)),
        ],
        pass_fds=(*(descriptor for descriptor, _ in files), writer),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def has_one_thread() -> bool:
    """Whether forking is safe; threads of libraries count, so the kernel is asked."""
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - Path is slower here
    except OSError:
        return False


def _run_forked(pickles: Sequence[Pickle], budget: Budget, writer: int) -> None:
    try:
        faulthandler.disable()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.settrace(None)
        sys.setprofile(None)
        _run(pickles, budget, writer)
    finally:
        # Nothing of the parent's (buffers, handlers, atexit) may run twice.
        os._exit(0)


def run_spawned(files: str, limits: str, writer: str) -> None:
    """What the started interpreter does; called by its command line only."""
    from rolloutds.torch_file.archive import OpenFile
    from rolloutds.torch_file.pickled import open_pickle

    budget = Budget(*json.loads(limits))
    try:
        # The paths are the parent's business: it names them in what it says.
        pickles = [
            open_pickle(OpenFile.of_descriptor(descriptor, ""), budget, **options)
            for descriptor, options in json.loads(files)
        ]
        _run(pickles, budget, int(writer))
    finally:
        os._exit(0)


# --- in the child --------------------------------------------------------------------------


def _run(pickles: Sequence[Pickle], budget: Budget, writer: int) -> None:
    """Says a line for each pickle; without one it ends at a limit that the parent asks about."""
    gc.freeze()
    gc.disable()
    _forget_extension_codes()
    address_space = _address_space()
    for number, found in enumerate(pickles):
        gc.collect()  # circles in the value before
        _limit(found.member.num_bytes, budget, address_space)
        value = None
        try:
            said, value = _tried(found, budget)
        except MemoryError:
            if number:
                return
            said = _as_said(_takes_too_much(found, budget))
        os.write(writer, json.dumps(said).encode() + b"\n")
        del value  # takes a while, so the answer goes first


def _tried(found: Pickle, budget: Budget) -> tuple[dict[str, str | None], Any]:
    """What is wrong with a pickle, empty when nothing is; and its value, if it has one."""
    value = None
    try:
        value = found.load()
        check_extent(value, found.file, budget)
    except TorchFileError as error:
        return _as_said(error), value
    return {}, value


def _as_said(error: TorchFileError) -> dict[str, str | None]:
    return {"what": error.what[:_MAX_TEXT], "expected": error.expected, "hint": error.hint}


def _forget_extension_codes() -> None:
    """Makes every EXT opcode an error: those that a program registered bypass `find_class`."""
    copyreg.clear_extension_cache()
    copyreg._inverted_registry.clear()  # type: ignore[attr-defined]


def _limit(num_bytes: int, budget: Budget, address_space: int) -> None:
    seconds = int(time.process_time() + budget.seconds(num_bytes)) + 1
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_CPU, seconds)
    _lower(resource.RLIMIT_AS, address_space + budget.memory_bytes(num_bytes))


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    # macOS refuses some; the others still hold.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (value, hard))


def _address_space() -> int:
    """What the process has mapped already: a forked child inherits all of its parent's."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return 1 << 30
    return pages * resource.getpagesize()
