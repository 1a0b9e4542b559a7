from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolloutds.cache import Cache
from rolloutds.dataset import Dataset
from rolloutds.errors import BadRowsError, DataError, DataNotFoundError, RolloutDSError
from rolloutds.readers import first_row, open_rows
from rolloutds.readers.base import RowKeys
from tests.remote_store import remote  # noqa: F401

fsspec = pytest.importorskip("fsspec", reason="needs the remote extra")

KEYS = RowKeys("input")
NO_CACHE = Cache(None)


def lines(name, count, width=0):
    rows = ({"input": f"{name}-{i}{'x' * width}", "label": i} for i in range(count))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


# --- the same data here and there -------------------------------------------------------------

FILES = {
    "a.jsonl": lines("a", 5),
    "b.jsonl": b"\xef\xbb\xbf" + lines("b", 3) + b"\n  \n" + lines("c", 2).rstrip(),
    "e.jsonl": b"",
    ".hidden.jsonl": b"{",
    "notes.md": b"# notes",
}


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """One folder on the disk, and its copy in memory."""
    local = tmp_path_factory.mktemp("data")
    memory = fsspec.filesystem("memory")
    for name, content in FILES.items():
        (local / name).write_bytes(content)
        memory.pipe(f"/copies/{name}", content)
    yield str(local), "memory://copies"
    memory.rm("/copies", recursive=True)


def told(root, text):
    return text.replace(root, "ROOT")


def outcome(root, prompt_data):
    """All that a dataset says of prompt data, or its error, without the root's name."""
    try:
        args = SimpleNamespace(prompt_data=f"{root}{prompt_data}", rollout_shuffle=True)
        dataset = Dataset(args, cache=NO_CACHE)
    except RolloutDSError as error:
        return type(error), told(root, str(error))
    rows = dataset.rows.read(range(len(dataset.rows)))
    return (
        dataset.fingerprint,
        dataset.rows.digest,
        [row.value for row in rows],
        [told(root, str(row.place)) for row in rows],
        [told(root, notice.text) for notice in dataset.notices],
        dataset.rows.column_names(),
        [list(dataset.order_of(epoch_id)) for epoch_id in (0, 1)],
    )


BOUND = st.one_of(st.none(), st.integers(-12, 12))
SLICE = st.one_of(
    st.just(""),
    st.builds(
        lambda a, b: f"@[{'' if a is None else a}:{'' if b is None else b}]",
        BOUND,
        BOUND,
    ),
)


@settings(max_examples=40)
@given(SLICE, st.sampled_from(["", "/", "/*.jsonl", "/[ab].jsonl", "/a.jsonl", "/b.jsonl"]))
def test_a_copy_behind_a_url_is_the_same_data(copies, row_slice, data):
    local, memory = copies
    assert outcome(memory, data + row_slice) == outcome(local, data + row_slice)


def test_a_file_url_is_the_file_itself(copies):
    local, _ = copies
    for data in ("", "/a.jsonl", "/*.jsonl@[2:4]"):
        assert outcome(f"file://{local}", data) != ()
        rows = open_rows(f"file://{local}{data}", KEYS, cache=NO_CACHE)
        same = open_rows(f"{local}{data}", KEYS, cache=NO_CACHE)
        assert rows.digest == same.digest
        assert rows.place(0) == same.place(0)


def test_the_first_row_comes_without_an_index(remote):  # noqa: F811
    remote.pipe("/d/a.jsonl", b"\n[1]\n" + lines("a", 10_000, width=500))
    remote.ranges.clear()
    assert first_row("counting://d@[5:7]")["input"].startswith("a-0x")
    assert remote.num_bytes <= 8192


# --- what is read -----------------------------------------------------------------------------


def test_a_file_is_read_once_for_its_index_and_then_by_rows(remote, cache):  # noqa: F811
    content = lines("a", 400, width=40_000)
    remote.pipe("/d/a.jsonl", content)
    size = len(content)
    remote.ranges.clear()
    rows = open_rows("counting://d", KEYS, cache=cache)
    assert rows.digest
    assert size <= remote.num_bytes <= size + 100_000  # the first row's keys are looked up again
    remote.ranges.clear()
    again = open_rows("counting://d", KEYS, cache=cache)
    assert again.digest == rows.digest
    assert remote.ranges == []
    assert [row.value["label"] for row in again.read([7, 300, 8])] == [7, 300, 8]
    assert len(remote.ranges) == 2
    assert remote.num_bytes == sum(len(line) for line in content.splitlines(True)[7:9]) + len(
        content.splitlines(True)[300]
    )
    assert again.scan_counters.bytes_read == remote.num_bytes


def test_another_content_has_another_index(remote, cache):  # noqa: F811
    remote.pipe("/d/a.jsonl", lines("a", 4))
    first = open_rows("counting://d/a.jsonl", KEYS, cache=cache)
    remote.pipe("/d/a.jsonl", lines("b", 4))
    second = open_rows("counting://d/a.jsonl", KEYS, cache=cache)
    assert first.digest != second.digest
    assert second.read([0])[0].value["input"] == "b-0"


def test_rows_of_many_files_come_in_the_order_asked_for(remote):  # noqa: F811
    for number in range(40):
        remote.pipe(f"/d/{number:02}.jsonl", lines(f"{number}", 3))
    rows = open_rows("counting://d", KEYS, cache=NO_CACHE)
    positions = [(i * 37) % 120 for i in range(120)]
    found = [row.value["input"] for row in rows.read(positions)]
    assert found == [f"{p // 3}-{p % 3}" for p in positions]


