"""The local engine: processes that are used again, and that nothing leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rolloutds.engines import open_engine

CHECKOUT = Path(__file__).resolve().parents[2]


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(condition) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("it never came true")


def test_processes_are_used_again(work):
    with open_engine("local", 2) as engine:
        first = set(engine.map(work.note_process, range(8)))
        second = set(engine.map(work.note_process, range(8)))
    assert len(first | second) <= 2
    assert not any(map(is_alive, first))


def test_one_process_is_the_caller_s_own(work):
    with open_engine("local", 1) as engine:
        assert set(engine.map(work.note_process, range(3))) == {os.getpid()}


def test_what_a_task_prints_does_not_reach_stdout(work, capfd):
    with open_engine("local", 2) as engine:
        assert list(engine.map(work.say, range(2))) == [0, 1]
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("a task's own words") == 2


def test_results_nobody_waits_for_end_their_processes(work):
    with open_engine("local", 2) as engine:
        results = engine.map(work.slow_first, range(100))
        next(results)
        results.close()
        assert list(engine.map(work.double, [1])) == [2]


def test_an_exit_code_is_named(work):
    from rolloutds.errors import EngineError

    with open_engine("local", 2) as engine, pytest.raises(EngineError, match="exit code 5"):
        list(engine.map(work.leave, ["a"]))


SLEEPER = """
import sys
from pathlib import Path
from rolloutds.engines import open_engine
import sleeping
if __name__ == "__main__":
    with open_engine("local", 2) as engine:
        list(engine.map(sleeping.sleep, range(4), common=sys.argv[1]))
"""
SLEEPING = """
import os, tempfile, time
from pathlib import Path

def sleep(folder, item):
    tempfile.mkdtemp()
    Path(folder, str(os.getpid())).touch()
    time.sleep(60)
"""


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_caller_leaves_nothing(tmp_path, way):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    (tmp_path / "sleeping.py").write_text(SLEEPING)
    marks = tmp_path / "marks"
    marks.mkdir()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "sleeper.py"), str(marks)],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    wait_until(lambda: len(list(marks.iterdir())) == 2)
    # Of the engine, which holds those of the tasks.
    assert len(list(temporary.iterdir())) == 1
    workers = [int(mark.name) for mark in marks.iterdir()]
    # To the whole group, as a terminal's Ctrl-C is.
    os.killpg(process.pid, way)
    _, err = process.communicate(timeout=30)
    assert err.count(b"KeyboardInterrupt") == (1 if way == signal.SIGINT else 0)
    wait_until(lambda: not any(map(is_alive, workers)))
    assert list(temporary.iterdir()) == []
