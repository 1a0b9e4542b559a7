from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rolloutds import checkpoints
from rolloutds.checkpoints.base import UNLIKE, find_layout, id_in_path
from rolloutds.checkpoints.tree import Tree
from rolloutds.errors import CheckpointError, MissingStateError


def opened(path: Path, **settings):
    return checkpoints.open_file(path, **settings)


@pytest.mark.parametrize(
    ("path", "dialect", "rollout_id"),
    [
        ("verl/global_step_2/data.pt", "verl", 2),
        ("skyrl/global_step_2/data.pt", "skyrl", 2),
        ("nemo-rl/step_2/train_dataloader.pt", "nemo-rl", 2),
        ("nemo-rl/step_2/train_dataloader_math.pt", "nemo-rl", 2),
        ("openrlhf/global_step12/mp_rank_00_model_states.pt", "openrlhf", 12),
        ("areal/dataloader_info.pkl", "areal", 41),
        ("prime-rl/step_30/orchestrator/progress.pt", "prime-rl", 30),
        ("slime/rollout/global_dataset_state_dict_9.pt", "slime", 9),
    ],
)
def test_each_dialect_is_recognised(files, path, dialect, rollout_id):
    file = opened(files / path)
    assert [d.name for d in file.candidates] == [dialect]
    assert file.rollout_id == rollout_id


def test_without_neighbours_verl_and_skyrl_are_not_told_apart(files):
    file = opened(files / "unknown/global_step_3/data.pt")
    assert file.systems == "verl or SkyRL"
    assert opened(file.path, dialect_name="skyrl").systems == "SkyRL"


@pytest.mark.parametrize(
    ("neighbour", "dialect"),
    [
        ("latest_checkpointed_iteration.txt", "verl"),
        ("latest_ckpt_global_step.txt", "skyrl"),
        ("global_step_3/trainer_state.pt", "skyrl"),
    ],
)
def test_a_neighbour_tells(files, tmp_path, neighbour, dialect):
    shutil.copytree(files / "unknown/global_step_3", tmp_path / "global_step_3")
    (tmp_path / neighbour).write_text("3\n")
    file = opened(tmp_path / "global_step_3/data.pt")
    assert [d.name for d in file.candidates] == [dialect]


def test_a_loader_state_under_any_name_may_be_of_every_system_that_writes_it_bare(files, tmp_path):
    path = shutil.copy(files / "verl/global_step_2/data.pt", tmp_path / "state.pt")
    found = [d.name for d in opened(path).candidates]
    assert found == ["verl", "skyrl", "nemo-rl", "areal"]


def test_counts_of_a_loader_without_and_with_workers(files):
    alone = opened(files / "verl/global_step_2/data.pt").position
    workers = opened(files / "skyrl/global_step_2/data.pt").position
    record = {
        "num_workers": 0,
        "num_batches": 2,
        "num_samples": 8,
        "batch_size": 4,
        "steps_since_snapshot": 0,
        "is_finished": False,
        "has_order": True,
    }
    assert alone.data["loaders"] == [record]
    assert workers.data["loaders"] == [record | {"num_workers": 2}]
    assert alone.offset == workers.offset == 8


def test_one_state_for_each_rank(files):
    position = opened(files / "areal/dataloader_info.pkl").position
    assert [loader["num_samples"] for loader in position.data["loaders"]] == [8, 8]
    assert not any(loader["has_order"] for loader in position.data["loaders"])


def test_openrlhf_counts_around_the_loader(files):
    position = opened(files / "openrlhf/global_step12/mp_rank_00_model_states.pt").position
    assert (position.epoch_id, position.offset, position.num_groups) == (1, 8, 28)


def test_prime_rl_shows_the_fields_of_a_class_that_is_not_installed(files):
    file = opened(files / "prime-rl/step_30/orchestrator/progress.pt")
    assert file.position.data == {
        "step": 30,
        "total_tokens": 1_234_567,
        "total_samples": 3_840,
        "total_problems": 480,
        "environments": ["gsm8k"],
    }
    assert "prime_rl.orchestrator.ckpt.Progress" in "\n".join(Tree().lines(file.value))


