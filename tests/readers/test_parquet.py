from __future__ import annotations

import datetime
import decimal
import os
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet

from rolloutds.cache import Cache
from rolloutds.errors import BadRowsError, DataError, EmptyDatasetError
from rolloutds.readers import Finding, RowKeys, open_rows
from rolloutds.readers.parquet import ParquetReader, decoding
from rolloutds.readers.parquet.packed_rows import PackedRows

OFF = Cache(None)
TEXT = RowKeys("text")
EVERY_KEY = RowKeys("text", "label", "metadata", "tools", ("images",))


def write(path, columns, *, row_group_size=4, **options):
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    parquet.write_table(table, path, row_group_size=row_group_size, **options)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return str(path)


class Inspector:
    """Counts what it sees; text metadata is worth a word, a number in it an error."""

    identity = "parquet tests"

    def __init__(self):
        self.seen = []

    def __call__(self, row):
        self.seen.append(row)
        metadata = row.get("metadata")
        return (
            [Finding("port_metadata", metadata == "bad", f"metadata {metadata!r}")]
            if metadata
            else []
        )


def error_of(path, keys=TEXT, **options):
    with pytest.raises(DataError) as caught:
        open_rows(path, keys, cache=OFF, **options)
    return caught.value


def test_values_are_what_to_pylist_gives(tmp_path):
    table = pa.table(
        {
            "text": ["a", "b"],
            "number": pa.array([1, None], pa.int8()),
            "parts": [[{"type": "text", "n": None}], []],
            "blob": [b"\x00", None],
            "day": [datetime.date(2026, 1, 2), None],
            "pairs": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "group": pa.array(["x", "y"]).dictionary_encode(),
            "value": [float("inf"), 0.5],
        }
    )
    keys = RowKeys("text", media_keys=tuple(table.column_names))
    rows = open_rows(write(tmp_path / "a.parquet", table), keys, cache=OFF).read([1, 0])
    assert [row.value for row in rows] == [table.to_pylist()[1], table.to_pylist()[0]]
    assert rows[1].value["pairs"] == [("k", 1)]
    assert str(rows[0].place) == f"{tmp_path / 'a.parquet'} row 1"
    assert rows[0].place.line is None


def test_slices_and_names(tmp_path):
    path = write(tmp_path / "a.parquet", {"text": [str(n) for n in range(10)], "b": range(10)})
    rows = open_rows(f"{path}@[-3:-1]", TEXT, cache=OFF)
    assert [row.value["text"] for row in rows.read([0, 1])] == ["7", "8"]
    assert rows.row_id(0) == 7
    assert rows.column_names() == ["text", "b"]
    assert rows.byte_bounds() is None
    assert rows.files[0].num_lines == rows.num_loadable == 10


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("kind", ["string", "list"])
def test_null_prompts(tmp_path, statistics, kind):
    value = "a" if kind == "string" else [{"role": "user", "content": None}]
    prompts = [value] * 6
    path = write(tmp_path / "a.parquet", {"text": prompts}, write_statistics=statistics)
    assert len(open_rows(path, TEXT, cache=OFF)) == 6
    prompts[5] = None
    path = write(tmp_path / "b.parquet", {"text": prompts}, write_statistics=statistics)
    error = error_of(path)
    assert isinstance(error, BadRowsError)
    assert error.problems == [f"{path} row 5: 'text' is null, expected a prompt"]
    assert len(open_rows(f"{path}@[:5]", TEXT, cache=OFF)) == 5


def test_missing_columns(tmp_path):
    path = write(tmp_path / "a.parquet", {"txt": ["a"], "prompt": ["b"]})
    error = error_of(path)
    assert error.what == "no column 'text', the file has 'txt', 'prompt'"
    assert "'txt'" in error.hint
    assert "no column 'label'" in error_of(path, RowKeys("txt", "label")).what


def test_dotted_keys(tmp_path):
    rewards = [{"truth": "1"}, {"truth": None}, None]
    path = write(tmp_path / "a.parquet", {"text": ["a", "b", "c"], "reward": rewards})
    keys = RowKeys("text", "reward.truth")
    rows = open_rows(f"{path}@[:2]", keys, cache=OFF)
    assert [notice.code for notice in rows.notices] == ["port_dotted_key"]
    assert "no key 'reward.truth'" in error_of(path, keys).problems[0]
    assert "no column 'reward.other'" in error_of(path, RowKeys("text", "reward.other")).what


