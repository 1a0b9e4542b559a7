from __future__ import annotations

import datetime
import pickle
import sys

import pytest

from rolloutds.errors import DataError, DataNotFoundError, MissingExtraError
from rolloutds.storage import FileIdentity, open_stored
from rolloutds.storage.read_ahead import ReadAhead
from rolloutds.storage.remote import RemoteFile, list_remote
from tests.remote_store import remote  # noqa: F401

URL = "counting://d/x.jsonl"
CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def stored(remote):  # noqa: F811
    remote.pipe("/d/x.jsonl", CONTENT)
    remote.ranges.clear()
    remote.calls.clear()
    return remote


def test_reads_the_ranges_that_are_asked_for(stored):
    with open_stored(URL) as file:
        assert file.size == len(CONTENT)
        assert file.descriptor is None
        assert file.pread(10, 300) == CONTENT[300:310]
        assert stored.ranges == [("/d/x.jsonl", 300, 310)]
        assert file.pread(10, len(CONTENT) - 4) == CONTENT[-4:]
        assert file.pread(0, 5) == b""
    with pytest.raises(DataError, match="closed"):
        file.pread(1, 0)


def test_many_ranges_are_one_request_where_they_are_near(stored):
    asked = [(5, 900_000), (7, 100), (20, 4_000), (100, 90), (0, 3)]
    with open_stored(URL) as file:
        assert file.pread_many(asked) == [CONTENT[o : o + n] for n, o in asked]
    assert stored.ranges == [("/d/x.jsonl", 90, 4_020), ("/d/x.jsonl", 900_000, 900_005)]


def test_long_ranges_stay_apart_so_that_they_come_at_once(remote):  # noqa: F811
    remote.pipe("/d/x.jsonl", bytes(9 << 20))
    with open_stored(URL) as file:
        file.pread_many([(4 << 20, 0), (4 << 20, 4 << 20), (1 << 20, 8 << 20)])
    assert len(remote.ranges) == 3


def test_a_stream_reads_from_where_it_is(stored):
    with open_stored(URL) as file:
        stream = file.stream()
        stream.seek(-6, 2)
        assert stream.tell() == len(CONTENT) - 6
        assert stream.read(4) == CONTENT[-6:-2]
        assert stream.read() == CONTENT[-2:]
        assert stream.read() == b""
    assert stored.num_bytes == 6


def test_it_can_be_sent_to_another_process(stored):
    file = pickle.loads(pickle.dumps(open_stored(URL)))
    assert isinstance(file, RemoteFile)
    assert file.pread(3, 1) == CONTENT[1:4]


def test_a_change_gives_another_identity(stored):
    file = open_stored(URL)
    assert file.current_identity() == file.identity
    assert file.identity.is_settled()
    stored.pipe("/d/x.jsonl", CONTENT[::-1])
    assert file.current_identity().size == file.size
    assert not file.current_identity().same_content(file.identity)


@pytest.mark.parametrize("window", [1000, 4096, 1 << 20, 4 << 20])
def test_reading_ahead_gives_the_same_bytes_once(stored, window):
    file = open_stored(URL)
    with ReadAhead(file, window) as ahead:
        pieces = [ahead.pread(700, at) for at in range(0, file.size, 700)]
        assert b"".join(pieces) == CONTENT
        assert ahead.pread(5, file.size) == b""
    assert stored.num_bytes == file.size


def test_reading_ahead_never_leaves_a_gap(stored):
    file = open_stored(URL)
    stored.cut = 1
    with ReadAhead(file) as ahead:
        assert ahead.pread(file.size, 0) == CONTENT[:-1]


# --- listing ----------------------------------------------------------------------------------


@pytest.fixture
def folder(remote):  # noqa: F811
    for name in ("b.jsonl", "a.jsonl", "notes.md", "sub/c.jsonl"):
        remote.pipe(f"/d/{name}", name.encode())
    remote.calls.clear()
    return remote


def listed(url):
    listing = list_remote(url)
    return listing.form, [entry.path for entry in listing.entries]


def test_lists_a_folder_a_glob_and_a_file(folder):
    names = ["a.jsonl", "b.jsonl", "notes.md", "sub"]
    assert listed("counting://d") == ("folder", [f"counting://d/{name}" for name in names])
    assert listed("counting://d/") == listed("counting://d")
    assert listed("counting://d/?.jsonl") == (
        "glob",
        ["counting://d/a.jsonl", "counting://d/b.jsonl"],
    )
    assert listed("counting://d/**/c.jsonl") == ("glob", ["counting://d/sub/c.jsonl"])
    assert listed("counting://d/a.jsonl") == ("file", ["counting://d/a.jsonl"])
    assert listed("counting://d/*.parquet") == ("glob", [])
    with pytest.raises(DataNotFoundError, match="counting://e: no such file or folder"):
        list_remote("counting://e")


def test_a_listing_says_what_opening_would(folder):
    entry = list_remote("counting://d").entries[0]
    assert entry.identity == open_stored("counting://d/a.jsonl").identity


# --- what goes wrong --------------------------------------------------------------------------


class NoCredentialsError(Exception):
    """As a store's own package has it."""


