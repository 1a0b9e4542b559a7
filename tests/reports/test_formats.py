from __future__ import annotations

import datetime
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.reports import FORMATS, render
from rolloutds.reports.json_text import as_json
from rolloutds.reports.model import (
    Block,
    Border,
    Cells,
    Column,
    Facts,
    Heading,
    Report,
    Table,
)
from rolloutds.reports.paging import PAGE_ROWS
from rolloutds.reports.visible import shortened, visible, visible_lines, width

TABLE_COLUMNS = [
    Column("#", justify="right"),
    Column("prompt", limit=20, is_flexible=True),
    Column("label", limit=12),
    Column("empty", is_optional=True),
]


def report(rows, *others):
    return Report("example", {"a": 1}, "rows", [{"b": 2}], [Table(TABLE_COLUMNS, rows), *others])


def text(made, name="text", *, on_terminal=False):
    return "".join(render(made, name, on_terminal=on_terminal))


def test_plain_tables_are_aligned_and_cut_to_their_limits():
    rows = [Cells(["1", "x" * 50, "a", ""]), Border("epoch 1"), Cells(["10", "日本", "bb", ""])]
    assert text(report(rows)) == (
        " #  prompt                label\n"
        " 1  xxxxxxxxxxxxxxxxxxx…  a\n"
        "-- epoch 1 --\n"
        "10  日本                  bb\n"
    )


@pytest.mark.parametrize("on_terminal", [False, True])
def test_rows_are_read_a_page_at_a_time(on_terminal):
    taken = []

    def rows():
        for i in range(10 * PAGE_ROWS):
            taken.append(i)
            yield Cells([str(i), "p", "l", ""])

    pieces = render(report(rows()), "text", on_terminal=on_terminal)
    next(pieces)
    assert len(taken) <= 2 * PAGE_ROWS


def test_an_optional_column_shows_when_the_first_page_has_text():
    assert "empty" in text(report([Cells(["1", "p", "l", "x"])]))
    assert "empty" not in text(report([Cells(["1", "p", "l", ""])]))


def test_sections_are_set_apart():
    made = Report(
        "e", {}, sections=[Facts([("a", "1"), ("long", "2")]), Heading("h"), Block("x\n\ny", "t")]
    )
    assert text(made) == "a     1\nlong  2\n\nh\n\nt\n  | x\n  |\n  | y\n"


def test_a_long_plain_table_keeps_its_columns():
    rows = [Cells([str(i), "p", "l", ""]) for i in range(3 * PAGE_ROWS)]
    lines = text(report(rows)).splitlines()
    assert len(lines) == 1 + 3 * PAGE_ROWS
    assert {line.index("p") for line in lines} == {5}


def test_paths_are_whole_in_plain_tables():
    path = "folder/" * 60 + "name.jsonl"
    made = Report("e", {}, sections=[Table([Column("path", 20, keeps_end=True)], [Cells([path])])])
    assert path in text(made)


def test_json_is_one_object_whose_records_are_streamed():
    assert json.loads(text(report([]), "json")) == {
        "kind": "example",
        "schema_version": 1,
        "a": 1,
        "rows": [{"b": 2}],
    }
    none = Report("example", {}, "rows", [])
    assert json.loads(text(none, "json"))["rows"] == []
    assert text(none, "jsonl") == ""
    assert json.loads(text(Report("example", {"a": 1}), "jsonl"))["kind"] == "example"


def test_markdown_escapes_what_would_act():
    rows = [Cells(["1", "a|b <i> `c` *d*", "[x](y) @me", ""]), Border("epoch 1")]
    shown = text(report(rows, Block("```\nx", "t")), "markdown")
    assert r"a\|b \<i\> \`c\` \*d\*" in shown
    assert r"\[x\](y) \@me"[:8] in shown
    assert "````text\n```\nx\n````" in shown


@pytest.mark.parametrize(("name", "on_terminal"), [*((n, False) for n in FORMATS), ("text", True)])
@given(data=st.text())
def test_no_format_lets_a_control_character_through(name, on_terminal, data):
    made = Report(
        "e",
        {"x": data},
        "rows",
        [{"x": data}],
        [
            Facts([("x", data)]),
            Heading(data),
            Block(data, data),
            Table([Column("c")], [Cells([data]), Border(data)]),
        ],
    )
    shown = text(made, name, on_terminal=on_terminal)
    shown.encode("utf-8")
    assert not [c for c in shown if c != "\n" and visible(c) != c]


@given(st.text())
def test_visible_changes_nothing_the_second_time(data):
    assert visible(visible(data)) == visible(data)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("\u200da \u200d\u200db", r"\u200da \u200d\u200db"),
        ("👩\u200d👩 ന\u200dമ", "👩\u200d👩 ന\u200dമ"),
        ("plain [bold]x[/bold] é 日本", "plain [bold]x[/bold] é 日本"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x1b[31m\x7f\x9b", r"\x1b[31m\x7f\x9b"),
        ("\u202e\u2066\u2028\ufeff\ud800", r"\u202e\u2066\u2028\ufeff\ud800"),
        ("  ::error::x", r"  :\:error::x"),
        ("a::b", "a::b"),
        ("x ##[error]", r"x #\#[error]"),
    ],
)
def test_what_is_escaped(data, shown):
    assert visible(data) == shown


def test_lines_of_a_block():
    assert visible_lines("a\r\nb\n\u2028c") == ["a", "b", r"\u2028c"]


@given(st.text(), st.integers(1, 30))
def test_a_shortened_text_is_never_wider_than_its_limit(data, limit):
    assert width(shortened(data, limit)) <= limit


def test_a_head_of_a_huge_text_costs_little():
    assert shortened("x" * 10_000_000, 5) == "xxxx…"


def test_wide_and_combining_characters_are_measured():
    assert shortened("日本語のラベル", 5) == "日本…"
    assert shortened("e\u0301" * 3, 6) == "e\u0301" * 3
    assert [width(one) for one in ("日本", "e\u0301", "👩\u200d👩", "❤️")] == [4, 1, 2, 2]


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON_VALUES)
def test_json_reads_back_the_same(value):
    assert json.loads(as_json(value)) == value


def test_lone_surrogates_are_written_as_escapes():
    assert as_json("a\ud800b\u2028") == r'"a\ud800b\u2028"'


@pytest.mark.parametrize(
    ("value", "tagged"),
    [
        (float("nan"), {"__rolloutds__": "float", "value": "nan"}),
        (float("-inf"), {"__rolloutds__": "float", "value": "-inf"}),
        (b"\x00", {"__rolloutds__": "bytes", "data": "AA=="}),
        (datetime.date(2026, 1, 2), {"__rolloutds__": "datetime", "value": "2026-01-02"}),
    ],
)
def test_values_json_has_no_form_for_are_tagged(value, tagged):
    assert json.loads(as_json({"a": [value]})) == {"a": [tagged]}
    assert json.loads(as_json({1: value})) == {"1": tagged}


def test_an_integer_of_4000_digits_is_written_whole():
    number = 10**3_999 + 7
    assert json.loads(as_json([number])) == [number]
