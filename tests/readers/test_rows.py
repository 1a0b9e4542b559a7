"""The cases of rows that break data sources, and what holds for any dataset of files."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.cache import Cache
from rolloutds.errors import (
    BadRowsError,
    DataError,
    DataNotFoundError,
    EmptyDatasetError,
    SliceError,
)
from rolloutds.readers import Finding, RowKeys, open_rows
from rolloutds.row_keys import MISSING, lookup

OFF = Cache(None)
TEXT = RowKeys("text")
EVERY_KEY_BUT_LABEL = RowKeys("text", None, "metadata", "tools", ("images",))
EVERY_KEY = RowKeys("text", "label", "metadata", "tools", ("images",))


class StandInInspector:
    """Judges metadata and tools as a run does, without the package's own judge."""

    identity = "stand-in"

    def __call__(self, row):
        findings = []
        metadata = lookup(row, "metadata")
        if isinstance(metadata, str) and metadata:
            try:
                is_object = isinstance(json.loads(metadata), dict)
            except ValueError:
                is_object = False
            findings.append(Finding("port_metadata", not is_object, "metadata is text"))
        elif metadata and not isinstance(metadata, dict):
            findings.append(Finding("metadata", True, "metadata is no object"))
        tools = lookup(row, "tools")
        if tools is None or (tools == "" and tools is not MISSING):
            findings.append(Finding("port_tools", False, f"tools is {tools!r}"))
        elif isinstance(tools, dict):
            findings.append(Finding("tools", True, "tools is an object"))
        return findings


def write(path, *lines, end="\n", last=True):
    """Writes lines (text or bytes) and makes the file old enough to be cached."""
    encoded = [line.encode() if isinstance(line, str) else line for line in lines]
    path.write_bytes(end.encode().join(encoded) + (end.encode() if last else b""))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return str(path)


def ten_rows(tmp_path):
    return write(tmp_path / "ten.jsonl", *(f'{{"text": "{n}"}}' for n in range(10)))


def texts(rows):
    return [row.value["text"] for row in rows.read(range(len(rows)))]


def codes(rows):
    return [notice.code for notice in rows.notices]


def error_of(*args, **kwargs):
    with pytest.raises(DataError) as caught:
        open_rows(*args, cache=OFF, **kwargs)
    return caught.value


# CASES.


def test_r1_bom_and_broken_line(tmp_path):
    path = write(tmp_path / "a.jsonl", b'\xef\xbb\xbf{"text":"a"}', '{"text": "b"', '{"text":"c"}')
    error = error_of(path, TEXT)
    assert isinstance(error, BadRowsError)
    assert error.num_bad == 1
    assert error.problems[0].startswith(f"{path}:2:13: not JSON: Expecting ',' delimiter")
    assert "--bad-rows skip" in error.hint
    rows = open_rows(path, TEXT, bad_rows="skip", cache=OFF)
    assert texts(rows) == ["a", "c"]
    assert codes(rows) == ["port_bom", "skipped"]
    assert "slime drops this line" in rows.notices[0].text
    assert f"{path}:2" in rows.notices[1].text
    assert rows.files[0].num_skipped == 1


def test_r2_blank_line(tmp_path):
    rows = open_rows(
        write(tmp_path / "a.jsonl", '{"text":"a"}', "", '{"text":"b"}'), TEXT, cache=OFF
    )
    assert [rows.place(n).line for n in range(2)] == [1, 3]
    assert [rows.row_id(n) for n in range(2)] == [0, 2]
    assert texts(rows) == ["a", "b"]
    assert rows.files[0].num_blank == 1


@pytest.mark.parametrize("bad_rows", ["error", "skip"])
def test_r3_gbk(tmp_path, bad_rows):
    path = write(tmp_path / "a.jsonl", '{"text":"a"}', '{"text":"你好"}'.encode("gbk"))
    [problem] = error_of(path, TEXT, bad_rows=bad_rows).problems
    assert problem.startswith(f"{path}:2: not UTF-8: byte 0xc4 at byte 10 of the line")


