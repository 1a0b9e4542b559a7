from __future__ import annotations

import json
import os
import shutil
import time
from types import SimpleNamespace

import msgspec
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from rolloutds.cache import Cache
from rolloutds.config import DataSourceConfig
from rolloutds.dataset import Dataset, prompt_settings, row_keys
from rolloutds.engines.local import LocalEngine
from rolloutds.errors import (
    BadRowsError,
    ConfigError,
    DataError,
    DataNotFoundError,
    EmptyDatasetError,
    RolloutDSError,
)
from rolloutds.manifest import Difference, differs, is_inside, read_manifest, root_for
from rolloutds.prompts import RowInspector
from rolloutds.readers import first_row, open_rows
from rolloutds.readers.manifest_build import RowSettings, build_manifest, check_manifest
from rolloutds.readers.paths import find_files
from rolloutds.readers.shards import OpenShards
from rolloutds.source import RolloutDataSource

NO_CACHE = Cache(None)
FILES = {
    "a.jsonl": [{"input": "a0"}, {"input": "a1", "tools": []}, {"input": "a2"}],
    "b.jsonl": [{"input": "b0", "tools": None}, {"input": "b1"}, {"input": "b2", "metadata": "{}"}],
    "c.jsonl": [{"input": "c0"}, {"input": "c1"}],
}


def write(folder, *, bad=False):
    folder.mkdir(exist_ok=True)
    for name, rows in FILES.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (folder / "b.jsonl").open("a") as file:
        file.write("\n \n" + ("{not JSON\n" if bad else "") + '{"input": "b3"}\n')
    (folder / "empty.jsonl").write_text("")


def built(data, target, *, engine=None, cache=NO_CACHE, **changes):
    config = DataSourceConfig(**changes)
    found = prompt_settings(config)
    return build_manifest(
        str(data),
        str(target),
        RowSettings(
            row_keys(found),
            RowInspector(found),
            config.bad_rows,
            {"--input-key": config.input_key},
        ),
        cache=cache,
        engine=engine or LocalEngine(1),
    )


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "data")
    built(tmp_path / "data", tmp_path / "all.manifest.json")
    return tmp_path


@pytest.fixture
def opened_files(monkeypatch):
    """Names of the data files that are opened, in order."""
    opened = []
    from rolloutds.storage import local

    open_regular = local.open_regular

    def noted(path):
        if path.endswith(".jsonl"):
            opened.append(os.path.basename(path))
        return open_regular(path)

    monkeypatch.setattr(local, "open_regular", noted)
    return opened


# --- what it holds ----------------------------------------------------------------------------


def test_it_says_what_each_file_holds(folder):
    manifest = read_manifest(str(folder / "all.manifest.json"))
    assert (manifest.root, manifest.data, manifest.form) == ("data", "", "folder")
    assert (manifest.num_shards, manifest.num_rows) == (4, 9)
    assert manifest.columns == ["input", "tools"]
    first, second, _, empty = manifest.shards
    assert (first.path, first.num_rows, first.num_lines) == ("a.jsonl", 3, 3)
    assert first.num_bytes == (folder / "data/a.jsonl").stat().st_size
    assert first.token == str((folder / "data/a.jsonl").stat().st_mtime_ns)
    assert (second.num_rows, second.num_lines, second.num_blank) == (4, 6, 2)
    assert [finding[0] for finding in second.findings]
    assert empty.num_rows == 0
    rows = open_rows(
        str(folder / "data"), row_keys(prompt_settings(DataSourceConfig())), cache=NO_CACHE
    )
    assert [shard.digest for shard in manifest.shards] == [file.digest for file in rows.files]


def test_a_shard_is_a_line_of_the_file(folder):
    lines = (folder / "all.manifest.json").read_text().splitlines()
    assert len(lines) == 6
    assert json.loads(lines[1].rstrip(","))["path"] == "a.jsonl"


# --- the same as the folder -------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Data with lines that are not JSON, and its manifest."""
    root = tmp_path_factory.mktemp("both")
    write(root / "data", bad=True)
    built(root / "data", root / "data.manifest.json", bad_rows="skip")
    return str(root / "data"), str(root / "data.manifest.json")


