"""Draws from a shared source on Ray, beside an actor that only hands out the same bytes."""

from __future__ import annotations

import contextlib
import pickle
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.bench import Bench
from benchmarks.result import Outcome, Timing, time_target

_NUM_GROUPS = 32
_N_SAMPLES_PER_PROMPT = 8
_NUM_DRAWS = 160
_NUM_ROUNDS = 5


def measure_1(bench: Bench) -> Outcome:
    """With one worker."""
    return _measure(bench, 1)


def measure_2(bench: Bench) -> Outcome:
    """With two workers at once."""
    return _measure(bench, 2)


def measure_8(bench: Bench) -> Outcome:
    """With eight workers at once."""
    return _measure(bench, 8)


def _measure(bench: Bench, num_workers: int) -> Outcome:
    calls = [
        bench.call(
            draw_both, path=str(bench.text_file), folder=str(bench.folder), num_workers=num_workers
        )[1]
        for _ in range(bench.repeat)
    ]
    ours = Timing([call["ours"] for call in calls])
    bare = Timing([call["bare"] for call in calls])
    target = time_target(ours, bare, "bare actor", limit=_LIMITS[num_workers])
    noun = "worker" if num_workers == 1 else "workers"
    note = (
        f"seconds a draw of {_NUM_GROUPS} groups of {_N_SAMPLES_PER_PROMPT}, {num_workers} {noun}: "
        f"{1 / ours.median_seconds:,.0f} draws a second, bare {1 / bare.median_seconds:,.0f}, of "
        f"{statistics.median(call['num_bytes'] for call in calls):,.0f} bytes; ours reads rows, "
        "keeps a journal and makes the samples"
    )
    return Outcome(ours, {"bare actor": bare}, [target], [note])


_LIMITS = {1: 8, 2: 8, 8: 8}


def draw_both(path: str, folder: str, num_workers: int) -> dict[str, float]:
    """Seconds a draw takes when so many workers draw at once, from ours and from a bare actor."""
    with contextlib.redirect_stdout(sys.stderr):  # Ray prints; stdout is for the result
        return _draw_both(path, folder, num_workers)


def _draw_both(path: str, folder: str, num_workers: int) -> dict[str, float]:
    import ray

    from rolloutds.integrations.ray import SharedDataSource

    ray.init(
        "local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        configure_logging=False,
    )
    settings = SimpleNamespace(
        prompt_data=path,
        rollout_global_dataset=True,
        rollout_shuffle=True,
        input_key="prompt",
        label_key="label",
        n_samples_per_prompt=_N_SAMPLES_PER_PROMPT,
    )
    source = SharedDataSource(settings, state_folder=Path(folder) / "shared")
    num_bytes = _num_bytes_of_a_draw(source)
    bare = ray.remote(_bare_class()).options(num_cpus=0).remote(num_bytes)
    drawers = [ray.remote(_drawer_class()).options(num_cpus=0).remote() for _ in range(num_workers)]
    ours = _seconds_a_draw(drawers, "draw", source)
    theirs = _seconds_a_draw(drawers, "fetch", bare)
    source.shut_down()
    ray.shutdown()
    return {"ours": ours, "bare": theirs, "num_bytes": num_bytes}


def _num_bytes_of_a_draw(source: Any) -> int:
    source.get_samples(_NUM_GROUPS)  # the first joins
    reply = source._call("draw", source.worker, _NUM_GROUPS, None, None)
    return len(pickle.dumps(reply))


def _seconds_a_draw(drawers: list[Any], method: str, argument: Any) -> float:
    """The median of some rounds, in each of which every worker makes its share of the draws."""
    import ray

    def everybody(method: str, *arguments: Any) -> None:
        ray.get([getattr(drawer, method).remote(*arguments) for drawer in drawers])

    share = _NUM_DRAWS // len(drawers)
    everybody(method, argument, 2)  # they join, and the order is made
    rounds = []
    for _ in range(_NUM_ROUNDS):
        started = time.perf_counter()
        everybody(method, argument, share)
        rounds.append((time.perf_counter() - started) / (share * len(drawers)))
        everybody("settle")
    return statistics.median(rounds)


# Classes that Ray takes by value: its processes need not find this package.


def _bare_class() -> Any:
    class Bare:
        def __init__(self, num_bytes: int) -> None:
            self.reply = bytes(num_bytes)

        async def get(self) -> bytes:
            return self.reply

    return Bare


def _drawer_class() -> Any:
    num_groups = _NUM_GROUPS

    class Drawer:
        def __init__(self) -> None:
            self.source: Any = None
            self.held: list[Any] = []

        def draw(self, source: Any, num_draws: int) -> None:
            self.source = self.source or source
            for _ in range(num_draws):
                groups = self.source.get_samples(num_groups)
                self.held += [group[:1] for group in groups]  # enough to settle them by

        def settle(self) -> None:
            if self.source is not None:
                self.source.complete(self.held)
            self.held = []

        def fetch(self, actor: Any, num_draws: int) -> None:
            import ray

            for _ in range(num_draws):
                ray.get(actor.get.remote())

    return Drawer
