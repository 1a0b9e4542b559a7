"""Memory of a process and all its descendants together, where the system tells (Linux)."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

_PROC = Path("/proc")
_SECONDS_BETWEEN_LOOKS = 0.005


def watch_peak_bytes(process: subprocess.Popen[bytes]) -> int | None:
    """Looks at a running process until it ends.

    Pages that several processes share, as after a fork, count once: each counts its share
    (PSS). The looking takes time, so a watched run is not a timed one.

    Returns:
        The highest sum seen; None where the system does not tell.
    """
    if not (_PROC / "self" / "smaps_rollup").exists():
        process.wait()
        return None
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(_own_bytes(pid) for pid in _family(process.pid)))
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return peak


def _family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    except OSError:  # it ended meanwhile
        return []
    return [pid, *(member for child in children for member in _family(int(child)))]


def _own_bytes(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
