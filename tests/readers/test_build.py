from __future__ import annotations

import os
import pickle

import pytest

from rolloutds.cache import Cache
from rolloutds.errors import DataError, DataNotFoundError
from rolloutds.readers import READERS, open_rows
from rolloutds.readers.base import RowKeys
from rolloutds.readers.build import index_file, keep

KEYS = RowKeys("input")


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"input": 1}\n\n{bad\n{"x": 1}\n')
    os.utime(file, (1, 1))
    return str(file)


def test_it_says_what_the_index_holds(path, tmp_path):
    found = index_file(path, KEYS, None, None)
    assert found.summary == READERS[".jsonl"](path, KEYS, None, Cache(None)).summary
    assert (found.summary.num_rows, found.summary.num_blank, found.summary.num_skipped) == (2, 1, 1)
    assert (found.num_faulty, found.malformed) == (1, [(2, 1, True)])
    assert [problem.partition(":")[2] for problem in found.problems] == [
        "3:2: not JSON: Expecting property name enclosed in double quotes",
        "4: no key 'input', the row has 'x'",
    ]
    assert [notice.code for notice in found.notices] == ["blank_lines"]
    assert found.columns == ["input"]
    assert not found.was_cached


def test_an_index_made_elsewhere_is_kept_here(path, tmp_path):
    found = pickle.loads(pickle.dumps(index_file(path, KEYS, None, None)))
    here = Cache(tmp_path / "here")
    assert keep(found, here)
    again = index_file(path, KEYS, None, here.folder)
    assert again.was_cached
    assert again._replace(was_cached=False) == found
    reader = READERS[".jsonl"](path, KEYS, None, here)
    assert reader.is_cached
    assert reader.counters.bytes_read == 0


def test_it_is_kept_where_it_is_made(path, tmp_path):
    folder = tmp_path / "there"
    assert not index_file(path, KEYS, None, folder).was_cached
    assert index_file(path, KEYS, None, folder).was_cached
    assert keep(index_file(path, KEYS, None, folder), Cache(None)) is False


def test_a_file_that_was_just_written_has_an_index_that_cannot_be_kept(path, tmp_path):
    os.utime(path)
    found = index_file(path, KEYS, None, tmp_path / "cache")
    assert found.content == b""
    assert not keep(found, Cache(tmp_path / "cache"))


def test_an_older_index_is_not_taken_for_the_newer(path, tmp_path):
    folder = tmp_path / "cache"
    index_file(path, KEYS, None, folder)
    with open(path, "a") as file:
        file.write('{"input": 2}\n')
    found = index_file(path, KEYS, None, folder)
    assert found.summary.num_rows == 3
    assert not found.was_cached
    assert found.content == b""


def test_parquet_goes_the_same_way(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"input": ["a", None]}), path)
    os.utime(path, (1, 1))
    found = index_file(str(path), KEYS, None, None)
    assert (found.summary.num_rows, found.num_faulty) == (2, 1)
    assert keep(found, Cache(tmp_path / "here"))
    assert index_file(str(path), KEYS, None, tmp_path / "here").was_cached


def test_what_cannot_be_read_is_raised_as_a_load_raises_it(tmp_path):
    with pytest.raises(DataNotFoundError):
        index_file(str(tmp_path / "no.jsonl"), KEYS, None, None)
    array = tmp_path / "array.jsonl"
    array.write_text('[{"input": 1}]')
    with pytest.raises(DataError) as loaded:
        open_rows(str(array), KEYS, cache=Cache(None))
    with pytest.raises(DataError) as caught:
        index_file(str(array), KEYS, None, None)
    assert str(caught.value) == str(loaded.value)


def test_damaged_content_is_not_kept(path, tmp_path):
    found = index_file(path, KEYS, None, None)
    damaged = found._replace(content=found.content[:-1] + b"\x01")
    with pytest.raises(ValueError, match="checksum"):
        keep(damaged, Cache(tmp_path / "here"))
