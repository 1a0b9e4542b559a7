"""States of torchdata's StatefulDataLoader: verl, SkyRL, NeMo-RL, OpenRLHF and AReaL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolloutds.checkpoints.base import (
    CERTAIN,
    LIKELY,
    POSSIBLE,
    UNLIKE,
    Dialect,
    Finding,
    Position,
    count_in,
    ends_like,
)
from rolloutds.errors import CheckpointError
from rolloutds.torch_file import TensorValue

GENERATOR_BYTES = 5056
"""Size of the state of torch's CPU generator."""


@dataclass(frozen=True)
class LoaderState:
    """What the state of one StatefulDataLoader says.

    Attributes:
        num_workers: worker processes; 0 when the loader has none.
        num_batches: batches of the epoch served.
        num_samples: rows of the epoch served; None when the sampler counts none, or when batches
            were served since the snapshot and their size is not known.
        batch_size: rows in a batch, where the counts imply it.
        steps_since_snapshot: batches served since the workers' last snapshot.
        is_finished: whether the epoch was read to its end.
        yielded: what torchdata's RandomSampler counts; None without it.
        generator: the generator's state before the epoch's order was drawn; None without it.
        problems: what contradicts itself: field and sentence.
    """

    num_workers: int
    num_batches: int | None
    num_samples: int | None
    batch_size: int | None
    steps_since_snapshot: int
    is_finished: bool
    yielded: int | None
    generator: TensorValue | None
    problems: tuple[tuple[str, str], ...] = ()

    @property
    def has_order(self) -> bool:
        """Whether the epoch's order can be rebuilt from the file and the number of rows."""
        return self.generator is not None and self.yielded is not None


def is_loader_state(value: Any) -> bool:
    """Whether a value is the state of a StatefulDataLoader, with workers or without."""
    if not isinstance(value, dict):
        return False
    return ("_sampler_iter_yielded" in value and "_num_yielded" in value) or (
        "_snapshot" in value and "_steps_since_snapshot" in value
    )


def loader_states(value: Any) -> list[Any]:
    """The loader states inside a value: itself, one per rank of a list, or OpenRLHF's own key."""
    if is_loader_state(value):
        return [value]
    if isinstance(value, list | tuple):
        return list(value) if value and all(map(is_loader_state, value)) else []
    if isinstance(value, dict):
        inner = value.get("client_states", value)
        state = inner.get("data_loader_state_dict") if isinstance(inner, dict) else None
        return [state] if is_loader_state(state) else []
    return []


def read_loader_state(value: Mapping[str, Any]) -> LoaderState:
    """The counts of one state."""
    snapshot = value.get("_snapshot")
    has_workers = isinstance(snapshot, dict)
    main = snapshot.get("_main_snapshot") if isinstance(snapshot, dict) else value
    main = main if isinstance(main, dict) else {}
    steps = (count_in(value, "_steps_since_snapshot") or 0) if has_workers else 0
    served = (
        count_in(snapshot, "_snapshot_step") if has_workers else count_in(value, "_num_yielded")
    )
    batch_sampler = _dict_in(main, "_sampler_iter_state") or _dict_in(main, "_index_sampler_state")
    sampler = _dict_in(batch_sampler, "sampler_iter_state")
    samples = count_in(batch_sampler, "samples_yielded")
    if "generator" in batch_sampler:  # a loader that makes no batches: the sampler's own state
        sampler, samples = batch_sampler, count_in(batch_sampler, "yielded")
    drawn = count_in(main, "_sampler_iter_yielded")
    size = samples // drawn if samples and drawn and samples % drawn == 0 else None
    is_finished = value.get("_iterator_finished") is True
    if steps and samples is not None:
        samples = samples + steps * size if size else None
    yielded = count_in(sampler, "yielded")
    generator = sampler.get("generator")
    if steps and yielded is not None:
        yielded = yielded + steps * size if size else None
    return LoaderState(
        num_workers=(count_in(main, "_num_workers") or 0) if has_workers else 0,
        num_batches=None if served is None else served + steps,
        num_samples=samples,
        batch_size=size,
        steps_since_snapshot=steps,
        is_finished=is_finished,
        yielded=yielded,
        generator=generator if _is_generator(generator) else None,
        problems=tuple(_problems(samples, yielded, generator)),
    )