def outcome(data, row_slice, bad_rows, hidden):
    args = SimpleNamespace(prompt_data=data + row_slice, rollout_shuffle=True, bad_rows=bad_rows)
    try:
        dataset = Dataset(args, cache=NO_CACHE)
    except RolloutDSError as error:
        return type(error), str(error)
    rows = dataset.rows
    return (
        dataset.fingerprint,
        rows.digest,
        rows.files,
        rows.read(range(len(rows))),
        [rows.place(i) for i in range(len(rows))],
        [rows.row_id(i) for i in range(len(rows))],
        list(rows.byte_bounds()),
        [notice for notice in dataset.notices if notice.code not in hidden],
        list(dataset.order_of(3)),
        rows.column_names(),
    )


BOUND = st.one_of(st.just(""), st.integers(-12, 12).map(str))


@settings(max_examples=60)
@given(
    st.one_of(st.just(""), st.builds("@[{}:{}]".format, BOUND, BOUND)),
    st.sampled_from(["error", "skip"]),
)
def test_naming_the_manifest_is_naming_its_folder(both, row_slice, bad_rows):
    folder, manifest = both
    ways = {"port_folder", "other_files"}
    assert outcome(manifest, row_slice, bad_rows, ways) == outcome(
        folder, row_slice, bad_rows, ways
    )


def test_it_says_that_slime_takes_one_file(folder):
    rows = open_rows(f"{folder}/all.manifest.json", KEYS, cache=NO_CACHE)
    assert rows.notices[0].code == "port_folder"
    assert rows.notices[0].text.endswith(
        "a manifest, read as its 4 files in its order; slime takes one file"
    )


KEYS = row_keys(prompt_settings(DataSourceConfig()))


def test_the_first_row_is_the_first_shards(folder):
    assert first_row(f"{folder}/all.manifest.json@[3:4]") == {"input": "a0"}


# --- no file is opened for it -----------------------------------------------------------------


def test_one_listing_tells_what_is_there(folder, monkeypatch):
    listed = []
    scandir = os.scandir

    def noted(path):
        listed.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    open_rows(f"{folder}/all.manifest.json", KEYS, cache=NO_CACHE)
    assert listed == [f"{folder}/data"]


def test_a_shard_is_opened_when_a_row_of_it_is_drawn(folder, opened_files):
    dataset = Dataset(SimpleNamespace(prompt_data=f"{folder}/all.manifest.json"), cache=NO_CACHE)
    assert dataset.fingerprint["num_rows"] == 9
    assert dataset.rows.place(0).line == 1
    assert opened_files == []
    assert dataset.rows.read([8, 0])[0].value == {"input": "c1"}
    assert sorted(opened_files) == ["a.jsonl", "c.jsonl"]
    dataset.rows.read([1, 7])
    assert len(opened_files) == 2
    assert dataset.rows.scan_counters.bytes_read > 0


def test_few_shards_are_held_open(folder):
    manifest = read_manifest(f"{folder}/all.manifest.json")
    rows = open_rows(f"{folder}/data", KEYS, cache=NO_CACHE)
    shards = OpenShards(lambda path: rows._readers[names.index(path)], max_open=2)
    names = [shard.path for shard in manifest.shards]
    for shard in [*manifest.shards, *manifest.shards]:
        assert len(shards.reader(shard.path, shard)) == shard.num_rows
        assert len(shards) <= 2
    shards.close()
    assert len(shards) == 0


def test_a_shard_that_changes_after_opening_is_refused(folder):
    rows = open_rows(f"{folder}/all.manifest.json", KEYS, cache=NO_CACHE)
    path = folder / "data/c.jsonl"
    path.write_text(path.read_text().replace("c1", "cX"))
    assert rows.read([0])[0].value == {"input": "a0"}
    with pytest.raises(DataError, match=r"c.jsonl: the file changed since its manifest was built"):
        rows.read([8])


def test_only_files_of_a_slice_are_asked_for_bounds(folder, opened_files):
    rows = open_rows(f"{folder}/all.manifest.json@[1:5]", KEYS, cache=NO_CACHE)
    whole = open_rows(f"{folder}/data", KEYS, cache=NO_CACHE).byte_bounds()
    opened_files.clear()
    assert list(rows.byte_bounds()) == list(whole)[1:5]
    assert sorted(opened_files) == ["a.jsonl", "b.jsonl"]


