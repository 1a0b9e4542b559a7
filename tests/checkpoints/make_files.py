"""Makes the small cursor files of other systems that the tests read.

    python tests/checkpoints/make_files.py [FOLDER]

torchdata and torch write what they are asked to; layouts, names and neighbours are each system's
own. The files are the same each time, but for torch's version inside.
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import RandomSampler as TorchSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler

HERE = Path(__file__).resolve().parent
NUM_ROWS = 20
BATCH = 4


class Numbers:
    """Rows that are their own positions."""

    def __init__(self, num_rows: int) -> None:
        self.num_rows = num_rows

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, position: int) -> int:
        return position


def make_loader(
    num_rows: int = NUM_ROWS,
    *,
    batch_size: int = BATCH,
    num_workers: int = 0,
    sampler: str = "torchdata",
    seed: int = 7,
    snapshot_every: int = 1,
) -> Any:
    """A loader as verl makes one: drop_last, and a sampler with a generator of its own."""
    rows = Numbers(num_rows)
    generator = torch.Generator()
    generator.manual_seed(seed)
    samplers = {
        "torchdata": lambda: RandomSampler(rows, generator=generator),
        "torch": lambda: TorchSampler(rows, generator=generator),
        "none": lambda: None,
    }
    return StatefulDataLoader(
        rows,
        batch_size=batch_size,
        sampler=samplers[sampler](),
        num_workers=num_workers,
        drop_last=True,
        snapshot_every_n_steps=snapshot_every,
    )


def state_after(loader: Any, num_batches: int) -> dict[str, Any]:
    """The loader's state once it served so many batches."""
    batches = iter(loader)
    for _ in range(num_batches):
        next(batches)
    state: dict[str, Any] = loader.state_dict()
    return state


def make_progress() -> Any:
    """prime-rl's Progress, under the name it has there, though prime-rl is not here."""
    cls = dataclasses.make_dataclass(
        "Progress",
        [(name, int, 0) for name in ("step", "total_tokens", "total_samples", "total_problems")],
    )
    cls.__module__ = "prime_rl.orchestrator.ckpt"
    module = types.ModuleType(cls.__module__)
    module.__dict__["Progress"] = cls
    for name in ("prime_rl", "prime_rl.orchestrator"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules[cls.__module__] = module
    return cls(30, 1_234_567, 3_840, 480)


def main(folder: Path) -> None:
    """Writes every file."""
    torch.manual_seed(0)
    after = {n: state_after(make_loader(), n) for n in (1, 2, 5)}
    for step, state in after.items():
        save(folder / f"verl/global_step_{step}/data.pt", state)
    text(folder / "verl/latest_checkpointed_iteration.txt", "5")

    workers = state_after(make_loader(num_workers=2), 2)
    save(folder / "skyrl/global_step_2/data.pt", workers)
    save(folder / "skyrl/global_step_2/trainer_state.pt", {"global_step": 2})
    text(folder / "skyrl/latest_ckpt_global_step.txt", "2")

    no_order = state_after(make_loader(sampler="torch"), 3)
    save(folder / "unknown/global_step_3/data.pt", no_order)
    save(folder / "nemo-rl/step_2/train_dataloader.pt", after[2])
    save(folder / "nemo-rl/step_2/train_dataloader_math.pt", no_order)
    client: dict[str, Any] = {"episode": 1, "global_step": 12, "total_consumed_prompts": 28}
    save(
        folder / "openrlhf/global_step12/mp_rank_00_model_states.pt",
        {**client, "data_loader_state_dict": after[2], "module": {}},
    )

    ranks = [state_after(make_loader(sampler="torch", seed=rank), 2) for rank in range(2)]
    path = folder / "areal/dataloader_info.pkl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(ranks, protocol=4))
    text(folder / "areal/step_info.json", json.dumps({"epoch": 0, "global_step": 41}))

    source: dict[str, Any] = {
        "rng": {"seed": 3},
        "envs": {"gsm8k": {"sampler": {"index": 5}, "gates": []}},
    }
    save(
        folder / "prime-rl/step_30/orchestrator/progress.pt",
        {"progress": make_progress(), "train_source": source},
    )
    for rollout_id, (epoch_id, offset) in {4: (0, 8), 9: (1, 8), 14: (2, 8)}.items():
        groups = epoch_id * 10 + offset
        cursor: dict[str, Any] = {
            "sample_offset": offset,
            "epoch_id": epoch_id,
            "sample_index": groups * 4,
        }
        cursor |= {"sample_group_index": groups, "metadata": {}}
        save(folder / f"slime/rollout/global_dataset_state_dict_{rollout_id}.pt", cursor)


def save(path: Path, value: Any) -> None:
    """Writes a value with torch."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)


def text(path: Path, content: str) -> None:
    """Writes a small text file."""
    path.write_text(content + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "files")
