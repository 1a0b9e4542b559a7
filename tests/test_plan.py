from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.errors import ConfigError, EmptyDatasetError
from rolloutds.plan import Wrap, make_plan

SIZES = st.integers(1, 40)


def plan_of(num_rows, batch, **length):
    return make_plan(num_rows, rollout_batch_size=batch, n_samples_per_prompt=8, **length)


def epochs_of_rollouts(num_rows, batch, num_rollout):
    """The epoch of every group of every rollout, counted one by one."""
    epochs = [group // num_rows for group in range(num_rollout * batch)]
    return [epochs[i : i + batch] for i in range(0, len(epochs), batch)]


def test_ten_rows_in_batches_of_four():  # case O5
    plan = plan_of(10, 4)
    assert (plan.rollouts_per_epoch, plan.num_leftover_rows) == (2, 2)
    assert (plan.rollouts_until_repeat, plan.epochs_until_repeat) == (5, 2)
    assert list(plan.wraps()) == [Wrap(1, 2, 2, 2), Wrap(2, 5, 0, 4)]
    assert [tuple(span) for span in plan.spans(2)] == [(0, 8, 10), (1, 0, 2)]


def test_num_epoch_gives_whole_rollouts_as_in_slime():
    plan = plan_of(10, 4, num_epoch=3)
    assert plan.num_rollout == 6
    assert plan.end is not None
    assert (plan.end.epoch_id, plan.end.sample_offset) == (2, 4)


def test_num_rollout_wins_over_num_epoch():
    assert plan_of(10, 4, num_rollout=5, num_epoch=3).num_rollout == 5


def test_a_run_that_ends_with_an_epoch_does_not_wrap_there():
    plan = plan_of(10, 5, num_rollout=2)
    assert plan.num_wraps == 0
    assert plan.end is not None
    assert (plan.end.epoch_id, plan.end.sample_offset) == (0, 10)


def test_a_run_of_no_rollout():
    plan = plan_of(10, 4, num_epoch=0)
    assert (plan.num_wraps, plan.num_mixed_rollouts, plan.num_groups) == (0, 0, 0)


def test_a_batch_longer_than_an_epoch():
    plan = plan_of(3, 8, num_rollout=2)
    assert plan.batch_spans_epochs
    assert plan.num_mixed_rollouts == 2
    assert [wrap.rollout_id for wrap in plan.wraps()] == [0, 0, 1, 1, 1]


@given(SIZES, SIZES, st.integers(0, 30))
def test_wraps_are_where_counting_finds_them(num_rows, batch, num_rollout):
    plan = plan_of(num_rows, batch, num_rollout=num_rollout)
    rollouts = epochs_of_rollouts(num_rows, batch, num_rollout)
    groups = [epoch for rollout in rollouts for epoch in rollout]
    borders = [i for i in range(1, len(groups)) if groups[i] != groups[i - 1]]
    assert [(w.rollout_id, w.num_groups_before) for w in plan.wraps()] == [
        divmod(border, batch) for border in borders
    ]
    assert plan.num_mixed_rollouts == sum(len(set(rollout)) > 1 for rollout in rollouts)


@given(SIZES, SIZES)
def test_the_pattern_repeats_and_not_sooner(num_rows, batch):
    plan = plan_of(num_rows, batch)
    groups = plan.rollouts_until_repeat * batch
    assert groups == plan.epochs_until_repeat * num_rows
    assert all(n * batch % num_rows for n in range(1, plan.rollouts_until_repeat))


@given(SIZES, SIZES, st.integers(0, 50))
def test_spans_add_up_to_a_batch(num_rows, batch, rollout_id):
    spans = plan_of(num_rows, batch).spans(rollout_id)
    assert sum(span.stop - span.start for span in spans) == batch


def test_what_cannot_be_planned():
    with pytest.raises(ConfigError, match="rollout_batch_size"):
        plan_of(3, 0)
    with pytest.raises(EmptyDatasetError):
        plan_of(0, 3)
