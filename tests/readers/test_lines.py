"""The value of a line is what Python's json gives, to the type."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.readers.lines import (
    MAX_DIGITS,
    BlankLineError,
    describe_fault,
    has_long_digits,
    parse_line,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.integers(10**18, 10**25),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
number_texts = st.from_regex(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


def outcome(parse, line):
    try:
        return exact(parse(line))
    except RecursionError:
        return "RecursionError"
    except ValueError as error:
        return type(error).__name__


def exact(value):
    """A text that tells -0.0 from 0, 1 from 1.0 and True, and keeps the order of keys."""
    return repr(value)


def as_python(line: bytes):
    text = line.decode("utf-8").strip()
    if not text:
        raise BlankLineError
    return json.loads(text)


@given(json_values, st.booleans(), st.integers(0, 10**6), st.binary(max_size=3))
def test_mutated_values(value, ascii_only, at, mutation):
    line = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    at %= len(line) + 1
    for candidate in (
        line,
        line[:at] + mutation + line[at:],
        line[:at] + mutation + line[at + 1 :],
    ):
        assert outcome(parse_line, candidate) == outcome(as_python, candidate)


@given(number_texts)
def test_numbers(text):
    line = b"[%s]" % text.encode()
    assert outcome(parse_line, line) == outcome(as_python, line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": NaN, "b": -Infinity, "a": 1}', b'{"a": "\\ud800"}', b"[-0, -0.0, 1e400, 1E5]",
        b"1" * 4000, b"1" * 4300, b"1" * 4301, b'"' + b"1" * 5000 + b'"', b"0." + b"1" * 5000,
        "\u3000{}\u2028".encode(), b"\x1c{}\x1f", "\u3000".encode(), b"", b"\xef\xbb\xbf{}",
        b"[" * 5000, b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\x00"', b'"\xe2\x80\xa8"', b"{}\r\n", b"{} {}",
    ],
    ids=lambda line: f"{len(line)} bytes {line[:12]!r}",
)  # fmt: skip
def test_known_traps(line):
    assert outcome(parse_line, line) == outcome(as_python, line)


@given(
    st.integers(0, 3000),
    st.integers(4000, 6000),
    st.integers(0, 3000),
    st.sampled_from([b"x", b"1x"]),
)
def test_long_digits_are_never_missed(before, count, after, filler):
    data = (filler * 3000)[:before] + b"x" + b"7" * count + b"x" + (filler * 3000)[:after]
    if count > MAX_DIGITS:
        assert has_long_digits(data)
    elif count < 3072 - 1024:
        assert not has_long_digits(data)


def test_faults_name_their_place():
    assert describe_fault(b'{"text": "b"\n').column == 13
    assert describe_fault(b'  {"text": "b"\n').column == 15
    fault = describe_fault('{"text": "好"}'.encode("gbk"))
    assert "UTF-8" in fault.what
    assert "byte 0xba at byte 11 of the line" in fault.what
    assert describe_fault(b"{}") is None
