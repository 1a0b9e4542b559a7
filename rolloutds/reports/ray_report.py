"""What a shared source and its workers stand at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rolloutds.reports.model import Cells, Column, Facts, Report, Table


def status_report(stats: Mapping[str, Any]) -> Report:
    """The `stats` of a shared source: its order first, then a row for each worker."""
    workers = sorted(stats["workers"], key=lambda worker: (not worker["is_alive"], worker["name"]))
    sections: list[Facts | Table] = [Facts(_pairs(stats, workers))]
    if workers:
        sections.append(_table(workers))
    return Report(
        kind="ray_status",
        data={name: value for name, value in stats.items() if name != "workers"},
        records_name="workers",
        records=workers,
        sections=sections,
    )


def _pairs(stats: Mapping[str, Any], workers: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    cursor = stats["cursor"]
    alive = [worker for worker in workers if worker["is_alive"]]
    slow = sum(worker["is_slow"] for worker in alive)
    return [
        ("shared source", f"{stats['name']}, namespace {stats['namespace']}"),
        ("actor", f"{stats['host']}:{stats['pid']}, restarted {stats['num_restarts']} times"),
        (
            "cursor",
            f"epoch {cursor['epoch_id']}, offset {cursor['sample_offset']:,} of "
            f"{stats['num_rows']:,} rows; next group {cursor['sample_group_index']:,}",
        ),
        ("in flight", _in_flight(stats)),
        ("waiting", f"{stats['num_waiting']:,} to be served again, first"),
        ("buffer", f"{stats['num_buffered']:,} groups"),
        ("completed", f"{stats['num_completed']:,}"),
        ("discarded", _discarded(stats["num_discarded"])),
        ("journal", _journal(stats)),
        ("workers", f"{len(alive):,} alive, {len(workers) - len(alive):,} gone, {slow:,} slow"),
    ]


def _in_flight(stats: Mapping[str, Any]) -> str:
    limits = [
        f"{stats[name]:,} {whose}"
        for name, whose in (("max_in_flight", "in all"), ("max_in_flight_per_worker", "a worker"))
        if stats[name] is not None
    ]
    return f"{stats['num_in_flight']:,} groups" + (f"; at most {', '.join(limits)}" * bool(limits))


def _discarded(counts: Mapping[str, int]) -> str:
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in counts.items())
    return f"{sum(counts.values()):,}" + (f" ({reasons})" if reasons else "")


def _journal(stats: Mapping[str, Any]) -> str:
    if stats["journal"] is None:
        return "none"
    return f"{stats['journal']}, {stats['journal_bytes']:,} B since the last whole state"


_NUMBERS = ("in flight", "drawn", "done", "discarded", "returned", "requeued")
_COUNTS = ("in_flight", "drawn", "completed", "discarded", "returned", "requeued")


def _table(workers: Sequence[Mapping[str, Any]]) -> Table:
    columns = [
        Column("worker", limit=60, is_flexible=True),
        Column("state", limit=40),
        *(Column(name, justify="right") for name in _NUMBERS[:1]),
        Column("oldest", justify="right"),
        Column("median", justify="right"),
        Column("last call", justify="right"),
        *(Column(name, justify="right", is_extra=True) for name in _NUMBERS[1:]),
        Column("process", limit=60, is_extra=True),
    ]
    return Table(columns, [Cells(_cells(worker)) for worker in workers])


def _cells(worker: Mapping[str, Any]) -> list[str]:
    counts = [f"{worker[f'num_{name}']:,}" for name in _COUNTS]
    return [
        worker["name"],
        _state(worker),
        counts[0],
        _seconds(worker["oldest_seconds"]),
        _seconds(worker["median_seconds"]),
        _seconds(worker["last_call_seconds"]),
        *counts[1:],
        f"{worker['host']}:{worker['pid']}",
    ]


def _state(worker: Mapping[str, Any]) -> str:
    if not worker["is_alive"]:
        return "gone"
    if worker["is_slow"]:
        return "slow"
    return "waits for room" if worker["num_waiting_draws"] else "alive"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f} s" if value < 100 else f"{value:,.0f} s"
