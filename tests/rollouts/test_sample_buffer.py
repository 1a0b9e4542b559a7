"""The sample buffer: what its maker writes is what is shipped, and it fits the sample prompts."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from rolloutds import RolloutDataSource
from rolloutds.rollouts import open_groups
from rolloutds.sample import Sample
from rolloutds.sample_files import sample_data_folder

FOLDER = sample_data_folder()


@pytest.fixture(scope="module")
def groups():
    return list(open_groups(str(FOLDER / "buffer.jsonl")))


def test_the_maker_writes_what_is_shipped(tmp_path):
    maker = FOLDER / "make_sample_buffer.py"
    subprocess.run([sys.executable, str(maker), str(tmp_path)], check=True)
    assert (tmp_path / "buffer.jsonl").read_bytes() == (FOLDER / "buffer.jsonl").read_bytes()


def test_every_group_is_the_one_the_run_was_served(groups):
    args = SimpleNamespace(
        prompt_data=str(FOLDER / "prompts.jsonl"),
        input_key="prompt",
        label_key="label",
        rollout_global_dataset=True,
        rollout_shuffle=True,
        n_samples_per_prompt=8,
    )
    served = RolloutDataSource(args).get_samples(192)
    for group in groups:
        for ours, theirs in zip(group.samples, served[group.group_index], strict=True):
            for name in ("group_index", "index", "prompt", "label", "metadata", "row_id"):
                assert getattr(ours, name) == getattr(theirs, name)


def test_groups_differ_in_all_that_commands_look_at(groups):
    assert len(groups) == 40
    assert {group.num_rollouts for group in groups} == {8}
    statuses = Counter(sample.status for group in groups for sample in group.samples)
    assert set(statuses) == set(Sample.Status) - {Sample.Status.FAILED}
    rewards = [{sample.reward for sample in group.samples} for group in groups]
    assert {0.0} in rewards
    assert {1.0} in rewards
    assert {0.0, 1.0} in rewards
    assert {None} in rewards
    assert any(len(versions) > 1 for versions in map(versions_of, groups))
    assert len({sample.response_length for group in groups for sample in group.samples}) > 20


def versions_of(group):
    return {version for sample in group.samples for version in sample.weight_versions}


def test_lengths_agree(groups):
    for sample in (sample for group in groups for sample in group.samples):
        if sample.loss_mask is not None:
            lengths = (len(sample.loss_mask), len(sample.rollout_log_probs))
            assert lengths == (sample.response_length,) * 2
        assert sample.response_length <= len(sample.tokens)