@pytest.mark.parametrize("bad_rows", ["error", "skip"])
@pytest.mark.parametrize(
    "lines",
    [
        ['[{"text":"a"},{"text":"b"}]'],
        ["", '  [{"text":"a"},{"text":"b"}]'],
        ["[", '{"text":"a"},', '{"text":"b"}', "]"],
        ['[{"text":"a"},', '{"text":"b"}]'],
        ["\ufeff[", ' {"text":"a"}', "]"],
    ],
)
@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_r4_json_array(tmp_path, name, lines, bad_rows):
    error = error_of(write(tmp_path / name, *lines), TEXT, bad_rows=bad_rows)
    assert "JSON array" in error.what
    assert "jq -c '.[]'" in error.hint
    if name.endswith(".json"):
        assert "suffix .json is not supported" in str(error)


def test_r4_the_command_works(tmp_path):
    path = write(tmp_path / "a.json", '[{"text":"ä"},', '{"text":"b"}]')
    command = error_of(path, TEXT).hint.partition("or: ")[2]
    assert os.system(command.replace("python3", "python3 -X utf8")) == 0
    assert texts(open_rows(str(tmp_path / "a_rows.jsonl"), TEXT, cache=OFF)) == ["ä", "b"]


def test_r4_one_array_among_objects_is_a_bad_row(tmp_path):
    path = write(tmp_path / "a.jsonl", "[1]", '{"text":"a"}')
    assert error_of(path, TEXT).problems == [f"{path}:1: an array, expected an object"]


@pytest.mark.parametrize("first", ["[1", "[", '[{"text": "b"},'])
def test_r4_a_broken_first_line_does_not_make_an_array(tmp_path, first):
    path = write(tmp_path / "a.jsonl", first, '{"text":"a"}')
    assert error_of(path, TEXT).problems[0].startswith(f"{path}:1:")
    assert texts(open_rows(path, TEXT, bad_rows="skip", cache=OFF)) == ["a"]


def test_r4_the_command_is_quoted(tmp_path):
    path = write(tmp_path / "it's.jsonl", '[{"text":"a"}]')
    assert os.system(error_of(path, TEXT).hint.partition("or: ")[2]) == 0
    assert texts(open_rows(str(tmp_path / "it's_rows.jsonl"), TEXT, cache=OFF)) == ["a"]


def test_r5_no_column_types(tmp_path):
    parts = '[{"type":"text","text":"hi"}]'
    path = write(tmp_path / "a.jsonl", '{"text": "hi"}', f'{{"text": {parts}}}')
    assert texts(open_rows(path, TEXT, inspect=StandInInspector(), cache=OFF)) == [
        "hi",
        json.loads(parts),
    ]


def test_r6_missing_key(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text":"a"}', '{"prompt":"b","txt":1}')
    [problem] = error_of(path, TEXT, bad_rows="skip").problems
    assert problem == f"{path}:2: no key 'text', the row has 'prompt', 'txt' (did you mean 'txt'?)"


def test_r6_a_usual_key_is_named_where_none_is_spelt_alike(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text":"a"}', '{"prompt":"b"}')
    error = error_of(path, TEXT)
    assert error.problems[0].endswith("the row has 'prompt' (did you mean 'prompt'?)")
    assert "--input-key" in error.hint


@pytest.mark.parametrize("tools", ["[null]", '["f"]', '[{"name": "f"}, 1]'])
def test_r10_tools_that_are_no_objects_are_seen(tmp_path, tools):
    path = write(tmp_path / "a.jsonl", '{"text":"a","tools":TOOLS}'.replace("TOOLS", tools))
    seen = []

    def inspect(row):
        seen.append(row)
        return []

    open_rows(path, EVERY_KEY_BUT_LABEL, inspect=inspect, cache=OFF)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{}", "no key 'text' in an empty row"),
        ('{"text": null}', "'text' is null, expected a prompt"),
        ("7", "a number, expected an object"),
        ('"a"', "a string, expected an object"),
    ],
)
def test_r6_other_unusable_rows(tmp_path, line, what):
    path = write(tmp_path / "a.jsonl", '{"text":"a"}', line)
    assert error_of(path, TEXT, bad_rows="skip").problems == [f"{path}:2: {what}"]


def test_r7_labels(tmp_path):
    keys = RowKeys("text", "label")
    path = write(tmp_path / "a.jsonl", '{"text":"a","label":null}', '{"text":"a","label":""}')
    rows = open_rows(path, keys, cache=OFF)
    assert [row.value["label"] for row in rows.read([0, 1])] == [None, ""]
    path = write(tmp_path / "b.jsonl", '{"text":"a","label":1}', '{"text":"a"}')
    assert "no key 'label'" in error_of(path, keys).problems[0]