def test_a_shard_that_holds_other_rows_than_it_says_is_refused(folder):
    def moved(content):
        content["shards"][0].update(num_rows=2, num_lines=2)
        content["shards"][1]["num_rows"] += 1

    rows = open_rows(rewritten(folder, moved), KEYS, cache=NO_CACHE)
    with pytest.raises(DataError, match=r"a.jsonl: 3 rows, and its manifest says 2"):
        rows.read([0])


# --- what is there is not what it says ---------------------------------------------------------


def test_missing_changed_and_extra_files_are_one_error(folder):
    data = folder / "data"
    (data / "a.jsonl").unlink()
    (data / "b.jsonl").write_text('{"input": "b"}\n')
    for number in range(7):
        (data / f"new-{number}.jsonl").write_text("{}\n")
    with pytest.raises(DataError) as caught:
        open_rows(f"{folder}/all.manifest.json", KEYS, cache=NO_CACHE)
    assert str(caught.value) == (
        f"{folder}/all.manifest.json: the files are not those of the manifest:\n"
        "  1 missing: a.jsonl\n"
        "  1 changed: b.jsonl\n"
        "  7 not in the manifest: new-0.jsonl, new-1.jsonl, new-2.jsonl, new-3.jsonl, new-4.jsonl "
        "and 2 more\n"
        "Put the files back, or build it again: rolloutds manifest build DATA -o "
        f"{folder}/all.manifest.json"
    )


def test_a_folder_that_is_gone_misses_every_file(folder):
    shutil.rmtree(folder / "data")
    with pytest.raises(DataError, match=r"4 missing: a.jsonl, b.jsonl, c.jsonl, empty.jsonl"):
        open_rows(f"{folder}/all.manifest.json", KEYS, cache=NO_CACHE)


def test_a_copied_file_is_read_and_its_digest_compared(folder, opened_files):
    os.utime(folder / "data/a.jsonl", ns=(1, 1))
    rows = open_rows(f"{folder}/all.manifest.json", KEYS, cache=NO_CACHE)
    assert opened_files == ["a.jsonl"]
    assert len(rows) == 9


def test_other_bytes_of_the_same_size_are_refused(folder):
    path = folder / "data/b.jsonl"
    path.write_text(path.read_text().replace("b1", "bX"))
    os.utime(path, ns=(1, 1))
    with pytest.raises(DataError, match=r"1 changed: b\.jsonl"):
        open_rows(f"{folder}/all.manifest.json", KEYS, cache=NO_CACHE)


def test_a_touched_file_that_cannot_be_read_is_not_called_changed(folder, monkeypatch):
    path = folder / "data/b.jsonl"
    os.utime(path, ns=(1, 1))
    open_file = os.open

    def refused(name, *rest, **more):
        if str(name) == str(path):
            raise PermissionError(13, "Permission denied")
        return open_file(name, *rest, **more)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(DataError, match=r"b.jsonl: cannot be read: Permission denied"):
        open_rows(f"{folder}/all.manifest.json", KEYS, cache=NO_CACHE)


def test_who_reads_every_file_compares_bytes(folder, opened_files):
    path = folder / "data/b.jsonl"
    manifest = f"{folder}/all.manifest.json"
    os.utime(path, ns=(1, 1))
    assert len(find_files(manifest, [".jsonl"], compares_bytes=True).paths) == 4
    assert opened_files == ["b.jsonl"]
    path.write_text(path.read_text().replace("b1", "bX"))
    assert len(find_files(manifest, [".jsonl"]).paths) == 4
    with pytest.raises(DataError, match=r"1 changed: b\.jsonl"):
        find_files(manifest, [".jsonl"], compares_bytes=True)


def test_the_next_step_for_one_behind_a_url_is_a_local_file():
    found = differs("s3://me:secret@b/x y.manifest.json", Difference(["a"], [], [], []))
    assert found.hint.endswith("rolloutds manifest build DATA -o 'x y.manifest.json'")


