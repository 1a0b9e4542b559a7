from __future__ import annotations

import os

import pytest

from rolloutds.readers import RowKeys, scan_worker
from rolloutds.readers.line_scan import merge
from rolloutds.readers.scan_worker import ScanTask, scan_with_help


@pytest.fixture
def task(tmp_path):
    lines = ["", '{"text": "a"}', "{bad", "{}", '{"text": "\u4e2d"}'] * 40
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    descriptor = os.open(path, os.O_RDONLY)
    size = path.stat().st_size
    ranges = [(start, min(start + 100, size)) for start in range(0, size, 100)]
    yield ScanTask(descriptor, size, ranges, RowKeys("text"), None)
    os.close(descriptor)


def scanned_here(task):
    check = task.new_check()
    return merge([task.scan(number, check) for number in range(len(task.ranges))])


def test_a_second_process_scans_the_same(task):
    with scan_worker._started(task) as helper:
        parts = [helper.result(number) for number in range(len(task.ranges))]
    assert None not in parts
    assert helper.first_taken == 0
    assert merge(parts) == scanned_here(task)


def test_both_meet(task, monkeypatch):
    """This process waits after its first range until the other one has begun."""
    original = ScanTask.scan
    scanned = []

    def slow(self, number, check):
        scanned.append(number)
        if number == 0:
            started[0].result(len(self.ranges) - 1)
        return original(self, number, check)

    started = []
    start = scan_worker._Helper.__init__

    def remembered(self, *args):
        start(self, *args)
        started.append(self)

    monkeypatch.setattr(scan_worker._Helper, "__init__", remembered)
    monkeypatch.setattr(ScanTask, "scan", slow)
    found = scan_with_help(task)
    monkeypatch.undo()
    assert found == scanned_here(task)
    assert len(task.ranges) - 1 not in scanned


@pytest.mark.parametrize("program", ["/nonexistent/python", "/bin/false", "/bin/echo", "/bin/cat"])
def test_a_process_that_fails_is_done_without(task, monkeypatch, program):
    monkeypatch.setattr("sys.executable", program)
    assert scan_with_help(task) == scanned_here(task)


def test_what_cannot_be_sent_is_scanned_here(task):
    task = task._replace(inspect=lambda row: [])
    assert scan_with_help(task) == scanned_here(task)