# --- what goes wrong --------------------------------------------------------------------------


@pytest.fixture
def opened(remote):  # noqa: F811
    remote.pipe("/d/a.jsonl", lines("a", 4))
    return open_rows("counting://d/a.jsonl", KEYS, cache=NO_CACHE)


def test_a_change_after_the_index_is_noticed(remote, opened):  # noqa: F811
    remote.pipe("/d/a.jsonl", lines("b", 4))
    with pytest.raises(
        DataError, match=r"counting://d/a.jsonl: the file changed while it was open"
    ):
        opened.read([1])


def test_a_short_answer_is_a_change(remote, opened):  # noqa: F811
    remote.cut = 1
    with pytest.raises(DataError, match="changed while it was open"):
        opened.read([1])


def test_a_short_answer_while_it_is_indexed(remote):  # noqa: F811
    remote.pipe("/d/a.jsonl", lines("a", 4))
    remote.cut = 1
    with pytest.raises(
        DataError, match=r"counting://d/a.jsonl: the file ends at byte 115, it was 116"
    ):
        open_rows("counting://d/a.jsonl", KEYS, cache=NO_CACHE)


def test_a_change_while_it_is_indexed(remote, monkeypatch):  # noqa: F811
    remote.pipe("/d/a.jsonl", lines("a", 4))
    read = type(remote).cat_file

    def rewrite(self, path, *span, **kwargs):
        data = read(self, path, *span, **kwargs)
        self.pipe(path, lines("b", 4))
        return data

    monkeypatch.setattr(type(remote), "cat_file", rewrite)
    with pytest.raises(DataError, match="the file changed while it was read"):
        open_rows("counting://d/a.jsonl", KEYS, cache=NO_CACHE)


@pytest.mark.parametrize("failure", [PermissionError("no"), TimeoutError(), OSError("lost")])
@pytest.mark.parametrize("request_name", ["info", "ls", "cat_file"])
def test_failures_name_the_url(remote, failure, request_name):  # noqa: F811
    remote.pipe("/d/a.jsonl", lines("a", 4))
    remote.failures[request_name] = failure
    with pytest.raises(DataError, match=r"^counting://d"):
        open_rows("counting://d", KEYS, cache=NO_CACHE)


def test_a_file_that_goes_away(remote, opened):  # noqa: F811
    remote.rm("/d/a.jsonl")
    with pytest.raises(DataNotFoundError, match=r"counting://d/a.jsonl"):
        opened.read([0])


def test_bad_rows_name_their_url_and_line(remote):  # noqa: F811
    remote.pipe("/d/a.jsonl", lines("a", 2) + b"{bad\n")
    with pytest.raises(BadRowsError, match=r"counting://d/a.jsonl:3:2: not JSON"):
        open_rows("counting://d", KEYS, cache=NO_CACHE)
    rows = open_rows("counting://d", KEYS, cache=NO_CACHE, bad_rows="skip")
    assert [notice.code for notice in rows.notices] == ["port_folder", "skipped"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.json", b'[{"input": 1}]', "JSON array"),
        ("a.jsonl.gz", b"\x1f\x8b", "unsupported suffix '.gz'"),
        ("a.txt", b"{}", "unsupported suffix '.txt'"),
    ],
)
def test_files_of_other_kinds(remote, name, content, expected):  # noqa: F811
    remote.pipe(f"/d/{name}", content)
    with pytest.raises(DataError, match=expected) as caught:
        open_rows(f"counting://d/{name}", KEYS, cache=NO_CACHE)
    assert str(caught.value).startswith(f"counting://d/{name}")


def test_nothing_readable_behind_a_url(remote):  # noqa: F811
    remote.pipe("/d/a.md", b"")
    remote.pipe("/d/sub/x.jsonl", b"")
    with pytest.raises(
        DataNotFoundError, match=r"no data files in the folder \(found a.md, sub/\)"
    ):
        open_rows("counting://d", KEYS, cache=NO_CACHE)
    with pytest.raises(DataNotFoundError, match="no data files match"):
        open_rows("counting://d/*.parquet", KEYS, cache=NO_CACHE)


def test_credentials_are_in_no_message_place_or_cache(remote, cache, monkeypatch):  # noqa: F811
    monkeypatch.setattr(
        "rolloutds.storage.remote._system",
        lambda url: (remote, "/d/a.jsonl"),
    )
    remote.pipe("/d/a.jsonl", lines("a", 2) + b"\n")
    url = "https://me:secret@host/a.jsonl?sig=hidden"
    rows = open_rows(url, KEYS, cache=cache)
    shown = "https://me:***@host/a.jsonl?***"
    assert rows.place(0).file == shown
    assert rows.files[0].path == shown
    kept = b"".join(file.path.read_bytes() for file in cache.files())
    texts = f"{rows.notices} {rows.read([0])} {kept!r}"
    assert "secret" not in texts
    assert "hidden" not in texts
    remote.pipe("/d/a.jsonl", b"[]")
    with pytest.raises(DataError) as caught:
        open_rows(f"{url}@[9:", KEYS, cache=cache)
    assert "secret" not in str(caught.value)