class StatusError(Exception):
    def __init__(self, status):
        super().__init__(f"status {status} for https://me:secret@h/x?sig=hidden")
        self.status = status


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (FileNotFoundError("x"), "no such file or folder"),
        (StatusError(404), "no such file or folder"),
        (PermissionError("Forbidden"), r"access is refused \(PermissionError: Forbidden\)"),
        (StatusError(403), "access is refused"),
        (NoCredentialsError("Unable to locate credentials"), "access is refused"),
        (TimeoutError(), r"no answer in time \(TimeoutError\)"),
        (ConnectionResetError("reset"), r"cannot be read \(ConnectionResetError: reset\)"),
        (RuntimeError("https://me:secret@h/x?sig=hidden"), r"cannot be read \(RuntimeError"),
        (StatusError(500), "cannot be read"),
    ],
)
@pytest.mark.parametrize("request_name", ["info", "cat_file"])
def test_every_failure_is_an_error_of_ours(stored, failure, expected, request_name):
    stored.failures[request_name] = failure
    with pytest.raises(DataError, match=f"^{URL}: {expected}") as caught:
        open_stored(URL).pread(1, 0)
    assert caught.value.hint
    assert "secret" not in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_folder_is_no_file(folder):
    with pytest.raises(DataError, match="counting://d: a folder"):
        open_stored("counting://d")


def test_a_server_that_answers_with_the_whole_file_is_refused(stored, monkeypatch):
    monkeypatch.setattr(type(stored), "cat_file", lambda *_, **__: CONTENT)
    with pytest.raises(DataError, match="does not read by ranges"):
        open_stored(URL).pread(4, 100)


def test_a_server_that_does_not_tell_sizes_is_refused(stored, monkeypatch):
    monkeypatch.setattr(type(stored), "info", lambda *_, **__: {"type": "file", "size": None})
    with pytest.raises(DataError, match="does not tell its size"):
        open_stored(URL)


def test_without_fsspec_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match="reading s3:// URLs needs the package 'fsspec'"):
        open_stored("s3://bucket/x.jsonl")


def test_a_protocol_without_its_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(DataError, match=r"s3:// needs the package 's3fs'.*\npip install s3fs"):
        open_stored("s3://bucket/x.jsonl")


def test_a_protocol_nobody_has():
    with pytest.raises(DataError, match=r"^nowhere://x: the protocol 'nowhere' is not known"):
        open_stored("nowhere://x")


# --- identity ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "token"),
    [
        ({"ETag": '"abc"', "LastModified": "x"}, 'ETag="abc"'),
        ({"md5Hash": "q==", "updated": "2026-01-01T00:00:00Z"}, "md5Hash=q=="),
        ({"mtime": 1.5}, "mtime=1500000000"),
        (
            {"LastModified": datetime.datetime.fromtimestamp(3, datetime.UTC)},
            "LastModified=3000000000",
        ),
        ({"updated": "1970-01-01T00:00:02Z"}, "updated=2000000000"),
        ({"Last-Modified": "Thu, 01 Jan 1970"}, "Last-Modified=Thu, 01 Jan 1970"),
        ({}, ""),
    ],
)
def test_what_stores_say_of_a_content(stored, monkeypatch, info, token):
    monkeypatch.setattr(type(stored), "info", lambda *_, **__: {"type": "file", "size": 7, **info})
    identity = open_stored(URL).identity
    assert (identity.size, identity.token) == (7, token)
    assert identity.is_settled() is bool(token)


def test_a_time_in_seconds_settles_later_than_a_finer_one(monkeypatch):
    now = 1_700_000_000_000_000_000
    monkeypatch.setattr("rolloutds.storage.identity.time.time_ns", lambda: now)
    half = 500_000_000
    assert FileIdentity(1, now - half - 1, token="mtime=1").is_settled()
    assert not FileIdentity(1, now - 2 * half, token="mtime=1").is_settled()
    assert FileIdentity(1, now - 4 * half, token="mtime=1").is_settled()
    assert FileIdentity(1, now - half).is_settled()


def test_identities_of_older_caches_are_read():
    assert FileIdentity.from_header({"identity": [1, 2, 3, 4, 5]}) == FileIdentity(1, 2, 3, 4, 5)
    assert FileIdentity.from_header({"identity": [1, 2]}) is None
    assert FileIdentity.from_header({}) is None


@pytest.mark.parametrize(("info", "is_shared"), [({"ETag": "a"}, True), ({"mtime": 1.5}, False)])
def test_signed_urls_share_a_name_in_the_cache_where_contents_are_marked(
    stored, monkeypatch, info, is_shared
):
    monkeypatch.setattr(type(stored), "info", lambda *_, **__: {"type": "file", "size": 7, **info})
    monkeypatch.setattr("rolloutds.storage.remote._system", lambda url: (stored, "/d/x.jsonl"))
    names = [open_stored(f"https://h/x.jsonl?sig={sig}").cache_name for sig in ("one", "two")]
    assert (names[0] == names[1]) is is_shared
    assert all(name.startswith("https://h/x.jsonl?***") for name in names)
    assert open_stored("https://h/x.jsonl").cache_name == "https://h/x.jsonl"


def test_a_forked_process_makes_its_own_connections(stored, monkeypatch):
    file = open_stored(URL)
    asked = []

    def system(url):
        asked.append(url)
        return stored, "/d/x.jsonl"

    monkeypatch.setattr("rolloutds.storage.remote._system", system)
    assert file.pread(2, 1) == CONTENT[1:3]
    assert asked == []
    monkeypatch.setattr("rolloutds.storage.remote.os.getpid", lambda: -1)
    assert file.pread(2, 1) == CONTENT[1:3]
    assert file.current_identity() == file.identity
    assert asked == [URL]
