from __future__ import annotations

import os

import pyarrow
import pytest
from pyarrow import parquet

from rolloutds.errors import DataError, SliceError
from rolloutds.readers import first_row


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ('\n  \n{"text": "a"}\n{"b": 1}\n', {"text": "a"}),
        ('\ufeff{"text": "a"}\n', {"text": "a"}),
        ('{"text": "a"}\r{"b": 1}\r', {"text": "a"}),
        ('{"text": "a\u2028b"}\n', {"text": "a\u2028b"}),
        ('{"cut\n[1]\n{"text": "a"}\n', {"text": "a"}),
        ("", None),
        ("nope\n", None),
        ("[1]\n", None),
        ("[" * 100_000, None),
    ],
)
def test_the_first_row_is_read_without_an_index(tmp_path, text, row):
    path = tmp_path / "rows.jsonl"
    path.write_text(text, encoding="utf-8", newline="")
    assert first_row(str(path)) == row


def test_lines_that_are_not_utf_8_are_passed_over(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "\xff"}\n{"text": "a"}\n')
    assert first_row(str(path)) == {"text": "a"}


def test_what_has_no_first_row(tmp_path):
    with pytest.raises(DataError):
        first_row(str(tmp_path / "missing.jsonl"))
    with pytest.raises(SliceError):
        first_row("x.jsonl@[a]")
    os.mkfifo(tmp_path / "pipe.jsonl")  # opening one to read would wait for a writer
    with pytest.raises(DataError, match="not a regular file"):
        first_row(str(tmp_path / "pipe.jsonl"))


def test_the_first_file_with_a_row_has_it(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n")
    (tmp_path / "b.jsonl").write_text('{"text": "b"}\n')
    assert first_row(str(tmp_path)) == {"text": "b"}
    assert first_row(f"{tmp_path}/*.jsonl@[5:]") == {"text": "b"}


def test_the_first_row_of_parquet(tmp_path):
    path = tmp_path / "rows.parquet"
    table = pyarrow.table({"question": ["a"], "answer": [1]})
    parquet.write_table(table, path)
    assert first_row(str(path)) == {"question": "a", "answer": 1}
    parquet.write_table(table.slice(0, 0), path)
    assert first_row(str(path)) is None
