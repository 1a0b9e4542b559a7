"""Loading functions, and the built-in filters."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolloutds.errors import FilterError, GroupError
from rolloutds.filters import (
    FILTERS,
    freshest_weights_first,
    highest_reward_first,
    load_function,
    longest_waiting_first,
    pop_first,
    random_order,
    reward_spread_first,
    unfinished_first,
)
from rolloutds.sample import Sample, SampleGroup
from rolloutds.testing import make_group


@pytest.mark.parametrize("asked", [0, 2, 3, 9])
def test_pop_first_takes_the_oldest_and_removes_them(asked: int) -> None:
    groups = [make_group(i, 2) for i in range(3)]
    buffer = list(groups)
    assert pop_first(SimpleNamespace(), None, buffer, asked) == groups[:asked]
    assert buffer == groups[asked:]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    file = tmp_path / "my_filters_for_test.py"
    file.write_text("def take(args, rollout_id, buffer, n):\n    return buffer[:n]\nnumber = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield file
    sys.modules.pop("my_filters_for_test", None)


@pytest.mark.parametrize("separator", [".", ":"])
def test_a_module_s_function_is_loaded(module: Path, separator: str) -> None:
    assert load_function(f"my_filters_for_test{separator}take")(None, None, [1, 2], 1) == [1]


def test_a_file_s_function_is_loaded(module: Path) -> None:
    assert load_function(f"{module}:take")(None, None, [1, 2], 1) == [1]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("take", "mod.fn"),
        (".take", "mod.fn"),
        ("no_such_module_here.take", "no_such_module_here cannot be imported"),
        ("no/such/file.py:take", "no such file"),
        ("my_filters_for_test.nothing", "no function 'nothing'"),
        ("my_filters_for_test.number", "no function 'number'"),
    ],
)
def test_what_cannot_be_loaded_says_why(module: Path, path: str, says: str) -> None:
    with pytest.raises(FilterError, match=says):
        load_function(path)


def test_a_module_that_raises_says_what(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("1 / 0\n")
    with pytest.raises(FilterError, match="ZeroDivisionError"):
        load_function(f"{file}:take")


# --- the contract of the built-in filters -------------------------------------------------


def waiting(count: int = 9, size: int = 3) -> list[SampleGroup]:
    """Groups of many kinds: with and without rewards, aborted, of several weight versions."""
    groups = [make_group(i, size) for i in range(count)]
    for number, group in enumerate(groups):
        for position, sample in enumerate(group):
            sample.reward = None if number % 4 == 3 else (number * 3 + position) % 5 / 4
            sample.weight_versions = [str(number // 3), str(number // 2)]
            sample.response, sample.status = "x", Sample.Status.COMPLETED
    groups[2][1].status = Sample.Status.ABORTED
    groups[5][0].reward = None
    return groups


class OtherSample:
    """Stands for the reference's own class: only the attributes it has, and no methods."""

    def __init__(self, sample: Sample) -> None:
        for name in ("group_index", "index", "reward", "weight_versions", "response", "status"):
            setattr(self, name, getattr(sample, name))


BUILT_IN = pytest.mark.parametrize("name", FILTERS)


@BUILT_IN
@pytest.mark.parametrize("asked", [0, 1, 4, 9, 20])
@pytest.mark.parametrize("args", [SimpleNamespace(), SimpleNamespace(reward_key=None)])
def test_contract_removes_what_it_returns_and_keeps_the_rest_in_order(
    name: str, asked: int, args: SimpleNamespace
) -> None:
    buffer = waiting()
    before = list(buffer)
    taken = FILTERS[name].function(args, None, buffer, asked)
    assert len(taken) == min(asked, 9)
    ids = [id(group) for group in taken]
    assert len(set(ids)) == len(ids)
    assert [id(group) for group in buffer] == [id(g) for g in before if id(g) not in ids]


@BUILT_IN
def test_contract_is_a_function_of_its_arguments(name: str) -> None:
    state = random.getstate()
    found = [
        [group[0].group_index for group in FILTERS[name].function(SimpleNamespace(), 3, b, 5)]
        for b in (waiting(), waiting())
    ]
    assert found[0] == found[1]
    assert random.getstate() == state


@BUILT_IN
def test_contract_takes_nothing_from_an_empty_buffer(name: str) -> None:
    assert FILTERS[name].function(SimpleNamespace(), None, [], 4) == []


