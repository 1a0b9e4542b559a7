"""The audit: what became of every group a run drew."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolloutds.audit import Audit, audit, dumped_groups, is_same_prompt
from rolloutds.cache import Cache
from rolloutds.dataset import Dataset
from rolloutds.rollouts.base import GroupPlace, ReadGroup
from rolloutds.source import RolloutDataSource

NUM_ROWS = 7


@pytest.fixture
def args(tmp_path: Path) -> SimpleNamespace:
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps({"text": f"row {i}"}) + "\n" for i in range(NUM_ROWS)))
    return SimpleNamespace(
        prompt_data=str(path),
        input_key="text",
        rollout_global_dataset=True,
        rollout_shuffle=True,
        n_samples_per_prompt=2,
    )


def dumped(groups: list[Any], rollout_id: int = 0, **fields: Any) -> list[ReadGroup]:
    return [
        ReadGroup(
            group, GroupPlace("d.pt", i), group[0].group_index, rollout_id=rollout_id, **fields
        )
        for i, group in enumerate(groups)
    ]


def run_audit(args: Any, groups: list[ReadGroup], **known: Any) -> Audit:
    return audit(Dataset(args, cache=Cache(None)), dumped_groups(groups), **known)


def test_a_run_that_trained_on_everything_once(args: Any) -> None:
    drawn = RolloutDataSource(args).get_samples(10)
    found = run_audit(args, dumped(drawn[:5]) + dumped(drawn[5:], 1), num_drawn=10)
    assert (found.num_once, found.num_dumped) == (10, 10)
    assert (found.repeats, found.missing, found.other_texts) == ([], [], [])
    assert [epoch.num_drawn for epoch in found.epochs.values()] == [7, 3]


def test_missing_waiting_and_repeated_groups_are_told_apart(args: Any) -> None:
    drawn = RolloutDataSource(args).get_samples(10)
    groups = dumped(drawn[:4]) + dumped(drawn[6:] + drawn[3:4], 1)
    found = run_audit(args, groups, num_drawn=10, waiting=[5], num_discarded=1)
    assert [repeat.drawn.group_index for repeat in found.repeats] == [3]
    assert found.repeats[0].rollouts == ["0", "1"]
    assert [missing.group_index for missing in found.missing] == [4]
    assert (found.num_once, found.num_waiting, found.num_discarded) == (7, 1, 1)
    row_id = drawn[4][0].row_id
    assert (found.missing[0].place.row_id, found.missing[0].epoch_id) == (row_id, 0)
    assert found.missing[0].sample_offset == 4


def test_another_text_names_the_row_that_has_it(args: Any) -> None:
    drawn = RolloutDataSource(args).get_samples(3)
    drawn[0][0].prompt = drawn[2][0].prompt
    drawn[1][0].prompt = "of no row"
    found = run_audit(args, dumped(drawn))
    assert [other.drawn.group_index for other in found.other_texts] == [0, 1]
    first, second = found.other_texts
    assert first.found_at is not None
    assert first.found_at.row_id == drawn[2][0].row_id
    assert (second.found_at, second.found) == (None, "of no row")


def test_groups_nothing_is_known_of_are_counted(args: Any) -> None:
    drawn = RolloutDataSource(args).get_samples(4)
    drawn[0][0].group_index = None
    groups = dumped(drawn) + dumped(drawn[1:2], is_eval=True)
    found = run_audit(args, groups, num_drawn=2)
    assert (found.num_without_index, found.num_beyond, found.num_dumped) == (1, 2, 4)
    assert [missing.group_index for missing in found.missing] == [0]


def test_without_a_state_the_last_group_dumped_is_the_last_drawn(args: Any) -> None:
    drawn = RolloutDataSource(args).get_samples(6)
    found = run_audit(args, dumped([drawn[0], drawn[4]]))
    assert found.num_drawn == 5
    assert len(found.missing) == 3


MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("expected", "found", "is_same"),
    [
        ("a", "a", True),
        ("a", "b", False),
        (MESSAGES, MESSAGES, True),
        (MESSAGES, "<user>hi<assistant>", True),
        (MESSAGES, "<user>ho<assistant>", False),
        ("<user>hi", MESSAGES, True),
        ([{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "<user>hi", True),
        ([], "anything", False),
        ("a", None, False),
    ],
)
def test_a_rendered_prompt_is_the_same_as_its_messages(
    expected: Any, found: Any, is_same: bool
) -> None:
    assert is_same_prompt(expected, found) is is_same
