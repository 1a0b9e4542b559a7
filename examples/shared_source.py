"""Two workers of a local Ray that draw from one order, one of them killed in the middle.

    python examples/shared_source.py --run-folder run --num-epoch 2

Each worker asks for a few groups at a time, makes up an answer, gives back what was aborted and
completes the rest. Groups that the killed worker held go to the other one, so that in the end
every prompt was completed once an epoch. Needs the extra `ray`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import ray

from rolloutds import Sample, SampleGroup
from rolloutds.integrations.ray import SharedDataSource
from rolloutds.sample_files import sample_data_folder


def main(words: Sequence[str] | None = None) -> None:
    """Starts the workers, kills one, and waits until every prompt is completed."""
    args = read_arguments(words)
    is_ours = not ray.is_initialized()
    if is_ours:
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    source = SharedDataSource(args, name=args.name, max_in_flight_per_worker=16)
    target = args.num_epoch * len(source)
    workers = [RolloutWorker.remote(source) for _ in range(2)]
    runs = [worker.run.remote(target) for worker in workers]
    kill_one(source)
    for run in runs:
        with contextlib.suppress(ray.exceptions.RayActorError):  # the one that was killed
            ray.get(run)
    show(source, target)
    source.shut_down()
    if is_ours:
        ray.shutdown()


def read_arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """The run's settings; the shared source takes the same object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--run-folder", type=Path, required=True)
    parser.add_argument("--prompt-data", default=str(sample_data_folder() / "prompts.jsonl"))
    parser.add_argument("--input-key", default="prompt")
    parser.add_argument("--num-epoch", type=int, default=2)
    parser.add_argument("--n-samples-per-prompt", type=int, default=4)
    parser.add_argument("--rollout-seed", type=int, default=42)
    parser.add_argument("--name", default="rolloutds", help="name of the shared source")
    args = parser.parse_args(words)
    args.rollout_global_dataset = True
    args.rollout_shuffle = True
    args.save = str(args.run_folder)
    return args


@ray.remote(num_cpus=0)
class RolloutWorker:
    """One of the processes that generate.

    Args:
        source: the shared source; in this process it is a worker of its own.
    """

    def __init__(self, source: SharedDataSource) -> None:
        self.source = source

    def run(self, target: int) -> None:
        """Rollouts until so many groups are completed, by whomever."""
        while self.source.in_flight.num_completed < target:
            groups = self.source.get_samples(8)
            wanted = [g for g in groups if (g[0].group_index or 0) < target]
            self.source.discard([g for g in groups if g not in wanted], "after the last epoch")
            time.sleep(0.05)  # the engine at work
            for group in wanted:
                generate(group)
            self.source.add_samples([group for group in wanted if is_aborted(group)])
            self.source.complete([group for group in wanted if not is_aborted(group)])


def kill_one(source: SharedDataSource) -> None:
    """Kills a worker that holds groups, as soon as both are at work."""
    while True:
        workers = source.stats()["workers"]
        holding = [worker["pid"] for worker in workers if worker["num_in_flight"]]
        if len(workers) == 2 and holding:
            os.kill(holding[0], signal.SIGKILL)
            return
        time.sleep(0.02)


def generate(group: SampleGroup) -> None:
    """Stands in for the engine: what it answers depends on the group and the attempt alone."""
    attempt = group[0].metadata.get("attempt", 0) + 1
    for sample in group:
        sample.metadata["attempt"] = attempt
        dice = zlib.crc32(f"{sample.index} {attempt}".encode())
        is_cut_short = dice % 20 == 0 and attempt < 3
        sample.status = Sample.Status.ABORTED if is_cut_short else Sample.Status.COMPLETED
        sample.response = f"answer {dice % 100}"


def is_aborted(group: SampleGroup) -> bool:
    """Whether any sample of the group was interrupted."""
    return any(sample.status is Sample.Status.ABORTED for sample in group)


def show(source: SharedDataSource, target: int) -> None:
    """What the workers did."""
    stats = source.stats()
    print(f"{stats['num_completed']} of {target} groups completed")
    for worker in stats["workers"]:
        state = "alive" if worker["is_alive"] else worker["why_left"]
        print(
            f"{worker['name']}: {worker['num_drawn']} drawn, {worker['num_completed']} completed, "
            f"{worker['num_returned']} given back, {worker['num_requeued']} requeued; {state}"
        )


if __name__ == "__main__":
    main()