def test_r8_label_types(tmp_path):
    labels = ['"42"', "42", "42.0", "123456789012345678901234567890"]
    path = write(tmp_path / "a.jsonl", *(f'{{"text":"a","label":{label}}}' for label in labels))
    rows = open_rows(path, RowKeys("text", "label"), cache=OFF)
    found = [row.value["label"] for row in rows.read(range(4))]
    assert found == ["42", 42, 42.0, 123456789012345678901234567890]
    assert [type(label) for label in found] == [str, int, float, int]


def test_r9_metadata(tmp_path):
    good = ['"{\\"d\\":1}"', '""', "[]", "0", "null", "{}"]
    path = write(tmp_path / "a.jsonl", *(f'{{"text":"a","label":1,"metadata":{m}}}' for m in good))
    rows = open_rows(path, EVERY_KEY, inspect=StandInInspector(), cache=OFF)
    assert len(rows) == 6
    assert rows.notices == [("port_metadata", f"{path}:1: metadata is text")]
    for bad in ('"{bad"', "[1]"):
        path = write(tmp_path / "b.jsonl", f'{{"text":"a","label":1,"metadata":{bad}}}')
        assert (
            f"{path}:1: metadata is"
            in error_of(path, EVERY_KEY, inspect=StandInInspector()).problems[0]
        )


def test_r10_tools(tmp_path):
    good = ['"tools":"[]"', '"tools":[]', '"tools":null', '"tools":""', '"a":1']
    path = write(tmp_path / "a.jsonl", *(f'{{"text":"a","label":1,{tools}}}' for tools in good))
    rows = open_rows(path, EVERY_KEY, inspect=StandInInspector(), cache=OFF)
    assert rows.notices == [("port_tools", f"{path}:3: tools is None (2 rows in all)")]
    path = write(tmp_path / "b.jsonl", '{"text":"a","label":1,"tools":{"a":1}}')
    assert "tools is an object" in error_of(path, EVERY_KEY, inspect=StandInInspector()).problems[0]


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("@[-3:]", "789"),
        ("@[:-2]", "01234567"),
        ("@[2:5]", "234"),
        ("@[8:99]", "89"),
        ("", "0123456789"),
    ],
)
def test_r11_slices(tmp_path, tail, expected):
    rows = open_rows(ten_rows(tmp_path) + tail, TEXT, cache=OFF)
    assert "".join(texts(rows)) == expected
    assert rows.num_loadable == 10
    assert rows.slice_text == (tail or None)


@pytest.mark.parametrize("tail", ["@[5:2]", "@[99:]", "@[0:10:2]", "@[x:1]", "@[5]"])
def test_r11_refused_slices(tmp_path, tail):
    error = error_of(ten_rows(tmp_path) + tail, TEXT)
    assert isinstance(error, SliceError)
    assert error.hint


@pytest.mark.parametrize("name", ["ten.jsonl@[1]", "ten.jsonl@[0:1]"])
def test_r11_real_file(tmp_path, name):
    shutil.copy(ten_rows(tmp_path), tmp_path / name)
    assert len(open_rows(str(tmp_path / name), TEXT, cache=OFF)) == 10
    assert len(open_rows(f"{tmp_path / name}@[2:4]", TEXT, cache=OFF)) == 2