def test_both_can_be_moved_together(folder, tmp_path_factory):
    target = tmp_path_factory.mktemp("moved") / "there"
    shutil.copytree(folder, target)
    assert len(open_rows(f"{target}/all.manifest.json", KEYS, cache=NO_CACHE)) == 9


def test_a_glob_counts_only_what_it_matches(tmp_path):
    write(tmp_path / "data")
    target = tmp_path / "elsewhere.manifest.json"
    built(tmp_path / "data" / "[ab].jsonl", target)
    (tmp_path / "data" / "z.jsonl").write_text("{}\n")
    manifest = read_manifest(str(target))
    assert (manifest.root, manifest.data, manifest.form) == ("data", "[ab].jsonl", "glob")
    assert len(open_rows(str(target), KEYS, cache=NO_CACHE)) == 7
    (tmp_path / "data" / "a.jsonl").unlink()
    with pytest.raises(DataError, match=r"1 missing: a\.jsonl"):
        open_rows(str(target), KEYS, cache=NO_CACHE)


def test_a_file_and_the_folder_one_stands_in(tmp_path, monkeypatch):
    write(tmp_path / "data")
    monkeypatch.chdir(tmp_path / "data")
    for data, form in [("a.jsonl", "file"), ("*.jsonl", "glob"), (".", "folder")]:
        built(data, "here.manifest.json")
        manifest = read_manifest("here.manifest.json")
        assert (manifest.root, manifest.form) == (".", form)
        rows = open_rows("here.manifest.json", KEYS, cache=NO_CACHE)
        assert rows.place(0).file == "a.jsonl"
        assert len(rows) == manifest.num_rows


def test_where_the_root_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert root_for("data", "x.manifest.json") == "data"
    assert root_for("data/", "data/x.manifest.json") == "."
    assert root_for("data", "other/x.manifest.json") == str(tmp_path / "data")
    assert root_for("s3://bucket/data/", "x.manifest.json") == "s3://bucket/data"


# --- other settings ---------------------------------------------------------------------------


def test_a_run_that_reads_other_keys_is_refused(folder):
    for changes in (
        {"input_key": "question"},
        {"label_key": "label"},
        {"apply_chat_template": True},
    ):
        found = prompt_settings(DataSourceConfig(**changes))
        with pytest.raises(
            DataError, match=r"was built for rows read otherwise \(--input-key input\)"
        ):
            open_rows(
                f"{folder}/all.manifest.json",
                row_keys(found),
                inspect=RowInspector(found),
                cache=NO_CACHE,
            )


# --- a damaged one ----------------------------------------------------------------------------


def rewritten(folder, change):
    """The manifest with another content and the digest that belongs to it."""
    path = folder / "all.manifest.json"
    content = json.loads(path.read_text())
    del content["digest"]
    change(content)
    text = json.dumps(content)[:-1].encode() + b","
    digest = xxhash.xxh3_128_hexdigest(text)
    path.write_bytes(text + b'"digest":"' + digest.encode() + b'"}\n')
    return str(path)


def test_a_rewritten_one_with_its_digest_is_read(folder):
    assert read_manifest(rewritten(folder, lambda content: None)).num_rows == 9


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda c: c["shards"][0].update(path="/etc/x.jsonl"), "'/etc/x.jsonl' lies outside"),
        (lambda c: c["shards"][0].update(path="../x.jsonl"), "lies outside the manifest's root"),
        (lambda c: c["shards"][0].update(path="a/../../x.jsonl"), "'a/../../x.jsonl' lies outside"),
        (lambda c: c["shards"][0].update(path="s3://b/x.jsonl"), "'s3://b/x.jsonl' lies outside"),
        (lambda c: c["shards"][0].update(path=""), "'' lies outside"),
        (lambda c: c["shards"][0].update(path="b.jsonl"), "a shard is there twice"),
        (lambda c: c.update(root="../.."), "its root '../..' is no folder below it"),
        (lambda c: c.update(schema_version=9), "a manifest of version 9, expected version 1"),
        (lambda c: c.update(kind="cursor"), 'no manifest, expected "kind": "manifest"'),
        (lambda c: c.update(num_shards=3), "4 shards, and 3 counted"),
        (lambda c: c.update(shards=[], num_shards=0), "0 shards"),
        (lambda c: c["shards"][0].update(num_rows=-1), "num_rows|>= 0"),
        (lambda c: c["shards"][0].update(num_rows="3"), "Expected `int`"),
        (lambda c: c["shards"][0].update(num_rows=1 << 70), "num_rows|<="),
        (lambda c: c["shards"][0].update(num_rows=4), "10 rows in its shards, and 9 counted"),
        (lambda c: c.update(num_rows=8), "9 rows in its shards, and 8 counted"),
        (lambda c: c.pop("keys"), "missing required field `keys`"),
    ],
)
def test_a_manifest_that_cannot_be_right_is_refused(folder, change, expected):
    with pytest.raises(DataError, match=expected.replace("(", r"\(")) as caught:
        read_manifest(rewritten(folder, change))
    assert caught.value.where == f"{folder}/all.manifest.json"
    assert caught.value.hint


