"""Checking and indexing a file, beside parsing each line and beside counting lines."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.result import Outcome, time_target


def measure_cold(bench: Bench) -> Outcome:
    """`open_rows` without a cache, beside an orjson loop and ``wc -l``."""
    path = str(bench.message_file)
    ours = bench.timing(lambda: bench.call(open_rows, path=path)[0])
    loop = bench.timing(lambda: bench.call(parse_lines, path=path)[0])
    count = bench.timing(lambda: bench.run("wc", "-l", path))
    target = time_target(ours, loop, "orjson loop", limit=1.3)
    return Outcome(ours, {"orjson loop": loop, "wc -l": count}, [target])


def open_rows(path: str) -> int:
    """Indexes a file as a data source does, without a cache."""
    from rolloutds.cache import Cache
    from rolloutds.readers import open_rows as index_rows
    from rolloutds.readers.base import RowKeys

    keys = RowKeys(input_key="prompt", label_key="label", metadata_key="metadata", tool_key="tools")
    return len(index_rows(path, keys, cache=Cache(None)))


def parse_lines(path: str) -> int:
    """Parses each line with orjson and looks at its prompt and label."""
    import orjson

    num_rows = 0
    with Path(path).open("rb") as file:
        for line in file:
            row = orjson.loads(line)
            num_rows += row["prompt"] is not None and "label" in row
    return num_rows