def test_r13_nan_and_repeated_keys(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text":NaN}', '{"text":1,"b":2,"text":3}')
    rows = open_rows(path, TEXT, cache=OFF)
    assert repr(rows.read([0, 1])[0].value) == "{'text': nan}"
    assert list(rows.read([1])[0].value.items()) == [("text", 3), ("b", 2)]


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_r14_cut_file(tmp_path, end):
    path = write(tmp_path / "a.jsonl", '{"text":"a"}', '{"text":"bcd', last=False)
    [problem] = error_of(path, TEXT).problems
    assert problem.startswith(f"{path}:2:9: not JSON: Unterminated string")
    assert "may be cut short" in problem
    path = write(
        tmp_path / "b.jsonl", '{"text":"a"}', '{"text":"\u4e2d"}'.encode()[:-3], last=False
    )
    assert "may be cut short" in error_of(path, TEXT).problems[0]
    path = write(tmp_path / "c.jsonl", '{"text":"bcd', '{"text":"a"}', last=False)
    assert "may be cut short" not in error_of(path, TEXT).problems[0]


def test_r15_one_large_row(tmp_path):
    small = [f'{{"text": "{n}"}}' for n in range(500)]
    row_bytes = 50_000_000
    path = write(tmp_path / "a.jsonl", *small, '{"text": "' + "x" * row_bytes + '"}', *small)
    tracemalloc.start()
    try:
        rows = open_rows(path, TEXT, cache=OFF)
        [row] = rows.read([500])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(rows) == 1001
    assert len(row.value["text"]) == row_bytes
    assert peak < 3 * row_bytes


@pytest.mark.parametrize("bad_rows", ["error", "skip"])
def test_r16_long_integers(tmp_path, bad_rows):
    path = write(tmp_path / "a.jsonl", '{"text":"a","n":' + "7" * 4000 + "}")
    assert open_rows(path, TEXT, cache=OFF).read([0])[0].value["n"] == int("7" * 4000)
    path = write(tmp_path / "b.jsonl", '{"text":"a"}', '{"text":"a","n":' + "7" * 5000 + "}")
    [problem] = error_of(path, TEXT, bad_rows=bad_rows).problems
    assert problem.startswith(f"{path}:2: ")
    assert "4300 digits" in problem


def test_r17_line_ends(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = '{"text":"a"}\r\n{"text":"b\u2028c"}\r\u3000\n\u3000{"text":"d"}\u2029\r\n'
    path.write_bytes(lines.encode())
    rows = open_rows(str(path), TEXT, cache=OFF)
    assert texts(rows) == ["a", "b\u2028c", "d"]
    assert [rows.place(n).line for n in range(3)] == [1, 2, 4]


# What counts for a slice.


def test_deep_nesting_is_a_bad_row(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text":' + "[" * 100_000 + "]" * 100_000 + "}")
    assert "nested too deeply" in error_of(path, TEXT, bad_rows="skip").problems[0]


def test_rows_beyond_the_slice_are_no_errors(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"text":"a"}', '{"text":"b"}', "{}", "{bad", "[1]", b"\xff")
    rows = open_rows(f"{path}@[:2]", TEXT, cache=OFF)
    assert texts(rows) == ["a", "b"]
    assert codes(rows) == ["beyond_slice"]
    assert "2 lines that cannot be read" in rows.notices[0].text
    assert error_of(f"{path}@[:3]", TEXT).problems[0].startswith(f"{path}:3: no key")
    # The last row is [1]; the broken line before it would not move it, the one after it would.
    assert [p.split(": ")[0] for p in error_of(f"{path}@[-1:]", TEXT).problems] == [
        f"{path}:5",
        f"{path}:6",
    ]


line_kinds = st.sampled_from(["row", "blank", "malformed", "faulty"])
LINES = {"row": '{"text": 1}', "blank": " ", "malformed": "{bad", "faulty": "{}"}
bounds = st.none() | st.integers(-9, 9)


@given(
    st.lists(st.lists(line_kinds, max_size=6), min_size=1, max_size=3),
    bounds,
    bounds,
    st.booleans(),
)
def test_slices_over_files_by_definition(tmp_path_factory, kinds_of_files, start, end, skip):
    folder = tmp_path_factory.mktemp("slices")
    lines = []
    for number, kinds in enumerate(kinds_of_files):
        path = write(folder / f"{number}.jsonl", *(LINES[kind] for kind in kinds), last=bool(kinds))
        lines += [(kind, f"{path}:{line}") for line, kind in enumerate(kinds, 1)]
    counted = [line for line in lines if line[0] in ("row", "faulty")]
    selected = counted[start:end]
    bad = {place for kind, place in selected if kind == "faulty"}
    for kind, place in lines:
        with_it = [line for line in lines if line[0] in ("row", "faulty") or line[1] == place]
        if kind == "malformed" and not skip and with_it[start:end] != selected:
            bad.add(place)
    tail = f"@[{'' if start is None else start}:{'' if end is None else end}]"
    bad_rows = "skip" if skip else "error"
    if bad:
        error = error_of(f"{folder}{tail}", TEXT, bad_rows=bad_rows)
        assert error.num_bad == len(bad)
        places = [":".join(problem.split(":")[:2]) for problem in error.problems]
        assert places == sorted(bad)[:5]
    elif not selected:
        error = error_of(f"{folder}{tail}", TEXT, bad_rows=bad_rows)
        assert isinstance(error, (SliceError, EmptyDatasetError))
    else:
        rows = open_rows(f"{folder}{tail}", TEXT, bad_rows=bad_rows, cache=OFF)
        assert [str(rows.place(n)) for n in range(len(rows))] == [place for _, place in selected]


# Folders, globs, odd paths.


def test_folder(tmp_path):
    write(tmp_path / "b.jsonl", '{"text":"b"}')
    write(tmp_path / "a.jsonl", '{"text":"a1"}', '{"text":"a2"}', last=False)
    write(tmp_path / "note.txt", "x")
    (tmp_path / "c.jsonl").mkdir()
    rows = open_rows(f"{tmp_path}@[1:]", TEXT, cache=OFF)
    assert texts(rows) == ["a2", "b"]
    assert [Path(file.path).name for file in rows.files] == ["a.jsonl", "b.jsonl"]
    assert codes(rows) == ["port_folder", "other_files"]
    assert "c.jsonl/, note.txt" in rows.notices[1].text
    assert texts(open_rows(f"{tmp_path}/?.jsonl", TEXT, cache=OFF)) == ["a1", "a2", "b"]
    assert "port_glob" in codes(open_rows(f"{tmp_path}/*.jsonl", TEXT, cache=OFF))
    assert rows.read([1, 0, 1])[0].place.line == 1


def test_folder_and_glob_without_data(tmp_path):
    write(tmp_path / "note.txt", "x")
    for path in (str(tmp_path), f"{tmp_path}/*.jsonl", f"{tmp_path}/none.jsonl"):
        error = error_of(path, TEXT)
        assert isinstance(error, DataNotFoundError)
        assert isinstance(error, FileNotFoundError)
        assert error.hint


def test_home_is_expanded(tmp_path, monkeypatch):
    ten_rows(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(open_rows("~/ten.jsonl@[:3]", TEXT, cache=OFF)) == 3


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_special_files(tmp_path, name):
    path = tmp_path / name
    os.mkfifo(path)
    assert "not a regular file" in str(error_of(str(path), TEXT))
    path.unlink()
    path.symlink_to(tmp_path / "gone")
    assert "broken link" in str(error_of(str(path), TEXT))
    assert "broken link" in str(error_of(str(tmp_path), TEXT))


def test_permission_denied(tmp_path, monkeypatch):
    path = ten_rows(tmp_path)

    def denied(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", denied)  # root, as CI runs, may read everything
    error = error_of(path, TEXT)
    assert error.what == "cannot be read: Permission denied"
    assert error.hint == "Check its permissions."


@pytest.mark.parametrize(("content", "word"), [(b"", "empty"), (b"\n \r\n", "2 blank lines")])
def test_no_rows(tmp_path, content, word):
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    error = error_of(str(path), TEXT)
    assert isinstance(error, EmptyDatasetError)
    assert "no rows" in error.what
    assert word in error.what


@pytest.mark.parametrize("name", ["a.json", "a.jsonl.gz", "a", "a.csv"])
def test_other_suffixes(tmp_path, name):
    error = error_of(write(tmp_path / name, "x"), TEXT)
    assert ".jsonl or .parquet" in error.expected
    assert error.hint


# Keys.


def test_dotted_keys(tmp_path):
    keys = RowKeys("q.text", "reward.truth")
    path = write(
        tmp_path / "a.jsonl",
        '{"q": {"text": "a"}, "reward": {"truth": null}}',
        '{"q.text": "literal", "q": 3, "reward": {"truth": 1}}',
    )
    rows = open_rows(path, keys, cache=OFF)
    assert codes(rows) == ["port_dotted_key", "port_dotted_key"]
    path = write(tmp_path / "b.jsonl", '{"q": {"text": null}, "reward": {"truth": 1}}')
    assert "'q.text' is null" in error_of(path, keys).problems[0]
    path = write(tmp_path / "c.jsonl", '{"q": {"text": "a"}, "reward": 1}')
    assert "no key 'reward.truth'" in error_of(path, keys).problems[0]


def test_column_names_and_bounds(tmp_path):
    path = write(tmp_path / "a.jsonl", "", '{"text":"a","b":1}', '{"text":"\\u4e2d"}')
    rows = open_rows(path, TEXT, cache=OFF)
    assert rows.column_names() == ["text", "b"]
    assert list(rows.byte_bounds()) == [19, 18]
    assert list(open_rows(f"{path}@[1:]", TEXT, cache=OFF).byte_bounds()) == [18]


@pytest.mark.parametrize("other", ['[{"role":"user"}]', '"\\ud800"', '{"a":1}'])
@pytest.mark.parametrize("padding", [0, 9_000_000])
def test_no_bounds_where_a_prompt_is_no_text(tmp_path, other, padding):
    plain = ['{"text":"a"}', '{"text":"b","pad":"' + "x" * padding + '"}']
    path = write(tmp_path / "plain.jsonl", *plain)
    assert open_rows(path, TEXT, cache=OFF).byte_bounds()[0] == 13
    for place in range(3):
        lines = [*plain[:place], '{"text":' + other + "}", *plain[place:]]
        rows = open_rows(write(tmp_path / f"{place}.jsonl", *lines), TEXT, cache=OFF)
        assert rows.byte_bounds() is None


# Reading.


def test_rows_come_in_the_order_asked_and_are_fresh(tmp_path):
    rows = open_rows(ten_rows(tmp_path), TEXT, cache=OFF)
    found = rows.read([7, 0, 7, 3, 2])
    assert [row.value["text"] for row in found] == ["7", "0", "7", "3", "2"]
    assert found[0].value is not found[2].value
    assert rows.read([]) == []
    for position in (-1, 10):
        with pytest.raises(IndexError):
            rows.read([position])


@pytest.mark.parametrize("how", ["longer", "same size", "shorter"])
def test_a_changed_file_is_never_read(tmp_path, how):
    path = ten_rows(tmp_path)
    rows = open_rows(path, TEXT, cache=OFF)
    content = (tmp_path / "ten.jsonl").read_bytes()
    new = {"longer": content + b"{}", "same size": content.replace(b"0", b"1"), "shorter": b""}[how]
    (tmp_path / "ten.jsonl").write_bytes(new)
    with pytest.raises(DataError, match="changed while it was open"):
        rows.read([3])


def test_a_replaced_file_still_gives_its_old_rows(tmp_path):
    path = ten_rows(tmp_path)
    rows = open_rows(path, TEXT, cache=OFF)
    Path(write(tmp_path / "new.jsonl", '{"text":"new"}')).replace(path)
    assert texts(rows) == list("0123456789")
    rows.close()
    with pytest.raises(DataError, match="closed"):
        rows.read([0])


def test_threads_read_at_once(tmp_path):
    rows = open_rows(ten_rows(tmp_path), TEXT, cache=OFF)
    found = []
    threads = [threading.Thread(target=lambda: found.append(texts(rows))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list("0123456789")] * 8


# The cached index.


def counted(rows):
    return rows.scan_counters.rows_parsed, rows.scan_counters.bytes_read


def test_a_warm_open_parses_nothing_and_reads_nothing(tmp_path):
    cache = Cache(tmp_path / "cache")
    lines = ['{"text":"a","tools":null}', "", "{bad", '{"text":"b"}', '{"text":"c","tools":""}']
    path = write(tmp_path / "a.jsonl", *lines)
    keys = RowKeys("text", tool_key="tools")
    options = {"inspect": StandInInspector(), "bad_rows": "skip", "cache": cache}
    cold = open_rows(path, keys, **options)
    warm = open_rows(path, keys, **options)
    assert counted(cold)[0] > 0
    assert counted(warm) == (0, 0)
    assert (warm.notices, warm.files, warm.digest) == (cold.notices, cold.files, cold.digest)
    assert warm.read(range(3)) == cold.read(range(3))
    assert counted(open_rows(path, TEXT, **options))[0] > 0


def test_a_warm_open_with_a_fault_reads_only_that_line(tmp_path):
    cache = Cache(tmp_path / "cache")
    path = write(tmp_path / "a.jsonl", *['{"text":"a"}'] * 50, "{}")
    open_rows(f"{path}@[:9]", TEXT, cache=cache)
    with pytest.raises(BadRowsError, match="no key 'text'"):
        open_rows(path, TEXT, cache=cache)
    assert counted(open_rows(f"{path}@[:9]", TEXT, cache=cache)) == (0, 0)


@pytest.mark.parametrize("change", ["content", "time", "replaced"])
def test_a_stale_index_is_rebuilt(tmp_path, change):
    cache = Cache(tmp_path / "cache")
    path = ten_rows(tmp_path)
    before = open_rows(path, TEXT, cache=cache)
    if change == "content":
        write(tmp_path / "ten.jsonl", '{"text":"new"}')
    elif change == "time":
        os.utime(path, (1_700_000_001, 1_700_000_001))
    else:
        Path(write(tmp_path / "new.jsonl", *(f'{{"text": "{n}"}}' for n in range(10)))).replace(
            path
        )
    after = open_rows(path, TEXT, cache=cache)
    assert counted(after)[0] > 0
    assert (after.digest == before.digest) == (change != "content")
    assert counted(open_rows(path, TEXT, cache=cache)) == (0, 0)


def test_a_file_written_just_now_is_not_cached(tmp_path, monkeypatch):
    cache = Cache(tmp_path / "cache")
    path = ten_rows(tmp_path)
    modified = Path(path).stat().st_mtime_ns
    monkeypatch.setattr("time.time_ns", lambda: modified + 99_000_000)
    open_rows(path, TEXT, cache=cache)
    assert cache.files() == []
    monkeypatch.setattr("time.time_ns", lambda: modified + 100_000_000)
    open_rows(path, TEXT, cache=cache)
    assert [file.source for file in cache.files()] == [path]


def test_an_open_that_fails_keeps_nothing(tmp_path):
    cache = Cache(tmp_path / "cache")
    path = write(tmp_path / "a.jsonl", "{bad")
    for _ in range(2):
        with pytest.raises(BadRowsError):
            open_rows(path, TEXT, cache=cache)
    assert cache.files() == []


def test_an_inspector_without_a_name_is_not_cached(tmp_path):
    cache = Cache(tmp_path / "cache")
    path = ten_rows(tmp_path)
    open_rows(path, TEXT, inspect=lambda row: [], cache=cache)
    assert cache.files() == []


def test_a_file_changed_while_scanned_is_an_error(tmp_path, monkeypatch):
    path = write(tmp_path / "a.jsonl", '{"text":3}')

    class Touching:
        def __call__(self, row):
            os.utime(path, (1, 1))
            return []

    error = error_of(path, TEXT, inspect=Touching())
    assert "changed while it was read" in error.what
    assert "Try again" in error.hint


def test_the_digest_is_of_content_and_slice(tmp_path):
    path = ten_rows(tmp_path)
    copy = shutil.copy(path, tmp_path / "copy.jsonl")
    whole = open_rows(path, TEXT, cache=OFF).digest
    assert open_rows(str(copy), TEXT, cache=OFF).digest == whole
    assert open_rows(f"{path}@[:9]", TEXT, cache=OFF).digest != whole


def test_two_processes_give_the_same_index(tmp_path, monkeypatch):
    from rolloutds.readers import line_scan, row_index

    lines = ["", '{"text":"a","tools":null}', "{bad", "{}"] + ['{"text":"b"}'] * 60
    path = write(tmp_path / "a.jsonl", *lines)
    options = {"inspect": None, "bad_rows": "skip", "cache": OFF}
    one = open_rows(f"{path}@[2:]", TEXT, **options)
    monkeypatch.setattr(row_index, "_TWO_PROCESSES_BYTES", 0)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(row_index, "BLOCK_BYTES", 32)
    two = open_rows(f"{path}@[2:]", TEXT, **options)
    assert (two.files[0].num_rows, two.notices) == (one.files[0].num_rows, one.notices)
    assert texts(two) == texts(one)
    assert line_scan.BLOCK_BYTES > 64


def test_read_only_cache_folder(tmp_path):
    folder = tmp_path / "cache"
    folder.write_text("a file where the folder would be")
    path = ten_rows(tmp_path)
    assert len(open_rows(path, TEXT, cache=Cache(folder))) == 10
    assert stat.S_ISREG(folder.stat().st_mode)
