"""What becomes of groups that come back: aborted ones, and those there is no room for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.buffer_policies import Capacity, apply_on_aborted, bytes_of, reset_to_prompt
from rolloutds.errors import ConfigError, GroupError
from rolloutds.sample import Sample
from rolloutds.source import RolloutDataSourceWithBuffer
from rolloutds.testing import make_group


def aborted(number, size=2):
    group = make_group(number, size, prompt="p", label="l", metadata={"source": "x"}, row_id=4)
    for sample in group:
        sample.tokens, sample.response, sample.response_length = [1, 2, 3], "r", 2
        sample.rollout_log_probs, sample.loss_mask, sample.reward = [-1.0, -2.0], [1, 1], 0.5
        sample.weight_versions, sample.remove_sample = ["3"], True
        sample.status = Sample.Status.COMPLETED
        sample.spec_info.completion_token_num = 2
    group[0].status = Sample.Status.ABORTED
    return group


def test_a_reset_group_is_as_it_was_drawn():
    group = aborted(3)
    reset_to_prompt(group)
    clean = make_group(3, 2, prompt="p", label="l", metadata={"source": "x"}, row_id=4)
    assert group == clean
    assert group[0].tokens is not group[1].tokens


def test_reset_works_on_samples_of_another_class():
    sample: Any = SimpleNamespace(tokens=[1], response="r", status="aborted", label="l")
    reset_to_prompt([sample])
    assert vars(sample) == {"tokens": [], "response": "", "status": "pending", "label": "l"}


@pytest.mark.parametrize(
    ("policy", "numbers", "counts"),
    [
        ("keep", [0, 1, 2], {}),
        ("reset", [0, 1, 2], {"aborted, reset": 1}),
        ("drop", [0, 2], {"aborted, dropped": 1}),
    ],
)
def test_policies_for_aborted_groups(policy, numbers, counts):
    groups = [make_group(0, 2), aborted(1), make_group(2, 2)]
    kept = apply_on_aborted(groups, policy)
    assert [group[0].group_index for group in kept.groups] == numbers
    assert (dict(kept.counts), len(kept.dropped)) == (counts, 3 - len(numbers))
    assert groups[1][0].response == ("" if policy == "reset" else "r")


@pytest.mark.parametrize(
    ("text", "num_groups", "num_bytes"),
    [
        ("512", 512, None),
        (7, 7, None),
        ("2GB", None, 2_000_000_000),
        ("1.5 mib", None, 1_572_864),
        ("800B", None, 800),
        (None, None, None),
    ],
)
def test_capacities(text, num_groups, num_bytes):
    assert Capacity.parse(text) == Capacity(num_groups, num_bytes)


@pytest.mark.parametrize("text", ["", "0", "-3", "2 G", "many", "0GB", "1e3"])
def test_what_is_no_capacity(text):
    with pytest.raises(ConfigError, match="buffer_capacity"):
        Capacity.parse(text)


@given(st.integers(0, 12), st.integers(1, 6), st.sampled_from(["oldest", "newest"]))
def test_the_groups_that_stay_are_the_newest_or_the_oldest(num_groups, room, policy):
    buffer = [make_group(i, 1) for i in range(num_groups)]
    for capacity in (
        Capacity(num_groups=room, policy=policy),
        Capacity(num_bytes=room * bytes_of(make_group(0, 1)), policy=policy),
    ):
        start, stop, counts = capacity.fit(buffer)
        assert stop - start == min(room, num_groups)
        assert counts.total() == num_groups - (stop - start)
        assert (stop == num_groups) if policy == "oldest" else (start == 0)


def test_one_group_always_has_room():
    assert Capacity(num_bytes=1).fit([make_group(0, 8)])[:2] == (0, 1)


def source(**settings):
    return RolloutDataSourceWithBuffer(SimpleNamespace(n_samples_per_prompt=2, **settings))


def test_the_source_keeps_aborted_groups_by_default():
    buffered = source(partial_rollout=False)
    group = aborted(1)
    buffered.add_samples([group])
    assert buffered.buffer == [group]
    assert group[0].response == "r"


def test_the_source_resets_drops_and_evicts_and_counts(caplog):
    resetting = source(on_aborted="reset")
    resetting.add_samples([aborted(1)])
    assert resetting.buffer[0][0].response == ""
    dropping = source(on_aborted="drop", buffer_capacity=2)
    dropping.add_samples([aborted(1), *(make_group(i, 2) for i in range(2, 6))])
    assert [group[0].group_index for group in dropping.buffer] == [4, 5]
    assert dict(dropping.num_by_policy) == {"aborted, dropped": 1, "over the capacity in groups": 2}
    assert "2 groups were evicted from the buffer" in caplog.text
    newest = source(buffer_capacity="2", buffer_eviction="newest")
    newest.add_samples([make_group(i, 2) for i in range(4)])
    assert [group[0].group_index for group in newest.buffer] == [0, 1]


def test_nothing_is_reset_when_a_group_is_refused():
    group = aborted(1)
    with pytest.raises(GroupError):
        source(on_aborted="reset").add_samples([group, make_group(2, 3)])
    assert group[0].response == "r"
