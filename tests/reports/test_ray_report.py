"""The report of a shared source, without one."""

from __future__ import annotations

from typing import Any

from rolloutds.reports import render
from rolloutds.reports.ray_report import status_report

WORKER = {
    "name": "engine-0",
    "host": "node-3",
    "pid": 71,
    "is_alive": True,
    "is_slow": False,
    "num_in_flight": 1_024,
    "oldest_seconds": 8.25,
    "median_seconds": None,
    "last_call_seconds": 1_234.5,
    "num_drawn": 5_000,
    "num_completed": 3_900,
    "num_discarded": 70,
    "num_returned": 6,
    "num_requeued": 0,
    "num_waiting_draws": 1,
}
STATS = {
    "name": "run-7",
    "namespace": "rolloutds",
    "host": "node-0",
    "pid": 5,
    "num_restarts": 2,
    "cursor": {
        "epoch_id": 1,
        "sample_offset": 4_000,
        "sample_group_index": 14_000,
        "sample_index": 112_000,
    },
    "num_rows": 10_000,
    "num_in_flight": 1_024,
    "num_waiting": 0,
    "num_buffered": 12,
    "num_completed": 12_000,
    "num_discarded": {"zero spread": 900, "too long": 64},
    "max_in_flight": None,
    "max_in_flight_per_worker": 1_024,
    "journal": None,
    "journal_bytes": 0,
    "workers": [WORKER | {"name": "gone", "is_alive": False}, WORKER],
}


def text_of(stats: dict[str, Any]) -> str:
    return "".join(render(status_report(stats), "text", on_terminal=False))


def test_numbers_are_said_as_people_read_them() -> None:
    facts, table = text_of(STATS).split("\n\n")
    assert facts.splitlines() == [
        "shared source  run-7, namespace rolloutds",
        "actor          node-0:5, restarted 2 times",
        "cursor         epoch 1, offset 4,000 of 10,000 rows; next group 14,000",
        "in flight      1,024 groups; at most 1,024 a worker",
        "waiting        0 to be served again, first",
        "buffer         12 groups",
        "completed      12,000",
        "discarded      964 (zero spread: 900, too long: 64)",
        "journal        none",
        "workers        1 alive, 1 gone, 0 slow",
    ]
    first, second = [line.split("  ") for line in table.splitlines()[1:]]
    assert [cell.strip() for cell in first if cell] == [
        *("engine-0", "waits for room", "1,024", "8.2 s", "-", "1,234 s"),
        *("5,000", "3,900", "70", "6", "0", "node-3:71"),
    ]
    assert second[0] == "gone"


def test_a_source_without_workers_has_no_table() -> None:
    assert "worker  " not in text_of(STATS | {"workers": []})
