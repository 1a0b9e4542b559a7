from __future__ import annotations

import pickle
import shutil

from rolloutds import checkpoints
from rolloutds.checkpoints import many


def test_good_and_damaged_files_come_in_order(files, tmp_path):
    good = files / "verl/global_step_2/data.pt"
    paths = [tmp_path / f"{number}.pt" for number in range(8)]
    for path in paths:
        shutil.copy(good, path)
    paths[2].write_bytes(good.read_bytes()[:2000])
    paths[5].write_bytes(b"")
    paths[6].unlink()
    read = list(many.read_many(paths))
    assert [done.path for done in read] == paths
    assert [number for number, done in enumerate(read) if done.error] == [2, 5, 6]
    assert all("_num_yielded" in done.value for done in read if not done.error)


def test_pickles_among_archives_are_read_too(files, tmp_path):
    paths = [tmp_path / name for name in ("a.pkl", "b.pt", "c.pkl", "d.pkl")]
    for path in paths:
        path.write_bytes(pickle.dumps(path.name))
    shutil.copy(files / "verl/global_step_2/data.pt", paths[1])
    read = list(many.read_many(paths))
    assert [done.path for done in read] == paths
    assert [done.error for done in read] == [None] * 4
    assert [done.value for done in read if done.path.suffix == ".pkl"] == [
        "a.pkl",
        "c.pkl",
        "d.pkl",
    ]


def test_more_than_a_batch(files, tmp_path, monkeypatch):
    monkeypatch.setattr("rolloutds.torch_file.reader._BATCH_FILES", 3)
    paths = []
    for number in range(8):
        path = tmp_path / "rollout" / f"global_dataset_state_dict_{number}.pt"
        path.parent.mkdir(exist_ok=True)
        paths.append(shutil.copy(files / "slime/rollout/global_dataset_state_dict_4.pt", path))
    listing = checkpoints.list_folder(tmp_path)
    assert [entry.found.rollout_id for entry in listing.entries] == list(range(8))
    assert {entry.state for entry in listing.entries} == {"ok"}
