from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from rolloutds.errors import DataError, DataNotFoundError
from rolloutds.rollouts import open_groups
from rolloutds.rollouts.opening import find_dumps
from tests.remote_store import remote  # noqa: F401

FILES = Path(__file__).parent / "files"


@pytest.fixture
def examples(remote, tmp_path, monkeypatch):  # noqa: F811
    """The example files behind URLs, and a folder of its own for copies."""
    for path in sorted(FILES.rglob("*")):
        if path.is_file():
            remote.pipe(f"/files/{path.relative_to(FILES)}", path.read_bytes())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "copies"))
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies"


def read(name, root):
    groups = open_groups(name)
    found = [
        (
            str(group.place).replace(root, "ROOT"),
            group.rollout_id,
            group.is_eval,
            repr([sample.to_dict() for sample in group.samples]),
        )
        for group in groups
    ]
    files = [(f.path.replace(root, "ROOT"), f.format_name, f.rollout_id) for f in groups.files]
    return found, files, [n.text.replace(root, "ROOT") for n in groups.notices]


@pytest.mark.parametrize(
    "name",
    [
        "verl",
        "verl/*.jsonl",
        "rolloutds/samples.jsonl",
        "prime-rl/rollouts/step_*/**/*.jsonl",
        "nemo-rl",
        "trl/completions_00005.parquet",
        "slime/12.pt",
        "slime",
        "checkpoint/rollout/global_dataset_state_dict_7.pt",
    ],
)
def test_dumps_behind_urls_are_read_as_files_are(examples, name):
    here = read(str(FILES / name), str(FILES))
    there = read(f"counting://files/{name}", "counting://files")
    assert there[0] == here[0]
    assert there == here
    assert list(examples.iterdir()) == []


def test_folders_and_globs_are_listed_by_the_numbers_in_names(remote):  # noqa: F811
    for name in ("2.pt", "10.pt", "1.pt", ".hidden.pt", "README.md", "deeper/3.pt"):
        remote.pipe(f"/d/{name}", b"x")
    expected = [f"counting://d/{name}" for name in ("1.pt", "2.pt", "10.pt")]
    assert find_dumps(["counting://d"]) == expected
    assert find_dumps(["counting://d/*.pt", "counting://d/2.pt"]) == expected
    assert find_dumps([f"file://{FILES}/verl"]) == find_dumps([str(FILES / "verl")])
    with pytest.raises(DataNotFoundError, match=r"counting://d/nine.pt: no such file"):
        find_dumps(["counting://d/nine.pt"])
    with pytest.raises(DataNotFoundError, match=r"counting://d/\*.xyz: no such file"):
        find_dumps(["counting://d/*.xyz"])


def test_one_copy_lies_on_the_disk_while_its_file_is_read(examples):
    seen = []
    for group in open_groups("counting://files/verl/*.jsonl"):
        copies = [path.name for path in examples.rglob("*.jsonl")]
        seen.append((os.path.basename(group.place.file), copies))
    assert {len(copies) for _, copies in seen} == {1}
    assert all(copies == [name] for name, copies in seen)
    assert list(examples.iterdir()) == []


def test_a_reading_that_stops_early_leaves_no_copy(examples):
    groups = iter(open_groups("counting://files/verl"))
    next(groups)
    assert len(list(examples.iterdir())) == 1
    groups.close()
    assert list(examples.iterdir()) == []


def test_errors_name_the_url(remote, examples):  # noqa: F811
    remote.pipe("/d/1.jsonl", b'{"samples": 1}\n{bad\n')
    remote.pipe("/d/2.pt", b"PK\x03\x04")
    remote.pipe("/d/3.bin", b"\x00\x01")
    for name in ("1.jsonl", "2.pt", "3.bin"):
        with pytest.raises(Exception, match=f"^counting://d/{name}") as caught:
            list(open_groups(f"counting://d/{name}"))
        assert str(examples) not in str(caught.value)
    assert list(examples.iterdir()) == []


def test_a_file_that_cannot_be_fetched(remote, examples):  # noqa: F811
    remote.failures["cat_file"] = TimeoutError()
    with pytest.raises(DataError, match=r"counting://files/verl/40.jsonl: no answer in time"):
        list(open_groups("counting://files/verl/40.jsonl"))
    del remote.failures["cat_file"]
    remote.cut = 1
    with pytest.raises(DataError, match="the file changed while it was read"):
        list(open_groups("counting://files/verl/40.jsonl"))
    assert list(examples.iterdir()) == []


def test_no_room_for_a_copy(examples, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rolloutds.storage.local_copy.os.makedirs", full)
    with pytest.raises(DataError, match=r"cannot be copied here .*No space left on device"):
        list(open_groups("counting://files/verl/40.jsonl"))
