"""The trial: a child process with limits reads the pickle first, and says how it went.

A few bytes of a pickle can ask for gigabytes, hours or a crash of the interpreter, and no check
of the bytes is as cheap as reading them. So the same code reads the same bytes in a child that
may use only so much memory and time; only when that ends well are they read in this process.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
_MAX_REPORT_BYTES = 1 << 16
# macOS takes a limit on the address space and does not keep it: there the child is watched.
_MEMORY_LIMIT_HOLDS = sys.platform == "linux"
_LOOK_SECONDS = 0.05


def try_out(found: Pickle, budget: Budget) -> None:
    """Reads the pickle in a child process under the budget.

    Raises:
        TorchFileError: it did not end well there.
    """
    num_bytes = found.member.num_bytes
    reader, writer = os.pipe()
    try:
        try:
            child = _start(found, budget, writer)
        finally:
            os.close(writer)
        said: bytes | _Limit = _Limit.INTERRUPTED
        try:
            said = _listen(reader, child.pid, budget, num_bytes)
        finally:
            if isinstance(said, _Limit):
                child.kill()
            code = child.wait()
    finally:
        os.close(reader)
    if code == -signal.SIGXCPU:
        said = _Limit.TIME
    if said is _Limit.TIME:
        raise _takes_too_long(found, budget)
    if said is _Limit.MEMORY:
        raise _takes_too_much(found, budget)
    _judge(found, said, code)


class _Limit(enum.Enum):
    """Why the child was stopped before it said how the reading went."""

    TIME = enum.auto()
    MEMORY = enum.auto()
    INTERRUPTED = enum.auto()


def _judge(found: Pickle, said: bytes | _Limit, code: int) -> None:
    try:
        problem = json.loads(said) if isinstance(said, bytes) else None
    except ValueError:
        # It died without a word: killed by a limit, or it crashed the interpreter.
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise found.file.refusal(
            f"cannot be read within the limits ({how})", hint=_TOO_MUCH
        ) from None
    if problem:
        raise TorchFileError(**problem)


def _takes_too_long(found: Pickle, budget: Budget) -> TorchFileError:
    seconds = budget.seconds(found.member.num_bytes)
    return found.file.refusal(f"takes more than {seconds:.0f} s to read", hint=_TOO_MUCH)


def _takes_too_much(found: Pickle, budget: Budget) -> TorchFileError:
    needs = budget.memory_bytes(found.member.num_bytes) >> 20
    return found.file.refusal(f"takes more than {needs} MiB to read", hint=_TOO_MUCH)


def _listen(reader: int, pid: int, budget: Budget, num_bytes: int) -> bytes | _Limit:
    """All that the child says until it closes its end, or the limit it went over."""
    deadline = time.monotonic() + budget.seconds(num_bytes)
    poll = select.poll()
    poll.register(reader, select.POLLIN | select.POLLHUP)
    parts: list[bytes] = []
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return _Limit.TIME
        if not poll.poll(1000 * (left if _MEMORY_LIMIT_HOLDS else min(left, _LOOK_SECONDS))):
            if not _MEMORY_LIMIT_HOLDS and _resident_bytes(pid) > budget.memory_bytes(num_bytes):
                return _Limit.MEMORY
            continue
        part = os.read(reader, _MAX_REPORT_BYTES)
        if not part:
            return b"".join(parts)
        parts.append(part)


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


def _start(found: Pickle, budget: Budget, writer: int) -> _Forked | subprocess.Popen[bytes]:
    if _has_one_thread():
        pid = os.fork()
        if not pid:
            _run_forked(found, budget, writer)
        return _Forked(pid)
    import subprocess

    descriptor = found.file.descriptor
    limits = [budget.max_bytes, budget.max_depth, budget.max_items, budget.max_seconds]
    return subprocess.Popen(
        [
            *(sys.executable, "-I", "-S", "-c", _CHILD, _PACKAGE_PARENT),
            *(found.file.path, str(descriptor), str(writer), json.dumps(limits)),
            "" if found.archive else "plain",
        ],
        pass_fds=(descriptor, writer),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _has_one_thread() -> bool:
    """Whether forking is safe; threads of libraries count, so the kernel is asked."""
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - Path is slower here
    except OSError:
        return False


def _run_forked(found: Pickle, budget: Budget, writer: int) -> None:
    try:
        faulthandler.disable()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.settrace(None)
        sys.setprofile(None)
        _run(found, budget, writer)
    finally:
        # Nothing of the parent's (buffers, handlers, atexit) may run twice.
        os._exit(0)


def run_spawned(path: str, descriptor: str, writer: str, limits: str, plain: str) -> None:
    """What the started interpreter does; called by its command line only."""
    from rolloutds.torch_file.archive import OpenFile
    from rolloutds.torch_file.pickled import open_pickle

    budget = Budget(*json.loads(limits))
    try:
        found = open_pickle(
            OpenFile.of_descriptor(int(descriptor), path), budget, plain=bool(plain)
        )
        _run(found, budget, int(writer))
    finally:
        os._exit(0)


# --- in the child --------------------------------------------------------------------------


def _run(found: Pickle, budget: Budget, writer: int) -> None:
    _limit(found.member.num_bytes, budget)
    gc.disable()
    _forget_extension_codes()
    said: dict[str, Any] = {}
    try:
        check_extent(found.load(), found.file, budget)
    except TorchFileError as error:
        said = {key: getattr(error, key) for key in ("what", "where", "expected", "hint")}
    except MemoryError:
        refusal = _takes_too_much(found, budget)
        said = {"what": refusal.what, "where": refusal.where, "hint": refusal.hint}
    os.write(writer, json.dumps(said).encode()[:_MAX_REPORT_BYTES])


def _forget_extension_codes() -> None:
    """Makes every EXT opcode an error: those that a program registered bypass `find_class`."""
    copyreg.clear_extension_cache()
    copyreg._inverted_registry.clear()  # type: ignore[attr-defined]


def _limit(num_bytes: int, budget: Budget) -> None:
    seconds = int(budget.seconds(num_bytes)) + 1
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_CPU, seconds)
    _lower(resource.RLIMIT_AS, _address_space() + budget.memory_bytes(num_bytes))


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
