"""A plain simulation of the reference's source, held against ours over random sequences."""

from __future__ import annotations

import copy
import json
import os
import random
from types import SimpleNamespace

import pytest

from rolloutds import RolloutDataSourceWithBuffer

pytest.importorskip("torch")

NUM_SEQUENCES = 15


class Reference:
    """slime's get, add, save and load in their own words; a long draw wraps as often as needed."""

    def __init__(self, rows, *, seed, shuffled, size):
        self.rows, self.seed, self.shuffled, self.size = rows, seed, shuffled, size
        self.epoch = self.offset = self.group_index = self.index = 0
        self.buffer, self.metadata, self.files = [], {}, {}

    def order(self):
        order = list(range(len(self.rows)))
        if self.shuffled:
            random.Random(self.seed + self.epoch).shuffle(order)
        return order

    def get(self, count):
        groups, self.buffer = self.buffer[:count], self.buffer[count:]
        while len(groups) < count:
            if self.offset == len(self.rows):
                self.epoch, self.offset = self.epoch + 1, 0
            prompt = self.rows[self.order()[self.offset]]
            groups.append([(self.group_index, self.index + i, prompt) for i in range(self.size)])
            self.offset += 1
            self.group_index += 1
            self.index += self.size
        return groups

    def state(self):
        names = ("epoch", "offset", "group_index", "index", "buffer", "metadata")
        return {name: copy.deepcopy(getattr(self, name)) for name in names}


class Run:
    """Both sides, given the same."""

    def __init__(self, seed, folder):
        self.dice = random.Random(seed)
        self.rows = [f"prompt {i}" for i in range(self.dice.choice([1, 2, 3, 5, 8, 13]))]
        path = folder / "rows.jsonl"
        path.write_text("".join(json.dumps({"input": row}) + "\n" for row in self.rows))
        shuffled, size = self.dice.random() < 0.7, self.dice.randint(1, 3)
        self.args = SimpleNamespace(
            prompt_data=str(path),
            rollout_global_dataset=True,
            rollout_shuffle=shuffled,
            rollout_seed=seed,
            n_samples_per_prompt=size,
            save=str(folder / "save"),
            load=str(folder / "save"),
        )
        self.reference = Reference(self.rows, seed=seed, shuffled=shuffled, size=size)
        self.ours = RolloutDataSourceWithBuffer(self.args)
        self.out = []

    def get(self, step):
        count = self.dice.choice([0, 1, 2, 3, self.dice.randint(0, 3 * len(self.rows))])
        expected, got = self.reference.get(count), self.ours.get_samples(count, step)
        assert view(got) == expected
        self.out += zip(expected, got, strict=True)

    def add(self, step):
        self.dice.shuffle(self.out)
        count = self.dice.randint(0, len(self.out))
        given, self.out = self.out[:count], self.out[count:]
        for sample in (sample for _, group in given[::2] for sample in group):
            sample.response, sample.tokens, sample.reward = "answer", [1, 2], 0.5
        self.reference.buffer += [expected for expected, _ in given]
        self.ours.add_samples([group for _, group in given])

    def save(self, step):
        self.reference.files[step] = self.reference.state()
        self.ours.save(step)

    def save_later(self, step):
        self.reference.files[step] = self.reference.state()
        self.ours.snapshot(step)
        self.get(step)
        self.ours.save(step)

    def load(self, step):
        if self.reference.files:
            rollout_id = self.dice.choice(list(self.reference.files))
            vars(self.reference).update(copy.deepcopy(self.reference.files[rollout_id]))
            if self.dice.random() < 0.5:
                self.ours = RolloutDataSourceWithBuffer(self.args)
            self.ours.load(rollout_id)
            self.out = []

    def tell(self, step):
        self.reference.metadata[f"key {step % 3}"] = step
        self.ours.update_metadata({f"key {step % 3}": step})

    def compare(self):
        expected, ours = self.reference, self.ours
        assert vars(ours.cursor) == {
            "epoch_id": expected.epoch,
            "sample_offset": expected.offset,
            "sample_group_index": expected.group_index,
            "sample_index": expected.index,
        }
        assert view(ours.buffer) == expected.buffer
        assert ours.get_metadata() == expected.metadata


def view(groups):
    return [[(s.group_index, s.index, s.prompt) for s in group] for group in groups]


@pytest.mark.parametrize("seed", range(NUM_SEQUENCES))
def test_without_the_ledger_our_source_is_the_reference(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    run = Run(seed, tmp_path)
    steps = [run.get] * 5 + [run.add] * 3 + [run.save, run.save_later, run.load, run.tell]
    for step in range(run.dice.randint(5, 20)):
        run.dice.choice(steps)(step)
        run.compare()
