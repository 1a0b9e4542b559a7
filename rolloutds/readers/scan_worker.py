"""A second process that helps to scan: ``python -m rolloutds.readers.scan_worker``.

The file is cut into ranges. This process scans them from the first on, the second one from the
last back, until they meet; so a second process that starts late, or never, or is slow on a
busy machine, costs nothing. It reads a pickled `ScanTask` from standard input and writes
pickled (number of the range, its scan or None when it is begun) to standard output. Both ends
are this package; nothing else is ever read this way.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from rolloutds.readers.base import Inspect, RowKeys
from rolloutds.readers.line_checks import RowCheck
from rolloutds.readers.line_scan import PartialScan, merge, scan_range


class ScanTask(NamedTuple):
    """Ranges to scan; the file is an open descriptor the process inherits."""

    descriptor: int
    size: int
    ranges: list[tuple[int, int]]
    keys: RowKeys
    inspect: Inspect | None

    def scan(self, number: int, check: RowCheck) -> PartialScan:
        """Scans one range in this process."""
        start, stop = self.ranges[number]
        return scan_range(self.descriptor, start, stop, self.size, check)

    def new_check(self) -> RowCheck:
        """What looks at the rows."""
        return RowCheck(self.keys, self.inspect)


def scan_with_help(task: ScanTask) -> PartialScan:
    """Scans all ranges, the last ones in a second process where one can be had."""
    check = task.new_check()
    parts: list[PartialScan] = []
    with _started(task) as helper:
        while len(parts) < helper.first_taken:
            parts.append(task.scan(len(parts), check))
        for number in range(len(parts), len(task.ranges)):
            parts.append(helper.result(number) or task.scan(number, check))  # noqa: PERF401
    return merge(parts)


class _Helper:
    """This end of a second process: which ranges it has taken, and their scans.

    Attributes:
        first_taken: the lowest range it has begun; the number of ranges while it has none.
    """

    def __init__(self, num_ranges: int, process: subprocess.Popen[bytes] | None) -> None:
        self.first_taken = num_ranges
        self._scans: dict[int, PartialScan] = {}
        self._is_over = process is None
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        if process is not None:
            self._thread = threading.Thread(
                target=self._listen, args=(process.stdout,), daemon=True
            )
            self._thread.start()

    def result(self, number: int) -> PartialScan | None:
        """Waits for the scan of a range; None when the process ends without it."""
        with self._news:
            self._news.wait_for(lambda: number in self._scans or self._is_over)
        return self._scans.get(number)

    def join(self) -> None:
        """Waits for the listening thread, once the process has ended."""
        if self._thread is not None:
            self._thread.join()

    def _listen(self, stream: Any) -> None:
        try:
            while True:
                number, scan = pickle.load(stream)
                with self._news:
                    self._take(number, scan)
                    self._news.notify_all()
        except Exception:  # whatever it is, the ranges left are scanned here
            pass
        finally:
            with self._news:
                self._is_over = True
                self._news.notify_all()

    def _take(self, number: int, scan: PartialScan | None) -> None:
        self.first_taken = min(self.first_taken, number)
        if scan is not None:
            self._scans[number] = scan


@contextlib.contextmanager
def _started(task: ScanTask) -> Iterator[_Helper]:
    """A process at work on `task`, ended with the block; a helper that does nothing without."""
    process = _start(task)
    helper = _Helper(len(task.ranges), process)
    try:
        yield helper
    finally:
        if process is not None:
            _end(process)
            helper.join()
            assert process.stdout is not None
            process.stdout.close()


def _start(task: ScanTask) -> subprocess.Popen[bytes] | None:
    try:
        importable = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        message = pickle.dumps(task)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rolloutds.readers.scan_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(task.descriptor,),
            env={**os.environ, "PYTHONPATH": importable},
        )
    except (OSError, pickle.PicklingError, AttributeError, TypeError):
        return None
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it ended already: its output will show that
        process.stdin.write(message)
    with contextlib.suppress(OSError):
        process.stdin.close()
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def main() -> None:
    """Reads a task, scans its ranges from the last to the first."""
    task = ScanTask(*pickle.load(sys.stdin.buffer))
    check = task.new_check()
    output = sys.stdout.buffer
    for number in reversed(range(len(task.ranges))):
        output.write(pickle.dumps((number, None)))
        output.flush()
        output.write(pickle.dumps((number, task.scan(number, check))))
        output.flush()


if __name__ == "__main__":
    main()
