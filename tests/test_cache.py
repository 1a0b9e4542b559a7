from __future__ import annotations

import subprocess
import sys
from array import array
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rolloutds.cache as cache_module
from rolloutds.cache import Cache, default_cache_folder

HEADER = {"source": "/data/rows.jsonl", "digest": "ab", "nested": {"n": [1, None]}}
ARRAYS = {
    "starts": array("Q", [0, 7, 2**63]),
    "order": array("i", [-1, 2, 3]),
    "kinds": array("B", [1, 2, 3]),
    "none": array("Q"),
}


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "deep" / "cache")


def only_file(cache):
    [file] = cache.files()
    return file.path


def test_what_is_written_is_read(cache):
    assert cache.write("index", "some key", HEADER, ARRAYS)
    entry = cache.read("index", "some key")
    assert entry.header == HEADER
    assert {name: (view.format, view.tolist()) for name, view in entry.arrays.items()} == {
        name: (values.typecode, values.tolist()) for name, values in ARRAYS.items()
    }
    assert all(view.readonly for view in entry.arrays.values())


def test_other_names_are_misses(cache):
    cache.write("index", "some key", HEADER, ARRAYS)
    assert cache.read("order", "some key") is None
    assert cache.read("index", "other key") is None


def test_a_second_write_takes_the_place_of_the_first(cache):
    cache.write("index", "key", {"n": 1}, {})
    old = cache.read("index", "key")
    cache.write("index", "key", {"n": 2}, {})
    assert (old.header, cache.read("index", "key").header) == ({"n": 1}, {"n": 2})


@given(st.integers(0, 10**6), st.integers(1, 255))
@settings(max_examples=80, deadline=None)
def test_any_flipped_byte_is_a_miss_and_removes_the_file(tmp_path_factory, at, flip):
    cache = Cache(tmp_path_factory.mktemp("cache"))
    cache.write("index", "key", HEADER, ARRAYS)
    path = only_file(cache)
    content = bytearray(path.read_bytes())
    content[at % len(content)] ^= flip
    path.write_bytes(content)
    assert cache.read("index", "key") is None
    assert not path.exists()


@given(st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_any_cut_file_is_a_miss(tmp_path_factory, length):
    cache = Cache(tmp_path_factory.mktemp("cache"))
    cache.write("index", "key", HEADER, ARRAYS)
    path = only_file(cache)
    content = path.read_bytes()
    path.write_bytes(content[: length % len(content)])
    assert cache.read("index", "key") is None


def test_another_version_is_a_miss(cache, monkeypatch):
    cache.write("index", "key", HEADER, ARRAYS)
    monkeypatch.setattr(cache_module, "FORMAT_VERSION", cache_module.FORMAT_VERSION + 1)
    assert cache.read("index", "key") is None


def test_switched_off():
    cache = Cache(None)
    assert not cache.write("index", "key", HEADER, ARRAYS)
    assert cache.read("index", "key") is None
    assert cache.files() == []
    assert cache.clear() == (0, 0)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "cache")
    assert not cache.write("index", "key", HEADER, ARRAYS)
    assert cache.read("index", "key") is None


def test_a_read_only_folder(cache, monkeypatch):
    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", denied)  # root, as CI runs, may write everywhere
    assert not cache.write("index", "key", HEADER, ARRAYS)
    assert cache.read("index", "key") is None


def test_a_full_disk_leaves_nothing(cache, monkeypatch):
    cache.write("index", "key", {"n": 1}, {})

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module, "_pack", full)
    assert not cache.write("index", "key", {"n": 2}, {})
    monkeypatch.undo()
    assert cache.read("index", "key").header == {"n": 1}
    assert len(list(cache.folder.iterdir())) == 1


def test_files_tell_what_they_are_about(cache):
    cache.write("index", "key", HEADER, ARRAYS)
    [file] = cache.files()
    assert (file.kind, file.source) == ("index", "/data/rows.jsonl")
    assert file.num_bytes == file.path.stat().st_size
    assert file.modified == file.path.stat().st_mtime


def test_clear_removes_its_own_files_only(cache):
    cache.write("index", "key", HEADER, ARRAYS)
    with cache.writing_body("arrow", "key") as body:
        body.write(b"x" * 100)
    damaged = cache.folder / "index-0.rdscache"
    damaged.write_bytes(b"damaged")
    (cache.folder / ".writing-left").write_bytes(b"left by a killed process")
    foreign = cache.folder / "mine.txt"
    foreign.write_text("keep")
    num_bytes = sum(file.num_bytes for file in cache.files())
    assert cache.clear() == (4, num_bytes)
    assert list(cache.folder.iterdir()) == [foreign]


def test_a_body_that_fails_leaves_nothing(cache):
    with pytest.raises(ZeroDivisionError), cache.writing_body("arrow", "key"):
        raise ZeroDivisionError
    assert list(cache.folder.iterdir()) == []
    with pytest.raises(OSError, match="switched off"), Cache(None).writing_body("arrow", "key"):
        pass


def test_default_folder(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache_folder() == Path("/somewhere/rolloutds")
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert default_cache_folder().name.startswith("rolloutds")
        assert default_cache_folder().is_absolute()


def test_reading_needs_no_numpy(cache):
    cache.write("index", "key", HEADER, ARRAYS)
    program = (
        "import sys; from pathlib import Path; from rolloutds.cache import Cache;"
        f"assert Cache(Path({str(cache.folder)!r})).read('index', 'key').arrays['starts'][1] == 7;"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