def _dict_in(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _is_generator(value: Any) -> bool:
    return (
        isinstance(value, TensorValue)
        and value.dtype == "uint8"
        and tuple(value.shape) == (GENERATOR_BYTES,)
    )


def _problems(samples: int | None, yielded: int | None, generator: Any) -> list[tuple[str, str]]:
    problems = []
    if samples is not None and yielded is not None and samples != yielded:
        problems.append(
            ("samples_yielded", f"is {samples}, and the sampler's yielded is {yielded}")
        )
    if generator is not None and not _is_generator(generator):
        problems.append(
            ("generator", f"is not the state of a CPU generator, {GENERATOR_BYTES} bytes")
        )
    return problems


class StatefulDataLoaderDialect(Dialect):
    """One system's use of the StatefulDataLoader: its file names, and what it wraps around."""

    form = "StatefulDataLoader state"

    def __init__(
        self,
        name: str,
        systems: str,
        *,
        layouts: tuple[str, ...],
        neighbours: tuple[str, ...] = (),
        wraps: str | None = None,
        has_ranks: bool = False,
    ) -> None:
        self.name = name
        self.systems = systems
        self.layouts = layouts
        self.neighbours = neighbours
        self.wraps = wraps
        self.has_ranks = has_ranks
        self.looked_for = "the keys of StatefulDataLoader.state_dict()"
        if wraps:
            self.looked_for = f"{wraps} with {self.looked_for}"

    def likeness(self, value: Any, path: Path) -> int:
        """By what is inside, then by the file's name, then by its neighbours."""
        if not loader_states(value):
            return UNLIKE
        if not is_loader_state(value):
            return CERTAIN if self._wraps_as(value) else UNLIKE
        if self.wraps is not None:
            return UNLIKE
        if not any(ends_like(path, layout) for layout in self.layouts):
            return POSSIBLE
        return CERTAIN if not self.neighbours or self._has_neighbour(path) else LIKELY

    def _wraps_as(self, value: Any) -> bool:
        if isinstance(value, dict):
            return self.wraps is not None
        return self.has_ranks

    def _has_neighbour(self, path: Path) -> bool:
        folder = path.absolute().parent
        return any((folder / name).exists() for name in self.neighbours)

    def position(self, value: Any) -> Position:
        """Batches, samples and workers of each loader in the file."""
        found = [read_loader_state(state) for state in loader_states(value)]
        if not found:
            raise CheckpointError("holds no state of a loader", expected=self.looked_for)
        first = found[0]
        epoch_id, extra = _around(value)
        return Position(
            epoch_id=epoch_id,
            offset=first.num_samples,
            num_groups=_around_data(value).get("total_consumed_prompts"),
            order_key=None if first.generator is None else first.generator.storage.read(),
            facts=[*extra, *_facts(found)],
            data={"loaders": [_record(state) for state in found], **dict(_around_data(value))},
            findings=[Finding("CKPT040", *problem) for s in found for problem in s.problems],
        )


_AROUND = ("episode", "global_step", "total_consumed_prompts")


def _around_data(value: Any) -> dict[str, int]:
    inner = value.get("client_states", value) if isinstance(value, dict) else None
    counts = {key: count_in(inner, key) for key in _AROUND}
    return {key: count for key, count in counts.items() if count is not None}


def _around(value: Any) -> tuple[int | None, list[tuple[str, str]]]:
    counts = _around_data(value)
    facts = [(key.replace("_", " "), f"{count:,}") for key, count in counts.items()]
    return counts.get("episode"), facts


def _facts(found: list[LoaderState]) -> list[tuple[str, str]]:
    facts = []
    for rank, state in enumerate(found):
        prefix = f"rank {rank}: " if len(found) > 1 else ""
        facts += [
            (f"{prefix}batches", _batches_text(state)),
            (f"{prefix}samples", _samples_text(state)),
            (f"{prefix}workers", _workers_text(state)),
            (f"{prefix}order", _order_text(state)),
        ]
    return facts


def _batches_text(state: LoaderState) -> str:
    text = "not in the file" if state.num_batches is None else f"{state.num_batches:,} served"
    if state.batch_size:
        text += f", of {state.batch_size:,}"
    return text + (" (the epoch is over)" if state.is_finished else "")


def _samples_text(state: LoaderState) -> str:
    if state.num_samples is None:
        return "not in the file"
    return f"{state.num_samples:,} served in this epoch"


def _workers_text(state: LoaderState) -> str:
    if not state.num_workers:
        return "none"
    text = f"{state.num_workers:,}"
    if state.steps_since_snapshot:
        text += f", {state.steps_since_snapshot:,} batches after their snapshot"
    return text


def _order_text(state: LoaderState) -> str:
    if state.has_order:
        return "torchdata's RandomSampler: can be rebuilt with the number of rows (--next)"
    return "not in the file (torch's own sampler leaves no state)"


def _record(state: LoaderState) -> dict[str, Any]:
    return {
        "num_workers": state.num_workers,
        "num_batches": state.num_batches,
        "num_samples": state.num_samples,
        "batch_size": state.batch_size,
        "steps_since_snapshot": state.steps_since_snapshot,
        "is_finished": state.is_finished,
        "has_order": state.has_order,
    }