def test_plain_columns_are_not_inspected(tmp_path):
    inspector = Inspector()
    columns = {
        "text": ["a", "b"],
        "label": [1, 2],
        "metadata": [{"a": 1}, None],
        "tools": [[{"name": "f"}], [{"name": "g"}]],
        "images": pa.nulls(2),
    }
    rows = open_rows(
        write(tmp_path / "a.parquet", columns), EVERY_KEY, inspect=inspector, cache=OFF
    )
    assert inspector.seen == []
    assert rows.scan_counters.rows_parsed == 0


def test_text_metadata_is_inspected(tmp_path):
    columns: dict[str, list[object]] = {
        "text": list("abcdef"),
        "label": [1] * 6,
        "metadata": [None, "{}", "", "{}", "x", None],
    }
    path = write(tmp_path / "a.parquet", columns)
    rows = open_rows(path, EVERY_KEY, inspect=Inspector(), cache=OFF)
    assert rows.notices == [("port_metadata", f"{path} row 1: metadata '{{}}' (3 rows in all)")]
    rows = open_rows(f"{path}@[4:]", EVERY_KEY, inspect=Inspector(), cache=OFF)
    assert rows.notices == [("port_metadata", f"{path} row 4: metadata 'x'")]
    columns["metadata"][2] = "bad"
    path = write(tmp_path / "b.parquet", columns)
    assert error_of(path, EVERY_KEY, inspect=Inspector()).problems == [
        f"{path} row 2: metadata 'bad'"
    ]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("tools", [[], None]),
        ("tools", [[{"name": "f"}], [None]]),
        ("tools", [["f"], ["g"]]),
        ("tools", ["[]", ""]),
        ("images", [["a.png"], None]),
        ("text", [1, 2]),
        ("text", [[{"role": "user"}], []]),
        ("text", [[{"role": "user"}], [None]]),
        ("text", [[{"role": "user"}, None], [{"role": "user"}]]),
    ],
)
def test_columns_that_need_a_look(tmp_path, column, values):
    inspector = Inspector()
    columns = {"text": ["a", "b"], "label": [1, 2], column: values, "other": ["x", "y"]}
    open_rows(write(tmp_path / "a.parquet", columns), EVERY_KEY, inspect=inspector, cache=OFF)
    assert inspector.seen
    assert "other" not in inspector.seen[0]


def test_damaged_files(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"")
    assert isinstance(error_of(str(path)), EmptyDatasetError)
    path.write_bytes(b"PAR1 not really")
    assert "not a Parquet file" in error_of(str(path)).what
    whole = write(tmp_path / "b.parquet", {"text": ["some text"] * 100})
    content = (tmp_path / "b.parquet").read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert error_of(str(path)).where == str(path)
    path.write_bytes(content[:4] + b"\xff" * 40 + content[44:])
    rows = open_rows(str(path), TEXT, cache=OFF)
    with pytest.raises(DataError) as caught:
        rows.read([0])
    assert caught.value.where == str(path)
    assert len(open_rows(whole, TEXT, cache=OFF)) == 100


def test_no_rows(tmp_path):
    path = write(tmp_path / "a.parquet", {"other": pa.array([], pa.string())})
    assert isinstance(error_of(path), EmptyDatasetError)


def test_a_changed_file_is_never_read(tmp_path):
    path = write(tmp_path / "a.parquet", {"text": ["a"] * 9})
    rows = open_rows(path, TEXT, cache=OFF)
    rows.read([0])
    os.utime(path, (1, 1))
    with pytest.raises(DataError, match="changed while it was open"):
        rows.read([1])


def test_a_file_replaced_before_the_first_row(tmp_path):
    cache = Cache(tmp_path / "cache")
    path = write(tmp_path / "a.parquet", {"text": ["a"] * 9})
    open_rows(path, TEXT, cache=cache)
    rows = open_rows(path, TEXT, cache=cache)
    write(tmp_path / "b.parquet", {"text": ["b"] * 9})
    (tmp_path / "b.parquet").replace(path)
    with pytest.raises(DataError, match="changed"):
        rows.read([0])


def test_a_warm_open_decodes_nothing(tmp_path):
    cache = Cache(tmp_path / "cache")
    path = write(tmp_path / "a.parquet", {"text": list("abc"), "metadata": ["{}", "x", None]})
    keys = RowKeys("text", metadata_key="metadata")
    cold = open_rows(path, keys, inspect=Inspector(), cache=cache)
    warm = open_rows(path, keys, inspect=Inspector(), cache=cache)
    assert cold.scan_counters.rows_parsed == 3
    assert (warm.scan_counters.rows_parsed, warm.scan_counters.bytes_read) == (0, 0)
    assert (warm.notices, warm.files, warm.digest) == (cold.notices, cold.files, cold.digest)
    assert warm.read([2, 0]) == cold.read([2, 0])