@BUILT_IN
def test_contract_works_on_samples_of_another_class(name: str) -> None:
    ours = waiting()
    theirs: list[Any] = [[OtherSample(sample) for sample in group] for group in ours]
    picked = [
        [group[0].group_index for group in FILTERS[name].function(SimpleNamespace(), None, b, 5)]
        for b in (ours, theirs)
    ]
    assert picked[0] == picked[1]


@BUILT_IN
def test_contract_is_found_by_its_path_and_documented(name: str) -> None:
    entry = FILTERS[name]
    assert load_function(f"rolloutds.filters.{name}") is entry.function
    assert entry.summary.startswith("Takes")
    for attribute in entry.reads:
        assert f"`{attribute}`" in (entry.function.__doc__ or "")


def numbers(groups: list[SampleGroup]) -> list[Any]:
    return [group[0].group_index for group in groups]


def rewarded(*rewards: list[Any]) -> list[SampleGroup]:
    return [make_group(i, len(r), rewards=r) for i, r in enumerate(rewards)]


def test_highest_reward_first_puts_groups_without_a_reward_last() -> None:
    buffer = rewarded([0, 1], [None, None], [1, None], [1, 1], [float("nan"), 0])
    assert numbers(highest_reward_first(SimpleNamespace(), None, buffer, 9)) == [2, 3, 0, 4, 1]


def test_a_reward_key_picks_from_objects() -> None:
    buffer = rewarded([{"a": 0, "b": 1}], [{"a": 1, "b": 0}])
    args = SimpleNamespace(reward_key="b")
    assert numbers(highest_reward_first(args, None, buffer, 2)) == [0, 1]


@pytest.mark.parametrize(
    ("reward", "key", "says"),
    [
        ({"a": 1, "b": 2}, None, "group 1, sample 3: the reward is an object with the keys a, b"),
        ({"a": 1}, "c", "no reward under reward_key 'c': there are a"),
        ("good", None, "group 1, sample 3: the reward is 'good', expected a number"),
    ],
)
def test_a_reward_that_is_no_number_names_group_and_sample(
    reward: Any, key: str | None, says: str
) -> None:
    buffer = rewarded([1, 1], [1, reward])
    before = list(buffer)
    for function in (highest_reward_first, reward_spread_first):
        with pytest.raises(GroupError) as caught:
            function(SimpleNamespace(reward_key=key), None, buffer, 2)
        assert says in str(caught.value)
        assert buffer == before


def test_reward_spread_first() -> None:
    buffer = rewarded([1, 1], [None, None], [0.5, 1], [0, 1], [0, 0])
    assert numbers(reward_spread_first(SimpleNamespace(), None, buffer, 9)) == [3, 2, 0, 4, 1]


def test_freshest_weights_first_leaves_those_that_are_too_old() -> None:
    buffer = [make_group(i, 2) for i in range(5)]
    for group, versions in zip(buffer, (["1"], ["4"], [], ["5", "2"], ["old"]), strict=True):
        group[1].weight_versions = versions
    args = SimpleNamespace(buffer_max_weight_age=1)
    assert numbers(freshest_weights_first(args, None, list(buffer), 9)) == [1, 2, 4]
    assert numbers(freshest_weights_first(SimpleNamespace(), None, buffer, 9)) == [1, 2, 4, 3, 0]


def test_longest_waiting_first_goes_by_the_draw() -> None:
    buffer = [make_group(i, 1) for i in (7, 2, 5)] + [make_group(0, 1)]
    buffer[3][0].group_index = None
    assert numbers(longest_waiting_first(SimpleNamespace(), None, buffer, 9)) == [2, 5, 7, None]


def test_unfinished_first() -> None:
    buffer = [make_group(i, 2, status=Sample.Status.COMPLETED) for i in range(4)]
    buffer[1][1].status = "pending"  # not begun
    buffer[2][1].status, buffer[2][1].response = Sample.Status.PENDING, "half of"
    buffer[3][0].status = Sample.Status.ABORTED
    assert numbers(unfinished_first(SimpleNamespace(), None, buffer, 9)) == [2, 3, 0, 1]


def test_random_order_goes_by_seed_and_rollout() -> None:
    orders = {
        tuple(numbers(random_order(SimpleNamespace(rollout_seed=seed), rollout, waiting(), 9)))
        for seed in (1, 2)
        for rollout in (None, 0, 1)
    }
    assert len(orders) == 6
    assert all(sorted(order) == list(range(9)) for order in orders)