def test_a_slime_state_implies_rows_and_group_size(files):
    position = opened(files / "slime/rollout/global_dataset_state_dict_14.pt").position
    assert (position.epoch_id, position.offset, position.num_rows) == (2, 8, 10)
    assert (position.num_groups, position.n_samples_per_prompt) == (28, 4)
    first_epoch = opened(files / "slime/rollout/global_dataset_state_dict_4.pt").position
    assert first_epoch.num_rows is None


@pytest.mark.parametrize(
    "value",
    [None, [], {}, "text", 7, {"a": 1}, [1, 2], {"progress": 3}, {"sample_offset": 1}],
    ids=repr,
)
def test_no_dialect_claims_other_values(value):
    path = Path("state.pt")
    assert all(d.likeness(value, path) == UNLIKE for d in checkpoints.DIALECTS.values())
    assert checkpoints.recognise(value, path) == []
    with pytest.raises(CheckpointError, match="no cursor of a known dialect") as caught:
        checkpoints.as_cursor_file(path, value)
    assert "StatefulDataLoader" in caught.value.expected
    assert "--raw" in caught.value.hint


@pytest.mark.parametrize("name", checkpoints.DIALECTS)
@pytest.mark.parametrize("value", [None, [], {"a": 1}, "x", {"progress": {}}], ids=repr)
def test_a_value_forced_on_a_dialect_is_refused_or_read(name, value, tmp_path):
    path = tmp_path / "x.pt"
    path.touch()
    # The slime form reads any object, and says what is wrong with it; the others refuse.
    if name in ("rolloutds", "slime") and isinstance(value, dict):
        file = checkpoints.as_cursor_file(path, value, dialect_name=name)
        assert file.position.epoch_id is None
        assert "CKPT002" in {finding.code for finding in file.position.findings}
        return
    with pytest.raises(CheckpointError, match="holds") as caught:
        checkpoints.as_cursor_file(path, value, dialect_name=name)
    assert caught.value.where == str(path)


@pytest.mark.parametrize(
    ("path", "rollout_id"),
    [
        ("a/rollout/global_dataset_state_dict_12.pt", 12),
        ("global_dataset_state_dict_7.pt", 7),
        ("global_step_40/data.pt", 40),
        ("step_3/train_dataloader_x_y.pt", 3),
        ("step_5/orchestrator/progress.pt", 5),
        ("other.pt", None),
        (f"global_step_{'9' * 5000}/data.pt", None),
    ],
)
def test_ids_come_from_names(path, rollout_id):
    assert checkpoints.id_of(Path("/nowhere") / path) == rollout_id


def test_the_id_of_the_step_folder_itself(tmp_path):
    folder = tmp_path / "global_step_8"
    folder.mkdir()
    (folder / "data.pt").touch()
    assert [found.rollout_id for found in find_layout(folder, "data.pt")] == [8]
    assert id_in_path(folder / "data.pt", ["data.pt"]) == 8


def test_a_folder_without_cursor_files_says_what_was_looked_for(tmp_path):
    with pytest.raises(MissingStateError, match="no cursor file") as caught:
        checkpoints.list_folder(tmp_path)
    assert "global_step_{id}/data.pt" in caught.value.expected
    with pytest.raises(MissingStateError, match="no such file or folder"):
        checkpoints.list_folder(tmp_path / "nowhere")


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
def test_the_files_are_what_the_script_makes(files, maker, tmp_path):
    maker.main(tmp_path)
    names = {str(path.relative_to(files)) for path in files.rglob("*") if path.is_file()}
    assert names == {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    for name in sorted(names):
        if Path(name).suffix not in (".pt", ".pkl"):
            continue
        made, kept = (checkpoints.read_value(folder / name) for folder in (tmp_path, files))
        assert list(Tree().lines(made)) == list(Tree().lines(kept))
