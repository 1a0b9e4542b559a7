"""Samples: defaults, dict form, rewards."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rolloutds import Sample
from rolloutds.errors import GroupError
from rolloutds.sample import Status


def test_a_dict_without_fields_gives_the_defaults() -> None:
    sample = Sample.from_dict({})
    assert sample == Sample()
    assert sample.status is Sample.Status.PENDING
    assert sample.spec_info.spec_accept_rate == 0.0


def test_b6_unknown_keys_and_statuses_survive_a_round_trip() -> None:
    data = {"status": "paused", "foo": {"a": 1}, "spec_info": {"new_counter": 3}, "index": 4}
    sample = Sample.from_dict(data)
    assert (sample.status, sample.foo) == ("paused", {"a": 1})
    again = sample.to_dict()
    assert (again["status"], again["foo"], again["index"]) == ("paused", {"a": 1}, 4)
    assert again["spec_info"]["new_counter"] == 3
    assert Sample.from_dict(again).to_dict() == again


def test_the_dict_form_has_the_reference_s_keys_only_until_ours_are_set() -> None:
    assert not {"row_id", "messages"} & set(Sample().to_dict())
    assert Sample(row_id=3).to_dict()["row_id"] == 3


@pytest.mark.parametrize("status", list(Sample.Status))
def test_known_statuses_become_members(status: Status) -> None:
    assert Sample.from_dict({"status": status.value}).status is status
    assert Sample(status=status).to_dict()["status"] == status.value


def test_two_samples_share_nothing() -> None:
    one, two = Sample.from_dict({}), Sample.from_dict({})
    one.tokens.append(1)
    one.metadata["a"] = 1
    one.spec_info.spec_verify_ct += 1
    assert two == Sample()


def test_reward_value() -> None:
    assert Sample(reward=0.5).get_reward_value(SimpleNamespace(reward_key=None)) == 0.5
    assert Sample(reward=0.5).get_reward_value(SimpleNamespace()) == 0.5
    both = Sample(reward={"a": 1.0, "b": 2.0})
    assert both.get_reward_value(SimpleNamespace(reward_key="b")) == 2.0


@pytest.mark.parametrize("reward", [None, 1.0, {"a": 1.0}])
def test_a_missing_reward_key_names_group_and_sample(reward: object) -> None:
    sample = Sample(group_index=3, index=25, reward=reward)
    with pytest.raises(GroupError, match=r"group 3, sample 25.*'b'"):
        sample.get_reward_value(SimpleNamespace(reward_key="b"))


def test_effective_response_length_is_the_mask_s_sum() -> None:
    assert Sample(response_length=5).effective_response_length == 5
    assert Sample(response_length=5, loss_mask=[1, 0, 1]).effective_response_length == 2


def test_counters_add_up() -> None:
    sample = Sample()
    sample.spec_info.add({"spec_accept_token_num": 3, "spec_draft_token_num": 4})
    sample.spec_info.add({"spec_verify_ct": 2, "completion_tokens": 8})
    sample.prefix_cache_info.add({"cached_tokens": 5, "prompt_tokens": 10})
    assert sample.spec_info.spec_accept_rate == 0.75
    assert sample.spec_info.spec_accept_length == 4.0
    assert sample.prefix_cache_info.prefix_cache_hit_rate == 0.5