def test_a_warm_open_needs_no_pyarrow(tmp_path):
    cache = Cache(tmp_path / "cache")
    path = write(tmp_path / "a.parquet", {"text": list("abc")})
    open_rows(path, TEXT, cache=cache)
    program = (
        "import sys; from pathlib import Path; from rolloutds.cache import Cache;"
        "from rolloutds.readers import RowKeys, open_rows;"
        f"cache = Cache(Path({str(cache.folder)!r}));"
        f"assert len(open_rows({path!r}, RowKeys('text'), cache=cache)) == 3;"
        "assert not {'pyarrow', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.fixture
def small_memory(monkeypatch):
    """Keeps at most one decoded row group."""
    monkeypatch.setattr(decoding, "_KEPT_BYTES", 0)
    decoded = []
    original = decoding.GroupRows._from_group

    def counting(self, group, wanted):
        if group not in self._kept:
            decoded.append(group)
        return original(self, group, wanted)

    monkeypatch.setattr(decoding.GroupRows, "_from_group", counting)
    return decoded


def test_only_the_needed_groups_are_decoded(tmp_path, small_memory):
    path = write(tmp_path / "a.parquet", {"text": [str(n) for n in range(40)]})
    rows = open_rows(path, TEXT, cache=OFF)
    assert [row.value["text"] for row in rows.read([39, 1, 38, 0])] == ["39", "1", "38", "0"]
    assert small_memory == [9, 0]


@pytest.mark.parametrize("whole_group", [0, 1 << 20])
def test_a_shuffled_epoch_decodes_each_group_a_few_times(
    tmp_path, small_memory, monkeypatch, whole_group
):
    monkeypatch.setattr(decoding, "_WHOLE_GROUP_BYTES", whole_group)
    cache = Cache(tmp_path / "cache")
    columns = {"text": [str(n) for n in range(40)], "more": [[{"n": n}] for n in range(40)]}
    path = write(tmp_path / "a.parquet", columns)
    order = [n * 13 % 40 for n in range(40)]
    keys = RowKeys("text", "more")
    rows = open_rows(path, keys, cache=cache)
    for _ in range(4):
        found = [
            row.value for start in range(0, 40, 8) for row in rows.read(order[start : start + 8])
        ]
        assert found == [{"text": str(n), "more": [{"n": n}]} for n in order]
    assert len(small_memory) <= 10 * 2 + 10
    assert sorted(file.kind for file in cache.files()) == ["arrow", "arrow", "index"]
    again = open_rows(path, keys, cache=cache)
    small_memory.clear()
    assert [row.value["text"] for row in again.read(order)] == [str(n) for n in order]
    assert small_memory == []


_PLAIN_COLUMNS = {
    "text": ["a", "é 数 \U0001f642\x00", "", "d"],
    "nothing": pa.nulls(4),
    "flag": [True, None, False, True],
    "small": pa.array([-128, 127, None, 0], pa.int8()),
    "large": pa.array([2**64 - 1, 0, None, 1], pa.uint64()),
    "negative": pa.array([-(2**63), 2**63 - 1, None, 1], pa.int64()),
    "single": pa.array([0.1, float("inf"), None, -0.0], pa.float32()),
    "double": pa.array([0.1, 1e308, None, 5e-324]),
    "long text": pa.array(["x", None, "", "y"], pa.large_string()),
    "blob": [b"\x00\xff", None, b"", b"x"],
    "kind": pa.array(["u", "v", None, "u"]).dictionary_encode(),
    "pair": pa.array([[1, 2], None, [3, None], [0, 0]], pa.list_(pa.int32(), 2)),
    "messages": [[{"role": "user", "content": None}], [], None, [{"role": "a", "content": "b"}]],
    "nested": [{"a": {"b": [[{"c": 1.5}], None]}}, None, {"a": None}, {"a": {"b": []}}],
}


def _read_until_written(path, keys, cache):
    rows = open_rows(path, keys, cache=cache)
    for n in [0, len(rows) - 1] * 5:
        rows.read([n])
    return rows


def test_plain_rows_are_packed_and_come_back_the_same(tmp_path, small_memory):
    cache = Cache(tmp_path / "cache")
    table = pa.table(_PLAIN_COLUMNS)
    path = write(tmp_path / "a.parquet", table, row_group_size=2)
    keys = RowKeys("text", None, None, None, tuple(_PLAIN_COLUMNS))
    rows = _read_until_written(path, keys, cache)
    assert isinstance(rows._readers[0]._rows, PackedRows)
    found = [row.value for row in rows.read([3, 1, 0, 2, 1])]
    expected = [table.to_pylist()[n] for n in (3, 1, 0, 2, 1)]
    assert repr(found) == repr(expected)
    assert found[1]["messages"] is not found[4]["messages"]
    assert repr(open_rows(path, keys, cache=cache).read([3])[0].value) == repr(expected[0])


def test_packed_rows_are_read_without_pyarrow(tmp_path, small_memory):
    cache = Cache(tmp_path / "cache")
    path = write(tmp_path / "a.parquet", {"text": list("abcdefgh")})
    _read_until_written(path, TEXT, cache)
    program = (
        "import sys; from pathlib import Path; from rolloutds.cache import Cache;"
        "from rolloutds.readers import RowKeys, open_rows;"
        f"rows = open_rows({path!r}, RowKeys('text'), cache=Cache(Path({str(cache.folder)!r})));"
        "assert [row.value['text'] for row in rows.read([7, 0])] == ['h', 'a'];"
        "assert not {'pyarrow', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "label",
    [
        pa.array([datetime.date(2026, 1, 2)] * 4),
        pa.array([decimal.Decimal("1.50")] * 4),
        pa.array([[("k", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
        pa.array([{"at": datetime.timedelta(seconds=1)}] * 4),
    ],
)
def test_rows_of_other_types_stay_columns(tmp_path, small_memory, label):
    cache = Cache(tmp_path / "cache")
    path = write(tmp_path / "a.parquet", {"text": list("abcd"), "label": label}, row_group_size=2)
    keys = RowKeys("text", "label")
    rows = _read_until_written(path, keys, cache)
    assert isinstance(rows._readers[0]._rows, decoding.MappedRows)
    assert [row.value["label"] for row in rows.read([3, 0])] == label.to_pylist()[:2]


def test_rows_with_text_that_is_not_utf_8_stay_columns(tmp_path, small_memory):
    offsets = pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0")
    text = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"ab\xff")])
    path = write(tmp_path / "a.parquet", {"text": text}, row_group_size=1)
    rows = open_rows(path, TEXT, cache=Cache(tmp_path / "cache"))
    for n in [0, 1] * 5:
        assert rows.read([n])[0].value == {"text": "ab"[n]}
    assert isinstance(rows._readers[0]._rows, decoding.MappedRows)
    with pytest.raises(DataError, match="text that is not UTF-8"):
        rows.read([2])


def test_rows_kept_in_an_unknown_form_are_decoded_again(tmp_path, small_memory):
    cache = Cache(tmp_path / "cache")
    path = write(tmp_path / "a.parquet", {"text": list("abcdefgh")})
    key = _read_until_written(path, TEXT, cache)._readers[0]._rows_key()
    entry = cache.read("arrow", key)
    header = {**entry.header, "form": "carved"}
    cache.write("arrow", key, header, {"starts": entry.arrays["starts"]})
    small_memory.clear()
    assert open_rows(path, TEXT, cache=cache).read([5])[0].value == {"text": "f"}
    assert small_memory == [1]


def test_damaged_packed_rows_are_decoded_again(tmp_path, small_memory):
    cache = Cache(tmp_path / "cache")
    path = write(tmp_path / "a.parquet", {"text": list("abcdefgh")})
    body = cache.body_path("arrow", _read_until_written(path, TEXT, cache)._readers[0]._rows_key())
    stat = body.stat()
    body.write_bytes(b"\xc1" * stat.st_size)
    os.utime(body, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert open_rows(path, TEXT, cache=cache).read([5])[0].value == {"text": "f"}


def test_written_rows_of_a_changed_file_are_not_used(tmp_path, small_memory):
    cache = Cache(tmp_path / "cache")
    path = write(tmp_path / "a.parquet", {"text": ["old"] * 8})
    rows = open_rows(path, TEXT, cache=cache)
    for n in [0, 7] * 5:
        rows.read([n])
    write(tmp_path / "a.parquet", {"text": ["newer"] * 8})
    assert open_rows(path, TEXT, cache=cache).read([3])[0].value == {"text": "newer"}


def test_without_a_cache_the_groups_stay(tmp_path, small_memory):
    rows = open_rows(write(tmp_path / "a.parquet", {"text": list("abcdefgh")}), TEXT, cache=OFF)
    assert "".join(rows.read([n])[0].value["text"] for n in [0, 7] * 5) == "ah" * 5


def test_columns_nobody_asked_for_are_not_read(tmp_path):
    nanoseconds = pa.array([1, 2], pa.timestamp("ns"))  # which no type of Python can hold
    path = write(tmp_path / "a.parquet", {"text": ["a", "b"], "seen": nanoseconds})
    rows = open_rows(path, TEXT, cache=OFF)
    assert [row.value for row in rows.read([1, 0])] == [{"text": "b"}, {"text": "a"}]
    assert ParquetReader.first_row(path) == {"text": "a"}


@pytest.mark.parametrize(
    ("label", "what"),
    [
        (pa.array([0, 1], pa.timestamp("ns")), "a timestamp[ns]"),
        (pa.array([0, 1], pa.time64("ns")), "a time64[ns]"),
        (pa.array([0, 1], pa.duration("ns")), "a duration[ns]"),
        (pa.array([0, 2**62], pa.timestamp("us")), "a timestamp[us]"),
        (pa.array([{"at": 0}, {"at": 1}], pa.struct([("at", pa.timestamp("ns"))])), "a struct<"),
    ],
)
def test_times_that_python_cannot_hold_stop_the_load(tmp_path, label, what):
    path = write(tmp_path / "a.parquet", {"text": ["a", "b"], "label": label})
    error = error_of(path, RowKeys("text", "label"))
    assert isinstance(error, BadRowsError)
    assert error.problems[0].startswith(f"{path} row 1: column 'label' has {what}")
    assert len(open_rows(f"{path}@[:1]", RowKeys("text", "label"), cache=OFF)) == 1


def test_text_that_is_not_utf_8_names_its_row_and_column(tmp_path):
    offsets = pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0")
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab\xff")])
    path = write(tmp_path / "a.parquet", {"text": text})
    rows = open_rows(path, TEXT, cache=OFF)
    assert rows.read([0])[0].value == {"text": "a"}
    with pytest.raises(DataError) as caught:
        rows.read([1])
    assert caught.value.where == f"{path} row 1"
    assert caught.value.what == "column 'text' has text that is not UTF-8 (byte 0xff)"


def test_two_columns_of_one_name(tmp_path):
    names = ["text", "text", "other", "other"]
    table = pa.Table.from_arrays([pa.array([name]) for name in "abcd"], names=names)
    path = write(tmp_path / "a.parquet", table)
    assert error_of(path).what == "2 columns are named 'text'"
    table = table.select([0, 2, 3])
    path = write(tmp_path / "b.parquet", table)
    assert open_rows(path, TEXT, cache=OFF).read([0])[0].value == {"text": "a"}


@pytest.mark.parametrize("literal", ["ab", None])
def test_a_column_whose_name_has_a_dot_is_not_a_field(tmp_path, literal):
    columns = {"a.b": ["x", literal], "a": [{"b": "field"}] * 2, "": ["", ""]}
    path = write(tmp_path / "a.parquet", columns)
    if literal is None:
        assert len(error_of(path, RowKeys("a.b")).problems) == 1
        return
    rows = open_rows(path, RowKeys("a.b", ""), cache=OFF)
    assert rows.notices == []
    assert rows.read([0])[0].value == {"a.b": "x", "": ""}


@pytest.mark.parametrize("damage", ["truncate", "append", "rewrite", "replace", "remove"])
def test_a_file_that_changes_before_it_is_decoded(tmp_path, damage):
    path = tmp_path / "a.parquet"
    write(path, {"text": ["a"] * 9})
    content = path.read_bytes()
    rows = open_rows(str(path), TEXT, cache=OFF)
    if damage == "truncate":
        os.truncate(path, 10)
    elif damage == "append":
        path.write_bytes(content + b"more")
    elif damage == "rewrite":
        path.write_bytes(content[::-1])
    else:
        path.unlink()
    if damage == "replace":
        path.write_bytes(content[::-1])
    with pytest.raises(DataError, match="changed while it was open"):
        rows.read([0])


def test_a_file_replaced_after_the_first_row_is_read_on(tmp_path):
    path = write(tmp_path / "a.parquet", {"text": ["a"] * 9})
    rows = open_rows(path, TEXT, cache=OFF)
    rows.read([0])
    write(tmp_path / "b.parquet", {"text": ["b"] * 9})
    (tmp_path / "b.parquet").replace(path)
    assert rows.read([5])[0].value == {"text": "a"}


def test_an_encrypted_file_says_so(tmp_path):
    path = tmp_path / "a.parquet"
    content = (tmp_path / write(tmp_path / "b.parquet", {"text": ["a"]})).read_bytes()
    path.write_bytes(b"PARE" + content[4:-4] + b"PARE")
    assert error_of(str(path)).what.startswith("encrypted")
