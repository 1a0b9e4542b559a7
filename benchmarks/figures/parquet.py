"""Parquet files: a few rows, and a whole shuffled epoch beside JSON Lines."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.bench import Bench, MeasureError
from benchmarks.result import Outcome, time_target

_NUM_GROUPS = 32
_BATCH = 128
_ROWS_A_ROW_GROUP = 1_000


def measure_peek(bench: Bench) -> Outcome:
    """Rows all over a file of many row groups, index cached, beside reading the whole file."""
    path = _parquet_file(bench)
    bench.call(draw, path=str(path), num_groups=1)
    ours = bench.timing(lambda: bench.call(draw, path=str(path), num_groups=_NUM_GROUPS)[0])
    whole = bench.timing(lambda: bench.call(read_whole, path=str(path))[0])
    decoded = bench.call(draw_counted, path=str(path), num_groups=_NUM_GROUPS)[1]["decoded"]
    target = time_target(ours, whole, "read_table", limit=1)
    if len(decoded) > _NUM_GROUPS:
        msg = f"{len(decoded)} row groups were decoded for {_NUM_GROUPS} rows"
        raise MeasureError(msg)
    num_row_groups = -(-bench.rows // _ROWS_A_ROW_GROUP)
    note = f"{len(decoded)} of {num_row_groups} row groups are decoded, each at most once"
    return Outcome(ours, {"read_table": whole}, [target], [note])


def measure_epoch(bench: Bench) -> Outcome:
    """A whole shuffled epoch, beside the same rows from JSON Lines; indexes cached."""
    parquet, lines = str(_parquet_file(bench)), str(bench.message_file)
    ours_digest = bench.call(draw, path=parquet, num_groups=bench.rows)[1]["digest"]
    if ours_digest != bench.call(draw, path=lines, num_groups=bench.rows)[1]["digest"]:
        msg = "the two epochs are not the same"
        raise MeasureError(msg)
    ours = bench.timing(lambda: bench.call(draw, path=parquet, num_groups=bench.rows)[0])
    json_lines = bench.timing(lambda: bench.call(draw, path=lines, num_groups=bench.rows)[0])
    target = time_target(ours, json_lines, "JSON Lines", limit=1)
    note = "the rows that the first epoch decoded are kept in the cache"
    return Outcome(ours, {"JSON Lines": json_lines}, [target], [note])


def _parquet_file(bench: Bench) -> Path:
    name = f"message_rows-{bench.rows}-{_ROWS_A_ROW_GROUP}.parquet"
    return bench.made_file(name, make_parquet, source=str(bench.message_file))


def make_parquet(path: str, source: str) -> None:
    """Writes the rows of a JSON Lines file."""
    import pyarrow.json
    from pyarrow import parquet

    parquet.write_table(pyarrow.json.read_json(source), path, row_group_size=_ROWS_A_ROW_GROUP)


def read_whole(path: str) -> int:
    """Reads the file as a table of plain values would need it."""
    from pyarrow import parquet

    return int(parquet.read_table(path).num_rows)


def draw_counted(path: str, num_groups: int) -> dict[str, Any]:
    """Draws groups; tells the row groups that were decoded for them as well."""
    decoded = _count_decoded_groups()
    return {**draw(path, num_groups), "decoded": decoded}


def draw(path: str, num_groups: int) -> dict[str, Any]:
    """Draws groups of one sample in batches; gives a digest of all prompts."""
    from rolloutds.source import RolloutDataSource

    settings = SimpleNamespace(
        prompt_data=path,
        rollout_global_dataset=True,
        rollout_shuffle=True,
        input_key="prompt",
        label_key="label",
        n_samples_per_prompt=1,
    )
    source = RolloutDataSource(settings)
    digest = hashlib.sha256()
    for start in range(0, num_groups, _BATCH):
        for (sample,) in source.get_samples(min(_BATCH, num_groups - start)):
            digest.update(json.dumps([sample.prompt, sample.label], sort_keys=True).encode())
    return {"digest": digest.hexdigest()}


def _count_decoded_groups() -> list[int]:
    """A list that every row group gets into as it is decoded."""
    from pyarrow.parquet import ParquetFile

    decoded: list[int] = []
    read_row_group = ParquetFile.read_row_group

    def counted(file: ParquetFile, group: int, **options: Any) -> Any:
        decoded.append(group)
        return read_row_group(file, group, **options)

    ParquetFile.read_row_group = counted
    return decoded
