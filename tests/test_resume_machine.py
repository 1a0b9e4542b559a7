"""Any sequence of draws, returns, saves and crashes: no prompt is lost and none comes twice."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rolloutds import RolloutDataSourceWithBuffer

pytest.importorskip("torch", reason="states are saved with torch")

NUM_ROWS = 5
SIZE = 2
SEED = 7
IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "proof"
MACHINE_SETTINGS = settings(
    settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci")),
    max_examples=400 if IS_LONG else 25,
    stateful_step_count=60 if IS_LONG else 30,
)


def pop_last(args: object, rollout_id: object, buffer: list[Any], num_samples: int) -> list[Any]:
    taken: list[Any] = []
    while buffer and len(taken) < num_samples:
        taken.append(buffer.pop())
    return taken


def drop_some(args: object, rollout_id: object, buffer: list[Any], num_samples: int) -> list[Any]:
    """Drops every third group that waits, takes the others from the front."""
    buffer[:] = [group for i, group in enumerate(buffer) if i % 3 != 2]
    taken = buffer[:num_samples]
    del buffer[:num_samples]
    return taken


def prompt_of(group_index: int) -> str:
    """The prompt a run that never stops gives that index."""
    epoch, offset = divmod(group_index, NUM_ROWS)
    order = list(range(NUM_ROWS))
    random.Random(SEED + epoch).shuffle(order)
    return f"row {order[offset]}"


@dataclass
class Model:
    """What the source should hold; a group is its index, with the response of its first sample."""

    num_drawn: int = 0
    waiting: dict[int, str] = field(default_factory=dict)
    in_flight: dict[int, str] = field(default_factory=dict)
    buffer: dict[int, str] = field(default_factory=dict)
    completed: list[int] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)  # in flight at a crash, without the ledger
    metadata: dict[str, int] = field(default_factory=dict)


class ResumeMachine(RuleBasedStateMachine):
    """One run, its crashes included."""

    tracks = True

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="rolloutds-machine-"))
        rows = [json.dumps({"input": f"row {i}"}) + "\n" for i in range(NUM_ROWS)]
        (self.folder / "p.jsonl").write_text("".join(rows))
        self.buffer_filter: Any = None
        self.model = Model()
        self.saved: dict[int, Model] = {-1: Model()}
        self.pinned: dict[int, Model] = {}
        self.in_hand: dict[int, Any] = {}
        self.rollout_id = 0
        self.num_edits = 0
        # The power does not fail, and a flush takes most of a small save.
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(os, "fsync", lambda descriptor: None)

    def teardown(self) -> None:
        try:
            self._finish()
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder)

    @initialize(chosen=st.sampled_from([None, pop_last, drop_some]))
    def start(self, chosen: Any) -> None:
        self.buffer_filter = chosen
        self.source = self._new_source()

    def _new_source(self) -> RolloutDataSourceWithBuffer:
        source = RolloutDataSourceWithBuffer(
            SimpleNamespace(
                prompt_data=str(self.folder / "p.jsonl"),
                rollout_global_dataset=True,
                rollout_shuffle=True,
                rollout_seed=SEED,
                n_samples_per_prompt=SIZE,
                save=str(self.folder),
                load=str(self.folder),
                track_in_flight=self.tracks,
            )
        )
        if self.buffer_filter is not None:
            source.buffer_filter = self.buffer_filter
        return source

    # --- what a run does ------------------------------------------------------------------

    @rule(num_samples=st.integers(0, 2 * NUM_ROWS + 1))
    def get(self, num_samples: int) -> None:
        groups = self.source.get_samples(num_samples, self.rollout_id)
        expected = self._expect_draw(num_samples)
        served = {group[0].group_index: group[0].response for group in groups}
        assert list(served.items()) == list(expected.items())
        assert len(groups) == num_samples
        for group in groups:
            index = group[0].group_index
            assert [sample.prompt for sample in group] == [prompt_of(index)] * SIZE
            assert [sample.index for sample in group] == [SIZE * index, SIZE * index + 1]
            self.in_hand[index] = group
        self.model.in_flight |= expected

    def _expect_draw(self, num_samples: int) -> dict[int, str]:
        model = self.model
        taken = dict(list(model.waiting.items())[:num_samples])
        model.waiting = {k: v for k, v in model.waiting.items() if k not in taken}
        left = num_samples - len(taken)
        if left and model.buffer:
            buffer = list(model.buffer)
            if self.buffer_filter is None:
                picked = buffer[:left]
            else:
                before = list(buffer)
                picked = self.buffer_filter(None, None, buffer, left)
                model.dropped += [i for i in before if i not in buffer and i not in picked]
            taken |= {i: model.buffer[i] for i in picked}
            gone = set(picked) | set(model.dropped)
            model.buffer = {k: v for k, v in model.buffer.items() if k not in gone}
        num_fresh = num_samples - len(taken)
        fresh = range(model.num_drawn, model.num_drawn + num_fresh)
        model.num_drawn += num_fresh
        return taken | dict.fromkeys(fresh, "")

    def _choose(self, data: Any) -> list[int]:
        return data.draw(
            st.lists(st.sampled_from(sorted(self.in_hand)), unique=True, min_size=1, max_size=4)
        )

    def _let_go(self, indices: list[int]) -> list[Any]:
        for index in indices:
            del self.model.in_flight[index]
        return [self.in_hand.pop(index) for index in indices]

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data())
    def generate(self, data: Any) -> None:
        for index in self._choose(data):
            self.num_edits += 1
            self.in_hand[index][0].response = f"edit {self.num_edits}"

    @precondition(lambda self: self.in_hand)
    @rule(data=st.data(), as_copies=st.booleans())
    def give_back(self, data: Any, as_copies: bool) -> None:
        indices = self._choose(data)
        groups = self._let_go(indices)
        self.source.add_samples(copy.deepcopy(groups) if as_copies else groups)
        self.model.buffer |= {group[0].group_index: group[0].response for group in groups}

    @precondition(lambda self: self.tracks and self.in_hand)
    @rule(data=st.data(), as_copies=st.booleans())
    def complete(self, data: Any, as_copies: bool) -> None:
        groups = self._let_go(self._choose(data))
        self.source.complete(copy.deepcopy(groups) if as_copies else groups)
        self.model.completed += [group[0].group_index for group in groups]

    @precondition(lambda self: self.tracks and self.in_hand)
    @rule(data=st.data())
    def discard(self, data: Any) -> None:
        groups = self._let_go(self._choose(data))
        self.source.discard(groups, "zero spread")
        self.model.discarded += [group[0].group_index for group in groups]

    @rule(value=st.integers(0, 9))
    def note(self, value: int) -> None:
        self.source.update_metadata({"value": value})
        self.model.metadata["value"] = value

    @rule()
    def snapshot(self) -> None:
        self.source.snapshot(self.rollout_id)
        self.pinned[self.rollout_id] = copy.deepcopy(self.model)
        self.rollout_id += 1

    @rule(data=st.data())
    def save(self, data: Any) -> None:
        latest = max(self.saved)
        ids = [i for i in (*self.pinned, self.rollout_id) if i >= latest]
        rollout_id = data.draw(st.sampled_from(sorted(set(ids))))
        self.source.save(rollout_id)
        self.saved[rollout_id] = copy.deepcopy(self.pinned.get(rollout_id, self.model))
        self.pinned = {i: m for i, m in self.pinned.items() if i >= rollout_id}
        self.rollout_id = max(self.rollout_id, rollout_id)

    @rule(data=st.data(), same_object=st.booleans())
    def crash(self, data: Any, same_object: bool) -> None:
        self._resume(data.draw(st.sampled_from(sorted(self.saved))), same_object)

    def _resume(self, rollout_id: int, same_object: bool = False) -> None:
        if not same_object:
            self.source = self._new_source()
        self.source.load(rollout_id)
        self.model = copy.deepcopy(self.saved[rollout_id])
        if self.tracks:
            self.model.waiting = self.model.in_flight | self.model.waiting
        else:
            self.model.gone += self.model.in_flight
        self.model.in_flight = {}
        self.in_hand = {}
        self.pinned = {}
        self.rollout_id = rollout_id + 1
        # Later states are of a run that did not happen.
        self.saved = {i: model for i, model in self.saved.items() if i <= rollout_id}

    # --- what must hold -------------------------------------------------------------------

    @invariant()
    def every_group_is_in_one_place(self) -> None:
        model = self.model
        places = [
            *model.waiting,
            *model.in_flight,
            *model.buffer,
            *model.completed,
            *model.discarded,
            *model.dropped,
            *model.gone,
        ]
        assert sorted(places) == list(range(model.num_drawn))

    @invariant()
    def the_source_is_what_the_model_is(self) -> None:
        if not hasattr(self, "source"):
            return
        source, model = self.source, self.model
        assert source.sample_group_index == model.num_drawn
        assert source.sample_index == model.num_drawn * SIZE
        assert model.num_drawn == source.epoch_id * NUM_ROWS + source.sample_offset
        assert 0 <= source.sample_offset <= NUM_ROWS
        assert {g[0].group_index: g[0].response for g in source.buffer} == model.buffer
        assert source.get_metadata() == model.metadata
        if self.tracks:
            assert len(source.in_flight) == len(model.in_flight)
            assert source.in_flight.num_completed == len(model.completed)
            assert sum(source.in_flight.num_discarded.values()) == len(model.discarded)

    def _finish(self) -> None:
        """Resumes once more and trains to the end of an epoch: each of its prompts once."""
        if not hasattr(self, "source") or not self.tracks:
            return
        self._resume(max(self.saved))
        target = -(-max(1, self.model.num_drawn) // NUM_ROWS) * NUM_ROWS
        for _ in range(3 * target):
            left = self.model.waiting or self.model.buffer or self.model.num_drawn < target
            if not left:
                break
            self.get(1)
            indices = list(self.in_hand)
            self.source.complete(self._let_go(indices))
            self.model.completed += indices
        settled = [*self.model.completed, *self.model.discarded, *self.model.dropped]
        assert sorted(settled) == list(range(self.model.num_drawn))
        assert self.model.num_drawn >= target
        prompts = sorted(prompt_of(i) for i in settled if i < target)
        rows = [f"row {i}" for i in range(NUM_ROWS)]
        assert prompts == sorted(rows * (target // NUM_ROWS))


class ResumeWithoutLedger(ResumeMachine):
    """As the reference: what is in flight at a crash is gone, all else is as it was."""

    tracks = False


TestWithLedger = ResumeMachine.TestCase
TestWithLedger.settings = MACHINE_SETTINGS
TestWithoutLedger = ResumeWithoutLedger.TestCase
TestWithoutLedger.settings = MACHINE_SETTINGS
