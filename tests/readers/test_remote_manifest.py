from __future__ import annotations

import pytest

from rolloutds.cache import Cache
from rolloutds.config import DataSourceConfig
from rolloutds.dataset import prompt_settings, row_keys
from rolloutds.engines.local import LocalEngine
from rolloutds.errors import DataError
from rolloutds.manifest import read_manifest
from rolloutds.prompts import RowInspector
from rolloutds.readers import open_rows
from rolloutds.readers.manifest_build import RowSettings, build_manifest, check_manifest
from tests.remote_store import remote  # noqa: F401

NO_CACHE = Cache(None)
CONFIG = DataSourceConfig()
KEYS = row_keys(prompt_settings(CONFIG))


def built(data, target):
    inspect = RowInspector(prompt_settings(CONFIG))
    return build_manifest(
        str(data),
        str(target),
        RowSettings(KEYS, inspect, "error", {}),
        cache=NO_CACHE,
        engine=LocalEngine(1),
    )


@pytest.fixture
def target(remote, tmp_path):  # noqa: F811
    """A manifest of thirty files behind URLs."""
    for number in range(30):
        lines = (f'{{"input": "{number}-{row}"}}\n' for row in range(4))
        remote.pipe(f"/d/{number:02}.jsonl", "".join(lines).encode())
    remote.pipe("/d/notes.md", b"")
    built("counting://d", tmp_path / "all.manifest.json")
    remote.ranges.clear()
    remote.calls.clear()
    return str(tmp_path / "all.manifest.json")


def test_one_listing_and_no_read_open_it(remote, target):  # noqa: F811
    assert read_manifest(target).root == "counting://d"
    assert read_manifest(target).shards[0].token.startswith("ETag=")
    rows = open_rows(target, KEYS, cache=NO_CACHE)
    assert len(rows) == 120
    assert str(rows.place(119)) == "counting://d/29.jsonl:4"
    assert remote.ranges == []
    assert remote.calls == ["info", "ls"]
    assert rows.digest == open_rows("counting://d", KEYS, cache=NO_CACHE).digest


def test_a_draw_opens_the_files_of_its_rows(remote, target):  # noqa: F811
    rows = open_rows(target, KEYS, cache=NO_CACHE)
    found = [row.value["input"] for row in rows.read([119, 0, 118, 41])]
    assert found == ["29-3", "0-0", "29-2", "10-1"]
    assert {name for name, _, _ in remote.ranges} == {
        "/d/29.jsonl",
        "/d/00.jsonl",
        "/d/10.jsonl",
    }


def test_what_changed_is_known_by_its_etag(remote, target):  # noqa: F811
    remote.rm("/d/00.jsonl")
    remote.pipe("/d/01.jsonl", b'{"input": "x-0"}\n' * 4)
    remote.pipe("/d/30.jsonl", b"{}\n")
    with pytest.raises(DataError) as caught:
        open_rows(target, KEYS, cache=NO_CACHE)
    assert str(caught.value).splitlines()[1:5] == [
        "  1 missing: 00.jsonl",
        "  1 not in the manifest: 30.jsonl",
        "  1 written since, not compared: 01.jsonl",
        f"Put the files back, or build it again: rolloutds manifest build DATA -o {target}",
    ]
    checked = check_manifest(target, engine=LocalEngine(1))
    assert checked.difference.changed == ["01.jsonl"]
    assert checked.num_read == 1


def test_one_that_lies_beside_its_data(remote, target, tmp_path):  # noqa: F811
    for name in remote.ls("/d", detail=False):
        (tmp_path / name.rpartition("/")[2]).write_bytes(remote.cat_file(name))
    beside = tmp_path / "here.manifest.json"
    built(tmp_path / "*.jsonl", beside)
    assert read_manifest(str(beside)).root == "."
    remote.pipe("/d/here.manifest.json", beside.read_bytes())
    rows = open_rows("counting://d/here.manifest.json@[4:6]", KEYS, cache=NO_CACHE)
    assert [row.value["input"] for row in rows.read([0, 1])] == ["1-0", "1-1"]
    assert rows.place(0).file == "counting://d/01.jsonl"


def test_one_that_is_not_there(remote):  # noqa: F811
    with pytest.raises(DataError, match=r"counting://d/all.manifest.json: no such file"):
        open_rows("counting://d/all.manifest.json", KEYS, cache=NO_CACHE)