def test_an_edited_one_is_refused(folder):
    path = folder / "all.manifest.json"
    path.write_text(path.read_text().replace('"num_rows":3', '"num_rows":4', 1))
    with pytest.raises(DataError, match="its digest is of another text"):
        read_manifest(str(path))


def test_every_cut_is_refused(folder):
    path = folder / "all.manifest.json"
    content = path.read_bytes()
    for length in range(0, len(content) - 1, 37):
        path.write_bytes(content[:length])
        with pytest.raises(DataError):
            read_manifest(str(path))


def test_what_is_no_json_is_refused(folder):
    path = folder / "all.manifest.json"
    for content in (b"", b"\xff", b"[1]", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(DataError, match="damaged manifest"):
            read_manifest(str(path))
    path.unlink()
    with pytest.raises(DataNotFoundError):
        open_rows(str(path), KEYS, cache=NO_CACHE)


@pytest.mark.parametrize("name", ["x", "a/b.jsonl", "a..b/c", "..a", "@[0:1]"])
def test_names_below_the_root(name):
    assert is_inside(name)


# --- building ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bad_rows", ["error", "skip"])
def test_bad_rows_stop_the_build_as_they_stop_a_load(tmp_path, bad_rows):
    write(tmp_path / "data", bad=True)
    (tmp_path / "data" / "d.jsonl").write_text('{"input": null}\n' * 7)
    with pytest.raises(BadRowsError) as loaded:
        open_rows(str(tmp_path / "data"), KEYS, bad_rows=bad_rows, cache=NO_CACHE)
    with pytest.raises(BadRowsError) as caught:
        built(tmp_path / "data", tmp_path / "x.manifest.json", bad_rows=bad_rows)
    assert str(caught.value) == str(loaded.value)
    assert not list(tmp_path.glob("*.manifest.json"))


def test_skipped_lines_are_counted_by_file(tmp_path):
    write(tmp_path / "data", bad=True)
    found = built(tmp_path / "data", tmp_path / "x.manifest.json", bad_rows="skip")
    assert [shard.num_skipped for shard in found.shards] == [0, 1, 0, 0]
    assert found.shards[1].skipped == ((5, 3),)


def test_several_processes_write_the_same_bytes(folder):
    one = (folder / "all.manifest.json").read_bytes()
    with LocalEngine(2) as engine:
        built(folder / "data", folder / "all.manifest.json", engine=engine)
    assert (folder / "all.manifest.json").read_bytes() == one


def test_the_indexes_are_kept(folder, tmp_path):
    for path in (folder / "data").iterdir():
        os.utime(path, (time.time() - 10, time.time() - 10))
    cache = Cache(tmp_path / "cache")
    first = built(folder / "data", folder / "all.manifest.json", cache=cache)
    again = built(folder / "data", folder / "all.manifest.json", cache=cache)
    assert (first.num_cached, again.num_cached) == (0, 4)
    assert first.digest == again.digest
    rows = open_rows(f"{folder}/all.manifest.json", KEYS, cache=cache)
    rows.read([0])


@pytest.mark.parametrize(
    ("data", "target", "expected"),
    [
        ("data@[0:3]", "x.manifest.json", "a slice @[0:3], and a manifest is of whole files"),
        ("data", "x.json", "'x.json' is no name for a manifest"),
        ("data", "s3://b/x.manifest.json", "is no name for a manifest"),
        ("all.manifest.json", "x.manifest.json", "a manifest, expected the data"),
        ("https://me:secret@h/x.jsonl", "x.manifest.json", "a URL with credentials in it"),
    ],
)
def test_what_cannot_be_built(folder, monkeypatch, data, target, expected):
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError) as caught:
        built(data, target)
    assert expected in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["a::b.jsonl", "a\\b.jsonl", os.fsdecode(b"\xff.jsonl")])
