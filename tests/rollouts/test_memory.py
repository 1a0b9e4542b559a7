"""A large dump takes little more than its own size in memory, in all processes together."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_MB = 10**6
_PROC = Path("/proc")
_N = 8
_RESPONSE = 4096
# What the interpreter and our modules take whatever the file.
_ROOM = 80 * _MB


def _samples(num_bytes: int) -> Iterator[bytes]:
    """Pickled sample dicts of about so many bytes, with the fields that grow with tokens."""
    random_numbers = random.Random(7)
    tokens = [random_numbers.randrange(150_000) for _ in range(1 << 16)]
    log_probs = [-random_numbers.random() for _ in range(1 << 16)]
    index = 0
    while num_bytes > 0:
        start = random_numbers.randrange(len(tokens) - _RESPONSE)
        sample = {
            "group_index": index // _N,
            "index": index,
            "prompt": f"prompt {index // _N}",
            "tokens": tokens[start : start + _RESPONSE],
            "response": "x" * (3 * _RESPONSE),
            "response_length": _RESPONSE,
            "reward": float(index % 3 == 0),
            "loss_mask": [1] * _RESPONSE,
            "rollout_log_probs": log_probs[start : start + _RESPONSE],
            "status": "completed",
            "metadata": {"source": "made"},
        }
        pickled = pickle.dumps(sample, 2)[2:-1]  # without its beginning and end
        num_bytes -= len(pickled)
        index += 1
        yield pickled


def _write_dump(path: Path, num_bytes: int) -> int:
    """A dump as `torch.save` writes it, a sample at a time; gives how many there are.

    Samples share nothing, so that each may use the same memo numbers.
    """
    count = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        with archive.open("0/data.pkl", "w", force_zip64=True) as member:
            member.write(b"\x80\x02}(X\x0a\x00\x00\x00rollout_idK\x00X\x07\x00\x00\x00samples](")
            for pickled in _samples(num_bytes):
                member.write(pickled)
                count += 1
            member.write(b"eu.")
        archive.writestr("0/byteorder", "little")
        archive.writestr("0/version", "3\n")
    return count


def _peak_bytes(process: subprocess.Popen[bytes]) -> int | None:
    """The most that a process and its descendants have resident together, until it ends."""
    if not (_PROC / "self" / "statm").exists():
        process.wait()
        return None
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(_resident_bytes, _family(process.pid))))
        time.sleep(0.02)
    return peak


def _family(pid: int) -> list[int]:
    try:
        children = (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    except OSError:  # it ended meanwhile
        return []
    return [pid, *(member for child in children for member in _family(int(child)))]


def _resident_bytes(pid: int) -> int:
    """Pages that two processes share count twice; a count for each kind would take far longer."""
    try:
        pages = int((_PROC / str(pid) / "statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


def _stats(path: Path) -> tuple[dict[str, Any], int | None]:
    """What ``buffer stats`` says, and the most memory its processes took together."""
    command = [sys.executable, "-m", "rolloutds", "buffer", "stats", str(path), "--format", "json"]
    output = path.with_suffix(".json")
    with output.open("wb") as stdout, subprocess.Popen(command, stdout=stdout) as process:
        peak = _peak_bytes(process)
    assert process.returncode == 0
    return json.loads(output.read_text(encoding="utf-8")), peak


@pytest.mark.parametrize(
    "num_bytes",
    [60 * _MB, pytest.param(2_000 * _MB, marks=pytest.mark.proof)],
    ids=["60 MB", "2 GB"],
)
def test_stats_take_little_more_than_the_dump(tmp_path: Path, num_bytes: int):
    if shutil.disk_usage(tmp_path).free < 2 * num_bytes + (1 << 30):
        pytest.skip(f"the disk has no room for {num_bytes // _MB} MB")
    path = tmp_path / "0.pt"
    try:
        count = _write_dump(path, num_bytes)
        size = path.stat().st_size
        found, peak = _stats(path)
    finally:
        path.unlink(missing_ok=True)

    assert size >= num_bytes
    assert found["num_samples"] == count
    if peak is None:
        pytest.skip(f"{os.uname().sysname} does not tell the memory of processes")
    times = (peak - _ROOM) / size
    assert times < 1.2, f"{size / _MB:.0f} MB took {peak / _MB:.0f} MB"
