"""Figures of groups and files."""

from __future__ import annotations

import math

import pytest

from rolloutds.rollouts import open_groups
from rolloutds.rollouts.base import GroupPlace, ReadGroup
from rolloutds.rollouts.group_facts import COLUMNS, facts_of
from rolloutds.rollouts.stats import (
    NO_VALUE,
    OTHER_PARTS,
    Numbers,
    Stats,
    stats_of,
    value_of,
)
from rolloutds.rollouts.token_differences import first_difference
from rolloutds.testing import make_group


def read(group, *, file="a.pt", position=0, rollout_id=None):
    return ReadGroup(group, GroupPlace(file, position), group[0].group_index, rollout_id)


def test_the_figures_of_a_group():
    group = make_group(7, 4, rewards=[1.0, 0.0, None, 1.0], response="abc", response_length=3)
    group[0].status = "aborted"
    group[1].weight_versions = ["2", 3]
    group[2].response_length = 0  # a text, and no count of its tokens
    facts = facts_of(read(group, rollout_id=5), 0, None)
    row = facts.columns(newest=6)
    assert (row["group"], row["rollout_id"], row["size"]) == (7, 5, 4)
    assert (row["num_aborted"], row["num_pending"], row["num_other"]) == (1, 3, 0)
    assert row["num_rewards"] == 3
    assert row["reward_mean"] == pytest.approx(2 / 3)
    assert (row["version_min"], row["version_max"], row["age"]) == (2, 3, 4)
    assert facts.lengths == [3, 3, None, 3]
    assert tuple(row) == COLUMNS


def test_rewards_that_are_objects_give_figures_for_each_key():
    group = make_group(0, 2, rewards=[{"right": 1, "form": 0.5}, {"right": 0}])
    facts = facts_of(read(group), 0, None)
    assert facts.rewards == {"right": [1.0, 0.0], "form": [0.5, None]}
    assert (facts.reward_keys, facts.plain_rewards) == (["right", "form"], [])
    picked = facts_of(read(group), 0, "right")
    assert (picked.reward_keys, picked.plain_rewards) == ([], [1.0, 0.0])
    tally = stats_of([read(group)]).total
    assert tally.reward_keys == ["right", "form"]
    assert tally.rewards["form"].mean == 0.5


def test_rewards_that_are_no_numbers_are_counted():
    group = make_group(0, 3, rewards=["good", None, math.nan])
    tally = stats_of([read(group)]).total
    assert (tally.num_odd_rewards, len(tally.plain_rewards)) == (1, 0)
    assert tally.plain_rewards.num_missing == 3


def test_groups_without_spread_are_told_apart():
    rewards = [[1, 1], [0, 0], [0, 0], [0, 1], [None, None], [1, None]]
    groups = [read(make_group(i, 2, rewards=pair)) for i, pair in enumerate(rewards)]
    tally = stats_of(groups).total
    assert (tally.num_groups, tally.num_rewarded, tally.num_zero_spread) == (6, 5, 4)
    assert (tally.num_all(1.0), tally.num_all(0.0)) == (2, 2)


def test_files_are_in_the_order_of_their_rollouts():
    groups = [
        read(make_group(0, 1), file="b", rollout_id=9),
        read(make_group(1, 1), file="a", rollout_id=10),
        read(make_group(2, 1), file="c", rollout_id=2),
        read(make_group(3, 1), file="d"),
    ]
    stats = stats_of(groups)
    assert [dump.file for dump in stats.dumps] == ["c", "b", "a", "d"]
    assert stats.total.num_groups == 4


def test_parts_by_a_field():
    groups = [
        read(make_group(0, 1, metadata={"source": "sums", "a.b": 1})),
        read(make_group(1, 1, metadata={"source": None}, label="x")),
        read(make_group(2, 1, metadata={"a": {"b": 2}})),
    ]
    assert [value_of(g, "metadata.source") for g in groups] == ["sums", NO_VALUE, NO_VALUE]
    assert [value_of(g, "metadata.a.b") for g in groups] == ["1", NO_VALUE, "2"]
    assert [value_of(g, "label") for g in groups] == [NO_VALUE, "x", NO_VALUE]
    assert value_of(groups[0], "status") == "pending"
    parts = stats_of(groups, by="metadata.source").parts
    assert {name: tally.num_groups for name, tally in parts.items()} == {"sums": 1, NO_VALUE: 2}


def test_parts_beyond_a_limit_are_one():
    groups = [read(make_group(i, 1)) for i in range(300)]
    parts = stats_of(groups, by="group_index").parts
    assert len(parts) == 201
    assert parts[OTHER_PARTS].num_groups == 100


def test_figures_of_files_merge_to_those_of_all():
    groups = [
        read(
            make_group(i, 2, rewards=[i % 5, None if i % 7 else {"a": i}], metadata={"s": i % 230}),
            file=f"{i // 90}.pt",
            rollout_id=9 - i // 90,
        )
        for i in range(400)
    ]
    whole = stats_of(groups, by="metadata.s")
    merged = Stats([], {})
    for file in range(5):
        some = groups[file * 90 : file * 90 + 90]
        merged.merge(stats_of(some, by="metadata.s", max_parts=1000))
    merged.sort()
    assert [dump.file for dump in merged.dumps] == [dump.file for dump in whole.dumps]
    assert list(merged.parts) == list(whole.parts)
    assert len(merged.parts) == 201
    pairs = [(merged.total, whole.total)]
    pairs += [(merged.parts[name], tally) for name, tally in whole.parts.items()]
    for found, expected in pairs:
        assert found.num_samples == expected.num_samples
        assert found.same_rewards == expected.same_rewards
        assert found.plain_rewards.histogram() == expected.plain_rewards.histogram()
        assert found.plain_rewards.std == expected.plain_rewards.std
        assert found.reward_keys == expected.reward_keys


def test_histograms():
    numbers = Numbers()
    numbers.add([0, 1, 1, None, math.inf])
    assert [tuple(part) for part in numbers.histogram()] == [(0, 0, 1), (1, 1, 2)]
    assert numbers.num_missing == 2
    numbers.add(range(100))
    bins = numbers.histogram()
    assert (len(bins), bins[0].low, bins[-1].high) == (10, 0, 99)
    assert sum(part.num for part in bins) == 103
    assert numbers.percentiles(0, 0.5, 1) == [0, 48, 99]
    assert (Numbers().mean, Numbers().std, Numbers().percentiles(0.5)) == (None, None, [])


def with_responses(*responses):
    group = make_group(0, len(responses))
    for sample, tokens in zip(group, responses, strict=True):
        sample.tokens = [9, 9, *tokens]
        sample.response_length = len(tokens)
    return group


@pytest.mark.parametrize(
    ("responses", "says"),
    [
        (([1, 2], [1, 3], [1, 2]), "at response token 1: 2 (samples 0, 2), 3 (sample 1)"),
        (([1, 2], [1]), "at response token 1: 2 (sample 0), end (sample 1)"),
        (([1], [1, 2]), "at response token 1: end (sample 0), 2 (sample 1)"),
        (([1, 2], [1, 2]), None),
        (([1, 2], []), None),
    ],
)
def test_where_tokens_differ(responses, says):
    assert first_difference(with_responses(*responses)) == says


def test_real_dumps(shared_data):
    stats = stats_of(open_groups(str(shared_data / "rollouts" / "*.pt")))
    assert [dump.rollout_id for dump in stats.dumps] == [0, 1, 2, 3]
    total = stats.total
    assert (total.num_groups, total.num_samples, dict(total.sizes)) == (128, 512, {4: 128})
    assert len(total.lengths) == 512
