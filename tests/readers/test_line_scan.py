"""The scan against a plain loop, whatever the bytes and however the file is split."""

from __future__ import annotations

import itertools
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.errors import DataError
from rolloutds.readers.base import Finding, RowKeys
from rolloutds.readers.line_checks import LineKind, RowCheck
from rolloutds.readers.line_scan import PartialScan, merge, scan_range
from rolloutds.row_keys import MISSING, lookup

KEYS = RowKeys("text", "label", "metadata", "tools", ("images",))
LABELLESS = RowKeys("text")
DOTTED = RowKeys("extra.text", "reward.truth", "extra.info")


class SayEverything:
    """Errs on numbers, and says something of every other row it is shown."""

    identity = "all"

    def __call__(self, row):
        metadata = lookup(row, "metadata")
        return [Finding("port_seen", isinstance(metadata, int), f"metadata {metadata!r}")]


def plain_loop(content: bytes, keys: RowKeys, inspect=None) -> PartialScan:
    """What the scan is to find, line by line, with Python's own reading of text."""
    scan = PartialScan()
    check = RowCheck(keys, inspect)
    offset = 0
    for number, raw in enumerate(universal_lines(content)):
        scan.starts.append(offset)
        offset += len(raw)
        scan_line(scan, number, raw.removeprefix(b"\xef\xbb\xbf") if number == 0 else raw, check)
    return scan


def universal_lines(content: bytes) -> list[bytes]:
    """Lines as text mode ends them; latin-1 keeps one character a byte."""
    lines, line = [], ""
    text = content.decode("latin-1")
    for at, character in enumerate(text):
        line += character
        if character == "\n" or (character == "\r" and text[at + 1 : at + 2] != "\n"):
            lines.append(line.encode("latin-1"))
            line = ""
    return [*lines, line.encode("latin-1")] if line else lines


def scan_line(scan: PartialScan, number: int, raw: bytes, check: RowCheck) -> None:
    try:
        text = raw.decode().strip()
        if not text:
            scan.blank.append(number)
            return
        value = json.loads(text)
    except json.JSONDecodeError:
        scan.malformed.append(number)
        scan.malformed_kinds.append(LineKind.NOT_JSON)
        return
    except (ValueError, RecursionError):
        scan.malformed.append(number)
        scan.malformed_kinds.append(LineKind.UNREADABLE)
        return
    is_row = (
        isinstance(value, dict)
        and lookup(value, check.keys.input_key) not in (MISSING, None)
        and (check.keys.label_key is None or lookup(value, check.keys.label_key) is not MISSING)
    )
    if is_row:
        scan.add(number, check.row(value))
    else:
        scan.faulty.append(number)


def facts(scan: PartialScan) -> dict[str, object]:
    counted = ("rows_parsed", "bytes_read", "digests")
    return {name: value for name, value in vars(scan).items() if name not in counted}


def scanned(path, keys, inspect=None, *, splits=(), block_bytes=1, piece_bytes=3):
    """The file scanned in ranges; with `piece_bytes` of a real size, many lines at once."""
    size = path.stat().st_size
    descriptor = os.open(path, os.O_RDONLY)
    try:
        edges = [0, *sorted(splits), size]
        parts = [
            scan_range(
                descriptor,
                start,
                stop,
                size,
                RowCheck(keys, inspect),
                block_bytes=block_bytes,
                piece_bytes=piece_bytes,
            )
            for start, stop in itertools.pairwise(edges)
        ]
        return merge(parts)
    finally:
        os.close(descriptor)


values = st.sampled_from(
    [
        "null", "1", "-0", "1e400", "NaN", "-Infinity", '""', '"hi"', '"{\\"a\\": 1}"', "[]", "{}",
        '{"a": [1, {"b": null}]}', '[{"role": "user", "content": "x"}]', '"\\ud800"', '"\u2028"',
        '"\u4e2d\U0001f600"', "[1", '"\\x"', "tru", "1" * 4300, "2" * 4301, '"' + "3" * 5000 + '"',
        "0." + "4" * 5000, "[[]]", '"a\tb"', "01", "1.", "{\"a\":1,}", "true", '"\x00"',
    ]
)  # fmt: skip
names = st.sampled_from(
    ["text", "label", "metadata", "tools", "images", "extra", "reward", "extra.text", "other"]
)
members = st.builds(lambda name, value: f'"{name}": {value}', names, values)
dotted_members = st.sampled_from(
    ['"extra": {"text": "a", "info": {}}', '"reward": {"truth": null}', '"reward": 3']
)
objects = st.lists(members | dotted_members, max_size=5).map(
    lambda parts: "{" + ", ".join(parts) + "}"
)
good = st.just('{"text": "hi", "label": 1, "extra": {"text": "a"}, "reward": {"truth": 2}}')
rows = st.one_of(
    good, objects, values, st.sampled_from(["", " ", "\u3000", "\ufeff", "\x1c", "\x85"])
)
padded = st.tuples(st.sampled_from(["", " ", "\u00a0", "\t"]), rows).map("".join)
ends = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b"\r\r\n", b" \n"])


