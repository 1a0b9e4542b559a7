"""The runner: parts of any size give the same findings; tables that spill find the same."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds import check_dataset, check_groups
from rolloutds.checks import prompt_table
from rolloutds.checks.base import Found, PartOfData, Totals
from rolloutds.checks.columns import Columns, Missing
from rolloutds.checks.findings import as_record
from rolloutds.checks.parts import lay_out
from rolloutds.checks.registry import CHECKS, ROW_CHECKS
from rolloutds.checks.runner import check_rows
from rolloutds.checks.scan import Lines, batches
from rolloutds.checks.selection import Selection
from rolloutds.checks.settings import CheckSettings
from rolloutds.errors import ConfigError
from rolloutds.prompts import PromptSettings
from rolloutds.sample import Sample

SETTINGS = CheckSettings(PromptSettings("prompt", "label"))
LINE_PIECES = st.lists(
    st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\xe2\x80\xa8", b"bcd", b"\x0b\x85"]),
    max_size=30,
)


def read_lines(path, start, stop, size, piece_bytes):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        found = []
        for data, lines in Lines(descriptor, start, stop, size, piece_bytes):
            assert data == b"".join(lines)
            found += lines
        return found
    finally:
        os.close(descriptor)


@given(LINE_PIECES, st.integers(1, 9), st.integers(1, 9))
def test_ranges_own_each_line_once(tmp_path_factory, pieces, range_bytes, piece_bytes):
    data = b"".join(pieces)
    path = tmp_path_factory.mktemp("lines") / "f"
    path.write_bytes(data)
    whole = data.splitlines(keepends=True)
    assert read_lines(path, 0, len(data), len(data), piece_bytes) == whole
    parts = [
        line
        for start in range(0, len(data), range_bytes)
        for line in read_lines(
            path, start, min(start + range_bytes, len(data)), len(data), piece_bytes
        )
    ]
    assert parts == whole


ROWS = st.lists(
    st.sampled_from(
        [
            '{"prompt": "a", "label": "1"}',
            '{"prompt": "A ", "label": "2"}',
            '{"prompt": "a", "label": 1}',
            '{"prompt": [{"role": "user", "content": "a"}], "label": "1"}',
            '{"prompt": [{"role": "x", "content": ""}], "label": null}',
            '{"prompt": "b", "label": "", "metadata": {"k": 1}}',
            '{"prompt": "b", "label": "", "metadata": {"k": "1"}}',
            '{"prompt": "b", "label": NaN, "prompt": "c"}',
            '{"prompt": null}',
            "{",
            "",
            "[]",
        ]
    ),
    max_size=25,
)


def findings(path, **options):
    settings = CheckSettings(SETTINGS.prompts, max_kept=options.pop("max_kept", 1000))
    layout = lay_out(str(path), **options)
    result = check_rows(layout, settings, Selection())
    return [as_record(finding) for finding in result.findings], result.counts


@given(ROWS, st.integers(1, 120), st.integers(0, 3))
def test_parts_of_any_size_find_the_same(tmp_path_factory, rows, part_bytes, max_kept):
    path = tmp_path_factory.mktemp("rows") / "f.jsonl"
    path.write_text("\n".join(rows), "utf-8")
    whole = findings(path, max_kept=max_kept)
    assert findings(path, max_kept=max_kept, part_bytes=part_bytes) == whole


@given(ROWS)
def test_duplicates_are_those_a_plain_loop_finds(tmp_path_factory, rows):
    import json

    path = tmp_path_factory.mktemp("rows") / "f.jsonl"
    path.write_text("\n".join(rows), "utf-8")
    seen: dict[str, tuple[int, object, set[str]]] = {}
    expected = []
    for line, row in enumerate(rows, start=1):
        value = json.loads(row) if row.startswith('{"') else None
        prompt = value["prompt"] if value else None
        if not prompt:
            continue
        text = prompt if isinstance(prompt, str) else prompt[0]["content"] or "x"
        label = repr(value.get("label", "absent"))
        first, label_of_first, texts = seen.setdefault(text.lower().strip(), (line, label, set()))
        if first != line:
            expected.append((line, "DUP001" if text in texts else "DUP002"))
            if label != label_of_first:
                expected.append((line, "DUP003"))
        texts.add(text)
    found = check_dataset(path, select=["DUP"], input_key="prompt", label_key="label")
    assert [(finding.line, finding.code) for finding in found] == expected


def test_a_table_that_spills_finds_the_same(tmp_path, monkeypatch):
    path = tmp_path / "f.jsonl"
    path.write_text("".join(f'{{"prompt": "p {n % 70}{"  " * (n % 3)}"}}\n' for n in range(200)))
    whole = check_dataset(path, select=["DUP"], input_key="prompt")
    monkeypatch.setattr(prompt_table, "SPILL_ROWS", 16)
    settings = CheckSettings(PromptSettings("prompt"))
    layout = lay_out(str(path), part_bytes=300)
    spilled = check_rows(layout, settings, Selection(("DUP",)))
    assert len(whole) == 130
    assert spilled.findings == whole


def test_findings_past_the_limit_are_counted(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_text("{\n" * 50)
    records, counts = findings(path, max_kept=7, part_bytes=11)
    assert [record["line"] for record in records] == list(range(1, 8))
    assert counts == {"ROW001": 50}


@given(
    st.lists(
        st.one_of(
            st.fixed_dictionaries({"a": st.integers(), "b": st.text(max_size=2)}),
            st.dictionaries(st.sampled_from(["a", "b", "c.d"]), st.none() | st.booleans()),
        )
    )
)
def test_columns_are_what_get_gives(objects):
    columns = Columns(objects)
    for key in ["a", "b", "c.d", "e"]:
        assert columns.types(key) == [type(o[key]) if key in o else Missing for o in objects]
        assert columns.kinds(key) == set(columns.types(key))
    assert columns.num_keys() == sum(len(o) for o in objects)
    assert set(columns.names()) == {key for o in objects for key in o}


@pytest.mark.parametrize(
    ("line", "is_repeated"),
    [
        ('{"prompt": "a", "prompt": "b"}', True),
        ('{"prompt" : "a", "prompt"\t:"b"}', True),
        ('{"prompt": "say \\"x\\": y : z", "k": [{"a": 1}, {"a": 1}]}', False),
        ('{"prompt": "\\u0022: \\u0022:", "k": {"a": 1, "\\u0061": 2}}', True),
        ('{"prompt": "a", "k": [[{"b": {"c": 1, "c": 1}}]]}', True),
    ],
)
def test_repeated_keys_wherever_they_are(tmp_path, line, is_repeated):
    path = tmp_path / "f.jsonl"
    path.write_text('{"prompt": "first"}\n' + line + "\n", "utf-8")
    found = check_dataset(path, select=["ROW007"], input_key="prompt")
    assert [finding.line for finding in found] == ([2] if is_repeated else [])


def test_checks_hold_partial_results_that_merge():
    for check in ROW_CHECKS.values():
        one, other = check(SETTINGS), check(SETTINGS)
        one.add(Found("first", 1))
        other.add(Found("second", 2))
        one.merge(other)
        assert ([found.what for found in one.found], one.num_found) == (["first", "second"], 2)


def test_batches_number_lines_from_their_part(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_bytes(b'{"prompt": 1}\n\n{\n{"prompt": 2}')
    size = path.stat().st_size
    totals = Totals()
    part = PartOfData(0, str(path), "name", 0, size, size)
    (batch,) = batches(part, SETTINGS, totals, None)
    assert [totals.place(number) for number in batch.numbers] == [("name", 0), ("name", 3)]
    assert [totals.spot(bad.number) for bad in batch.bad] == ["name:3"]
    assert (totals.num_rows, totals.num_bad, totals.num_blank) == (2, 1, 1)


ODD_LINES = st.lists(
    st.sampled_from(
        [
            b'{"prompt": 1}',
            b'{"prompt": {"a": {}}}',
            b'{"prompt": "}\\n{"}',
            b"{} {}",
            b"{}{}",
            b'{"a":',
            b'{"b": 1}}',
            b'"x": {}',
            b'{"prompt": 1',
            b'"label": 2}',
            b", {}]}",
            b"[{}",
            b"{}]",
            b"{}",
            b" {}",
            b"{} ",
            b"",
            b"1",
            b'{"prompt": NaN}',
            b'{"prompt": "\xff"}',
            b'{"prompt": ' + b"9" * 4301 + b"}",
        ]
    ),
    max_size=7,
)


@given(ODD_LINES, st.sampled_from([b"\n", b"\r\n"]), st.booleans())
def test_rows_are_those_of_their_lines_wherever_objects_end(tmp_path_factory, lines, end, has_end):
    data = end.join(lines) + (end if has_end else b"")
    path = tmp_path_factory.mktemp("odd") / "f.jsonl"
    path.write_bytes(data)
    part = PartOfData(0, str(path), "f", 0, len(data), len(data))
    found = [
        (number, repr(row), line)
        for batch in batches(part, SETTINGS, Totals(), None)
        for number, row, line in zip(batch.numbers, batch.rows, batch.lines, strict=True)
    ]
    expected = []
    for number, line in enumerate(data.splitlines(keepends=True)):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            expected.append((number, repr(value), line))
    assert found == expected


def test_each_file_may_begin_with_a_mark(tmp_path):
    for name in ("1.jsonl", "2.jsonl"):
        row = f'{{"prompt": "{name}"}}\n'
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + row.encode())
    codes = [f.code for f in check_dataset(str(tmp_path), input_key="prompt", ignore=["PORT005"])]
    assert codes == ["PORT003", "PORT003"]


def test_check_dataset_takes_settings_by_name(tmp_path):
    path = tmp_path / "f.jsonl"
    path.write_text('{"q": "a", "answer": ""}\n{"q": "a", "answer": ""}\n')
    found = check_dataset(path, input_key="q", label_key="answer", ignore=["KEY"])
    assert [(finding.code, finding.place) for finding in found] == [("DUP001", f"{path}:2")]
    loud = check_dataset(path, input_key="q", select=["DUP001"], severities={"DUP": "error"})
    assert [finding.severity for finding in loud] == ["error"]
    with pytest.raises(ConfigError, match="no setting 'inputkey'"):
        check_dataset(path, inputkey="q")


def test_check_groups_takes_groups_in_memory():
    def group(index, size):
        return [Sample(group_index=index, index=index * 4 + i, prompt="a") for i in range(size)]

    found = check_groups([group(0, 4), group(1, 3)], n_samples_per_prompt=4, select=["GROUP002"])
    assert [(finding.code, finding.group) for finding in found] == [("GROUP002", 1)]
    assert check_groups([group(0, 4)], select=["GROUP002"]) == []


def test_every_check_is_in_one_registry():
    assert set(ROW_CHECKS) < set(CHECKS)
