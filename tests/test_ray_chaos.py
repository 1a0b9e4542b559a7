"""Workers and the shared source killed at random: three epochs, every prompt completed once."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolloutds.integrations.ray import SharedDataSource

pytest_plugins = ("tests.ray_cluster",)

NUM_WORKERS = 3
NUM_EPOCHS = 3
GROUPS_A_DRAW = 4
MAX_IN_FLIGHT = 20
SEED = 11


@pytest.mark.parametrize(
    "num_rows", [240, pytest.param(3_000, marks=pytest.mark.proof)], ids=["30s", "minutes"]
)
def test_whatever_is_killed_every_prompt_is_completed_once(
    ray_cluster: Any, tmp_path: Path, num_rows: int
) -> None:
    chaos = Chaos(tmp_path, num_rows)
    try:
        chaos.run()
        stats = chaos.source.stats()
    finally:
        chaos.end()
    assert chaos.kills["worker"] >= num_rows / 120
    assert chaos.kills["source"] >= num_rows / 120
    assert stats["num_restarts"] == chaos.kills["source"]
    check_log(chaos.log(), num_rows, stats["num_completed"])


def check_log(log: list[dict[str, Any]], num_rows: int, num_completed: int) -> None:
    """What the workers wrote down, against the order of a run with one worker and no kills."""
    target = NUM_EPOCHS * num_rows
    prompts = [prompt for epoch in range(NUM_EPOCHS) for prompt in epoch_prompts(num_rows, epoch)]
    draws = {d["serial"]: d for entry in log if entry["did"] == "draw" for d in entry["groups"]}
    for draw in draws.values():
        assert draw["first_index"] == 2 * draw["index"]
        assert draw["index"] >= target or draw["prompt"] == prompts[draw["index"]]
    # Nobody else got the same group of the same draw.
    assert len(draws) == sum(len(e["groups"]) for e in log if e["did"] == "draw")
    check_sequence([draws[serial]["index"] for serial in sorted(draws)])
    tried = {i for entry in log if entry["did"] == "try" for i in entry["indices"]}
    done = Counter(i for entry in log if entry["did"] == "complete" for i in entry["indices"])
    assert set(done.values()) <= {1}
    # A worker killed between the call and the log has completed what it only tried to.
    assert set(range(target)) <= tried
    assert len(done) <= num_completed == target


def check_sequence(indices: list[int]) -> None:
    """A group comes after the one before it, or again after its holder died or gave it back.

    What a worker drew and was killed before it wrote it down leaves a gap, which is no wider than
    what may be in flight, and is filled when the group comes again.
    """
    newest = -1
    for index in indices:
        assert index - newest <= MAX_IN_FLIGHT
        newest = max(newest, index)


def epoch_prompts(num_rows: int, epoch: int) -> list[str]:
    order = list(range(num_rows))
    random.Random(SEED + epoch).shuffle(order)
    return [f"row {i}" for i in order]


class Chaos:
    """A source, workers that draw from it, and somebody who kills them."""

    def __init__(self, folder: Path, num_rows: int) -> None:
        self.folder = folder
        self.target = NUM_EPOCHS * num_rows
        self.dice = random.Random(5)
        self.kills: Counter[str] = Counter()
        rows = [json.dumps({"input": f"row {i}"}) + "\n" for i in range(num_rows)]
        (folder / "p.jsonl").write_text("".join(rows))
        args = SimpleNamespace(
            prompt_data=str(folder / "p.jsonl"),
            rollout_global_dataset=True,
            rollout_shuffle=True,
            rollout_seed=SEED,
            n_samples_per_prompt=2,
        )
        self.source = SharedDataSource(
            args,
            name=f"chaos-{uuid.uuid4().hex[:12]}",
            state_folder=folder / "shared",
            max_in_flight=MAX_IN_FLIGHT,
        )
        self.worker_class = worker_class()
        self.num_workers = 0
        self.workers: list[tuple[Any, int]] = []

    def run(self) -> None:
        """Kills until every prompt is completed."""
        self.deadline = time.monotonic() + 0.5 * self.target
        for _ in range(NUM_WORKERS):
            self.add_worker()
        while self.source.stats()["num_completed"] < self.target:
            assert time.monotonic() < self.deadline, self.source.stats()
            time.sleep(self.dice.uniform(0.1, 1))
            self.kill_one()

    def add_worker(self) -> None:
        import ray

        self.num_workers += 1
        log = self.folder / f"worker-{self.num_workers}.log"
        worker = ray.remote(self.worker_class).options(num_cpus=0).remote()
        pid = ray.get(worker.pid.remote())
        worker.run.remote(self.source, str(log), self.num_workers, self.target)
        self.workers.append((worker, pid))

    def kill_one(self) -> None:
        if sum(self.kills.values()) % 3 == 1:
            os.kill(self.source.stats()["pid"], signal.SIGKILL)
            self.kills["source"] += 1
            return
        _, pid = self.workers.pop(self.dice.randrange(len(self.workers)))
        os.kill(pid, signal.SIGKILL)
        self.kills["worker"] += 1
        self.add_worker()

    def log(self) -> list[dict[str, Any]]:
        """What the workers wrote down."""
        return [entry for path in self.folder.glob("*.log") for entry in whole_lines(path)]

    def end(self) -> None:
        import ray

        for worker, _ in self.workers:
            ray.kill(worker)
        self.source.shut_down()


def whole_lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().split("\n")[:-1]:
        yield json.loads(line)


def worker_class() -> Any:
    """The class of the workers; Ray's processes get it by value."""

    class Worker:
        def pid(self) -> int:
            return os.getpid()

        def run(self, source: Any, log: str, seed: int, target: int) -> None:
            dice = random.Random(seed)
            with open(log, "a", buffering=1) as file:

                def write(did: str, **more: Any) -> None:
                    file.write(json.dumps({"did": did, **more}) + "\n")

                while True:
                    self.rollout(source, write, dice, target)

        def rollout(self, source: Any, write: Any, dice: random.Random, target: int) -> None:
            groups = source.get_samples(GROUPS_A_DRAW)
            write("draw", groups=[self.described(source, group) for group in groups])
            time.sleep(dice.uniform(0, 0.2))
            beyond = [g for g in groups if g[0].group_index >= target]
            source.discard(beyond, "beyond the last epoch")
            left = [g for g in groups if g[0].group_index < target]
            returned = [group for group in left if dice.random() < 0.1]
            for group in returned:
                group[0].response += "half "
            source.add_samples(returned)
            taken = [group for group in left if not any(group is r for r in returned)]
            indices = [group[0].group_index for group in taken]
            write("try", indices=indices)
            source.complete(taken)
            write("complete", indices=indices)

        def described(self, source: Any, group: Any) -> dict[str, Any]:
            first = group[0]
            return {
                "serial": source._drawn.of(first),
                "index": first.group_index,
                "first_index": first.index,
                "prompt": first.prompt,
            }

    return Worker