def test_a_name_that_a_manifest_cannot_hold_stops_the_build(folder, opened_files, name):
    (folder / "data" / name).write_text('{"input": "a"}\n')
    with pytest.raises(DataError, match="is no name that a manifest can hold"):
        built(folder / "data", folder / "x.manifest.json")
    assert opened_files == []
    assert not (folder / "x.manifest.json").exists()


def test_where_nothing_can_be_written_nothing_is_read(folder, opened_files):
    (folder / "d.manifest.json").mkdir()
    for target, why in (("none/x.manifest.json", "No such file"), ("d.manifest.json", "Is a dir")):
        with pytest.raises(DataError, match=f"cannot be written .{why}"):
            built(folder / "data", folder / target)
    assert opened_files == []


def test_data_without_rows_has_no_manifest(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(EmptyDatasetError, match="no rows"):
        built(tmp_path / "empty.jsonl", tmp_path / "x.manifest.json")


def test_a_folder_that_cannot_be_written_leaves_the_old_one(folder, monkeypatch):
    one = (folder / "all.manifest.json").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rolloutds.manifest.os.fsync", full)
    with pytest.raises(DataError, match=r"cannot be written \(No space left on device\)"):
        built(folder / "data", folder / "all.manifest.json")
    assert (folder / "all.manifest.json").read_bytes() == one
    assert sorted(path.name for path in folder.iterdir()) == ["all.manifest.json", "data"]


# --- checking ---------------------------------------------------------------------------------


def states(checked):
    found = checked.difference
    return found.missing, found.changed, found.extra


def test_check_lists_what_differs(folder, opened_files):
    path = f"{folder}/all.manifest.json"
    engine = LocalEngine(1)
    checked = check_manifest(path, engine=engine)
    assert (states(checked), checked.num_read, opened_files) == (([], [], []), 0, [])
    assert check_manifest(path, is_full=True, engine=engine).num_read == 4
    data = folder / "data"
    (data / "a.jsonl").unlink()
    (data / "d.jsonl").write_text("{}")
    stamp = (data / "b.jsonl").stat().st_mtime_ns
    (data / "b.jsonl").write_text((data / "b.jsonl").read_text().replace("b1", "bX"))
    os.utime(data / "b.jsonl", ns=(stamp, stamp))
    assert states(check_manifest(path, engine=engine)) == (["a.jsonl"], [], ["d.jsonl"])
    full = check_manifest(path, is_full=True, engine=engine)
    assert states(full) == (["a.jsonl"], ["b.jsonl"], ["d.jsonl"])
    os.utime(data / "b.jsonl", ns=(1, 1))
    touched = check_manifest(path, engine=engine)
    assert (states(touched)[1], touched.num_read) == (["b.jsonl"], 1)


def test_a_shard_record_is_plain(folder):
    shard = read_manifest(f"{folder}/all.manifest.json").shards[0]
    assert msgspec.to_builtins(shard).keys() >= {"path", "num_bytes", "token", "digest"}


# --- in a run ---------------------------------------------------------------------------------


def prompts_of(source, count):
    return [group[0].prompt for group in source.get_samples(count)]


def test_a_run_on_the_folder_resumes_on_the_manifest(folder):
    pytest.importorskip("torch", reason="needs the torch extra")

    def source(data):
        args = SimpleNamespace(
            prompt_data=str(data),
            rollout_shuffle=True,
            rollout_global_dataset=True,
            n_samples_per_prompt=2,
            save=str(folder / "run"),
            load=str(folder / "run"),
        )
        return RolloutDataSource(args)

    first = source(folder / "data")
    prompts_of(first, 4)
    first.save(0)
    expected = prompts_of(first, 9)
    resumed = source(folder / "all.manifest.json")
    resumed.load(0)
    assert prompts_of(resumed, 9) == expected
