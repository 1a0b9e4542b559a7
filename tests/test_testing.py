"""The resume contract passes on sources that keep it and fails on every way to break it."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolloutds import RolloutDataSource, RolloutDataSourceWithBuffer, Sample
from rolloutds.testing import assert_resumes_exactly, make_group

NUM_ROWS = 4


class Memory:
    """A data source of its own kind: nothing in common with ours but the methods."""

    def __init__(self, saved: dict[int, Any]) -> None:
        self.saved = saved
        self.position = 0
        self.buffer: list[Any] = []
        self.notes: dict[str, Any] = {}

    def __len__(self) -> int:
        return NUM_ROWS

    def get_samples(self, num_samples: int) -> list[Any]:
        taken, self.buffer = self.buffer[:num_samples], self.buffer[num_samples:]
        while len(taken) < num_samples:
            taken.append(self.make(self.position))
            self.position += 1
        return taken

    def make(self, index: int) -> Any:
        metadata = {"row": index % NUM_ROWS, "score": float("nan")}
        return make_group(index, 2, prompt=f"row {index % NUM_ROWS}", metadata=metadata)

    def add_samples(self, groups: list[Any]) -> None:
        self.buffer += groups

    def save(self, rollout_id: int) -> None:
        self.saved[rollout_id] = copy.deepcopy((self.position, self.buffer, self.notes))

    def load(self, rollout_id: int | None = None) -> None:
        self.position, self.buffer, self.notes = copy.deepcopy(self.saved[rollout_id])


class Skips(Memory):
    def load(self, rollout_id: int | None = None) -> None:
        super().load(rollout_id)
        self.position += 1


class Repeats(Memory):
    def load(self, rollout_id: int | None = None) -> None:
        super().load(rollout_id)
        self.position = max(0, self.position - 1)


class ForgetsTheBuffer(Memory):
    def load(self, rollout_id: int | None = None) -> None:
        super().load(rollout_id)
        self.buffer = []


class ForgetsTheBufferAtTheSave(Memory):
    def save(self, rollout_id: int) -> None:
        self.buffer = []
        super().save(rollout_id)


class MovesAtTheSave(Memory):
    def save(self, rollout_id: int) -> None:
        self.position += 1
        super().save(rollout_id)


class CountsAnew(Memory):
    """The right prompts, with indices that start again."""

    first = 0

    def load(self, rollout_id: int | None = None) -> None:
        super().load(rollout_id)
        self.first = self.position

    def make(self, index: int) -> Any:
        group = super().make(index)
        for sample in group:
            sample.group_index = index - self.first
        return group


class ChangesATypeInTheMiddle(Memory):
    def load(self, rollout_id: int | None = None) -> None:
        super().load(rollout_id)
        for group in self.buffer:
            group[0].metadata["row"] = float(group[0].metadata["row"])


class ForgetsAtTheSecondResume(Memory):
    """The first resume is right; what is left of it is not saved again."""

    is_resumed = False

    def load(self, rollout_id: int | None = None) -> None:
        super().load(rollout_id)
        self.is_resumed = True

    def save(self, rollout_id: int) -> None:
        if self.is_resumed:
            self.buffer = []
        super().save(rollout_id)


class ForgetsMetadata(Memory):
    def load(self, rollout_id: int | None = None) -> None:
        super().load(rollout_id)
        self.notes = {}

    def state_dict(self) -> dict[str, Any]:
        return {"notes": self.notes}


class IgnoresTheId(Memory):
    def load(self, rollout_id: int | None = None) -> None:
        super().load(max(self.saved))


def give_back(source: Any, groups: list[Any], draw: int) -> None:
    source.notes["draw"] = draw
    if draw % 2 == 0:
        groups[0][0].response = f"half of draw {draw}"
        groups[0][0].status = Sample.Status.ABORTED
        source.add_samples(groups[:1])


def check(kind: Callable[..., Memory], **more: Any) -> int:
    saved: dict[int, Any] = {}
    return assert_resumes_exactly(lambda: kind(saved), num_samples=2, step=give_back, **more)


def test_a_source_that_keeps_the_contract_passes() -> None:
    assert check(Memory) == 6


BROKEN = {
    Skips: "resumed after draw 0",
    Repeats: "resumed after draw 0",
    ForgetsTheBuffer: "resumed after draw 0",
    ForgetsTheBufferAtTheSave: "saved after every draw, draw 1",
    MovesAtTheSave: "saved after every draw, draw 1",
    CountsAnew: r"resumed after draw 0, at draw 1: groups\[1\]\[0\]\['group_index'\]",
    ChangesATypeInTheMiddle: r"\['metadata'\]\['row'\] is 0.0, expected 0",
    ForgetsAtTheSecondResume: "stopped after every draw",
    ForgetsMetadata: "the state loaded",
    IgnoresTheId: "resumed after draw 0",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_source_that_breaks_it_fails(kind: type[Memory]) -> None:
    with pytest.raises(AssertionError, match=BROKEN[kind]):
        check(kind)


def test_states_are_compared_unless_that_is_switched_off() -> None:
    assert check(ForgetsMetadata, compare_state=False) == 6


def test_what_the_run_does_later_to_a_group_is_not_held_against_it() -> None:
    def edit(source: Any, groups: list[Any], draw: int) -> None:
        groups[0][0].metadata["row"] = "edited"

    saved: dict[int, Any] = {}
    assert assert_resumes_exactly(lambda: Memory(saved), step=edit) == 12


@pytest.mark.parametrize("kind", [RolloutDataSource, RolloutDataSourceWithBuffer])
@pytest.mark.parametrize("track_in_flight", [False, True])
def test_our_own_sources_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, track_in_flight: bool
) -> None:
    pytest.importorskip("torch", reason="states are saved with torch")
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # the power does not fail
    rows = [json.dumps({"input": c, "metadata": {"x": float("nan")}}) + "\n" for c in "abc"]
    (tmp_path / "p.jsonl").write_text("".join(rows))
    args = SimpleNamespace(
        prompt_data=str(tmp_path / "p.jsonl"),
        rollout_global_dataset=True,
        rollout_shuffle=True,
        n_samples_per_prompt=2,
        track_in_flight=track_in_flight,
        save=str(tmp_path),
        load=str(tmp_path),
    )

    def settle(source: Any, groups: list[Any], draw: int) -> None:
        if track_in_flight:
            source.complete(groups[:1])
            source.discard(groups[1:], "enough")

    assert assert_resumes_exactly(lambda: kind(args), num_samples=2, step=settle) == 5
