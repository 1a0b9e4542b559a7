from __future__ import annotations

import io

import pyarrow as pa
import pytest
from pyarrow import parquet

from rolloutds.cache import Cache
from rolloutds.errors import DataError, EmptyDatasetError
from rolloutds.readers import first_row, open_rows
from rolloutds.readers.base import RowKeys
from tests.remote_store import remote  # noqa: F401

KEYS = RowKeys("input", "label")
NO_CACHE = Cache(None)
URL = "counting://d/x.parquet"
NUM_ROWS, GROUP = 1_600, 200


def table():
    return pa.table(
        {
            "input": [f"question {i} " + f"{i * 7919:x}" * 30 for i in range(NUM_ROWS)],
            "label": [str(i) for i in range(NUM_ROWS)],
            "unused": [f"{i * 104729:x}" * 300 for i in range(NUM_ROWS)],
        }
    )


@pytest.fixture(scope="module")
def content():
    sink = io.BytesIO()
    parquet.write_table(
        table(), sink, row_group_size=GROUP, compression="none", use_dictionary=False
    )
    return sink.getvalue()


@pytest.fixture
def stored(remote, content):  # noqa: F811
    remote.pipe("/d/x.parquet", content)
    remote.ranges.clear()
    return remote


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def test_rows_and_digest_are_those_of_a_local_copy(stored, content, tmp_path):
    (tmp_path / "x.parquet").write_bytes(content)
    local = open_rows(str(tmp_path / "x.parquet"), KEYS, cache=NO_CACHE)
    for data in (URL, "counting://d", "counting://d/*.parquet"):
        rows = open_rows(data, KEYS, cache=NO_CACHE)
        assert rows.digest == local.digest
        found = rows.read([1_599, 0, 1_234])
        assert [row.value for row in found] == [row.value for row in local.read([1_599, 0, 1_234])]
        assert str(found[0].place) == f"{URL} row 1599"
        assert rows.column_names() == ["input", "label", "unused"]


def test_rows_read_the_footer_and_the_columns_of_their_row_groups(stored, content, cache):
    open_rows(URL, KEYS, cache=cache)
    assert stored.num_bytes >= len(content)  # the digest is of all bytes, once
    stored.ranges.clear()
    rows = open_rows(URL, KEYS, cache=cache)
    assert stored.ranges == []
    assert rows.read([GROUP * 3 + 7])[0].value["label"] == str(GROUP * 3 + 7)
    group = parquet.ParquetFile(io.BytesIO(content)).metadata.row_group(3)
    columns = [group.column(number) for number in (0, 1)]
    needed = {(c.data_page_offset, c.data_page_offset + c.total_compressed_size) for c in columns}
    footers = [span for span in stored.ranges if span[1] >= len(content) - (64 << 10)]
    others = [span for span in stored.ranges if span not in footers]
    assert sum(end - begin for _, begin, end in footers) <= 2 * (64 << 10)
    assert {(begin, end) for _, begin, end in others} == needed
    assert len(others) == 2


def test_the_first_row_reads_one_row_group_at_most(stored, content):
    assert first_row(URL)["input"].startswith("question 0 ")
    assert stored.num_bytes < len(content) / 4


def test_rows_decoded_too_often_are_kept_here(stored, cache):
    rows = open_rows(URL, KEYS, cache=cache)
    for round_ in range(8):
        for group in range(0, NUM_ROWS, GROUP):
            found = rows.read([group + round_])[0].value
            assert found["label"] == str(group + round_)
    again = open_rows(URL, KEYS, cache=cache)
    stored.ranges.clear()
    assert [row.value["label"] for row in again.read([5, 1_200])] == ["5", "1200"]


def test_a_change_is_noticed(stored, content):
    rows = open_rows(URL, KEYS, cache=NO_CACHE)
    stored.pipe("/d/x.parquet", content[:-1] + b"0")
    with pytest.raises(
        DataError, match=r"counting://d/x.parquet: the file changed while it was open"
    ):
        rows.read([0])


def test_failures_are_errors_of_ours(stored, cache, content):
    open_rows(URL, KEYS, cache=cache)
    rows = open_rows(URL, KEYS, cache=cache)
    stored.failures["cat_file"] = PermissionError("no")
    with pytest.raises(DataError, match=r"counting://d/x.parquet: access is refused"):
        rows.read([0])
    del stored.failures["cat_file"]
    stored.cut = 1
    with pytest.raises(DataError, match=r"^counting://d/x.parquet: "):
        open_rows(URL, KEYS, cache=NO_CACHE)
    stored.cut = 0
    for damaged in (content[: len(content) // 2], b"PAR1", b"x" * 100):
        stored.pipe("/d/x.parquet", damaged)
        with pytest.raises(DataError, match=r"^counting://d/x.parquet: "):
            open_rows(URL, KEYS, cache=NO_CACHE)
    stored.pipe("/d/x.parquet", b"")
    with pytest.raises(EmptyDatasetError):
        open_rows(URL, KEYS, cache=NO_CACHE)


def test_a_closed_file_reads_no_more(stored):
    rows = open_rows(URL, KEYS, cache=NO_CACHE)
    rows.read([0])
    rows.close()
    with pytest.raises(DataError, match="the file was closed"):
        rows.read([0])