@st.composite
def contents(draw):
    """Bytes of a file: rows, some of them mutated, ended in every way."""
    parts = [b"\xef\xbb\xbf"] if draw(st.booleans()) else []
    for row in draw(st.lists(padded, max_size=6)):
        parts += [row.encode("utf-8"), draw(ends)]
    content = b"".join(parts)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(content)))
        replaced = draw(st.integers(0, 2))
        new = draw(
            st.sampled_from([b"", b"{", b"}", b"\n", b"\r", b"\xff", b"\xe4", b"\x00", b'"', b","])
        )
        content = content[:at] + new + content[at + replaced :]
    return content


keys_of = st.sampled_from([KEYS, LABELLESS, DOTTED])


@given(
    contents(), keys_of, st.booleans(), st.lists(st.integers(0, 200), max_size=3), st.integers(1, 9)
)
def test_any_split_and_piece_is_the_plain_loop(
    tmp_path_factory, content, keys, inspected, cuts, piece
):
    path = tmp_path_factory.mktemp("scan") / "rows.jsonl"
    path.write_bytes(content)
    inspect = SayEverything() if inspected else None
    splits = [cut for cut in cuts if cut <= len(content)]
    found = scanned(path, keys, inspect, splits=splits, piece_bytes=piece)
    assert facts(found) == facts(plain_loop(content, keys, inspect))


@given(contents(), keys_of, st.booleans(), st.integers(0, 3))
def test_many_lines_at_once_is_the_plain_loop(tmp_path_factory, content, keys, inspected, copies):
    """Mutated rows among good ones, through the parser that takes many lines at once."""
    import rolloutds.readers.line_scan as line_scan

    good_line = b'{"text": "hi", "label": 1, "extra": {"text": "a"}, "reward": {"truth": 2}}\n'
    content = good_line * copies + content + good_line * copies
    path = tmp_path_factory.mktemp("scan") / "rows.jsonl"
    path.write_bytes(content)
    inspect = SayEverything() if inspected else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_scan, "_NUMPY_BYTES", 0)
        found = scanned(path, keys, inspect, block_bytes=1 << 24, piece_bytes=1 << 20)
    assert facts(found) == facts(plain_loop(content, keys, inspect))


@given(contents())
def test_the_digest_is_of_the_blocks_alone(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("scan") / "rows.jsonl"
    path.write_bytes(content)
    whole = scanned(path, KEYS, block_bytes=4, piece_bytes=4)
    split = scanned(path, KEYS, block_bytes=4, piece_bytes=3, splits=[4 * (len(content) // 8)])
    assert split.digests == whole.digests
    assert len(whole.digests) == 16 * -(-len(content) // 4)


def test_a_plain_file_is_taken_many_lines_at_once(tmp_path, monkeypatch):
    import rolloutds.readers.line_scan as line_scan

    monkeypatch.setattr(line_scan, "_NUMPY_BYTES", 0)
    lines = [
        f'{{"text": "row {n}", "label": {n}, "metadata": {{}}, "tools": []}}' for n in range(500)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines) + "\n")
    single = []
    monkeypatch.setattr(RowCheck, "line", lambda self, line: single.append(line))
    found = scanned(path, KEYS, SayEverything(), block_bytes=1 << 24, piece_bytes=1 << 20)
    assert len(found.starts) == 500
    assert single == []


def test_a_file_that_gets_shorter_is_an_error(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": 1}\n')
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with pytest.raises(DataError, match="ends at byte 12") as caught:
            scan_range(descriptor, 0, 30, 30, RowCheck(LABELLESS))
    finally:
        os.close(descriptor)
    assert "try again" in caught.value.hint
