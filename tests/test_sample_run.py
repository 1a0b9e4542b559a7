"""The sample run in `sample_data/` is what its script makes."""

from __future__ import annotations

import importlib.util

import pytest

from rolloutds import torch_file
from rolloutds.checkpoints import find_files, list_folder
from rolloutds.sample_files import sample_data_folder


def test_five_checkpoints_of_a_run_that_lost_nothing():
    listing = list_folder(sample_data_folder() / "run")
    assert [entry.found.rollout_id for entry in listing.entries] == [3, 7, 11, 15, 19]
    assert all(entry.state == "ok" and not entry.marks for entry in listing.entries)
    assert all(entry.file.position.num_buffered for entry in listing.entries)
    assert all(entry.file.position.num_in_flight for entry in listing.entries)
    assert listing.groups_per_rollout == 32


def test_the_states_are_what_the_script_makes(repository, tmp_path):
    pytest.importorskip("torch")
    path = repository / "sample_data" / "make_sample_run.py"
    spec = importlib.util.spec_from_file_location("make_sample_run", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(tmp_path)
    kept = [found.path for found in find_files(sample_data_folder() / "run")]
    for found, path in zip(find_files(tmp_path), kept, strict=True):
        assert found.path.name == path.name
        assert torch_file.read(found.path) == torch_file.read(path)
