from __future__ import annotations

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


def test_a_file_that_fails_its_trial_fails_alone(files, tmp_path, monkeypatch):
    from rolloutds.errors import TorchFileError

    paths = [shutil.copy(files / "verl/global_step_2/data.pt", tmp_path / f"{n}.pt") for n in "abc"]
    tried = []

    def refuse_batches(found, budget):
        tried.append(type(found).__name__)
        raise TorchFileError("too much", where=found.file.path)

    monkeypatch.setattr(many, "_can_fork", lambda: True)
    monkeypatch.setattr(many, "try_out", refuse_batches)
    read = list(many.read_many(paths))
    assert tried == ["_Batch"]
    assert [done.error for done in read] == [None, None, None]  # read one by one


def test_more_than_a_batch(files, tmp_path, monkeypatch):
    monkeypatch.setattr(many, "_BATCH_FILES", 3)
    paths = []
    for number in range(8):
        path = tmp_path / "rollout" / f"global_dataset_state_dict_{number}.pt"
        path.parent.mkdir(exist_ok=True)
        paths.append(shutil.copy(files / "slime/rollout/global_dataset_state_dict_4.pt", path))
    listing = checkpoints.list_folder(tmp_path)
    assert [entry.found.rollout_id for entry in listing.entries] == list(range(8))
    assert {entry.state for entry in listing.entries} == {"ok"}
