"""The yardstick: a data source that loads everything at the start and copies deeply.

It does what a training run's data source usually does: every line through ``json``, a sample
object for each row, the list of them shuffled, and each group made by ``copy.deepcopy``.
"""

from __future__ import annotations

import copy
import json
import random
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any


class Status(Enum):
    """Where a sample stands."""

    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass
class SpecInfo:
    """Counters of speculative decoding."""

    spec_accept_token_num: int = 0
    spec_draft_token_num: int = 0
    spec_verify_ct: int = 0
    completion_token_num: int = 0


@dataclass
class PrefixCacheInfo:
    """Counters of the prefix cache."""

    cached_tokens: int = 0
    total_prompt_tokens: int = 0


@dataclass
class EagerSample:
    """A sample with every field that a slime run gives it."""

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: str | list[dict[str, Any]] = ""
    tokens: list[int] = field(default_factory=list)
    multimodal_inputs: dict[str, Any] | None = None
    multimodal_train_inputs: dict[str, Any] | None = None
    multimodal_train_input_id: str | None = None
    apply_chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    response: str = ""
    response_length: int = 0
    label: Any = None
    reward: float | dict[str, Any] | None = None
    loss_mask: list[int] | None = None
    weight_versions: list[str] = field(default_factory=list)
    rollout_log_probs: list[float] | None = None
    rollout_top_p_token_ids: Any = None
    rollout_top_p_token_offsets: Any = None
    rollout_routed_experts: Any = None
    remove_sample: bool = False
    teacher_log_probs: list[float] | None = None
    status: Status = Status.PENDING
    metadata: dict[str, Any] = field(default_factory=dict)
    generate_function_path: str | None = None
    custom_rm_path: str | None = None
    train_metadata: dict[str, Any] | None = None
    session_id: str | None = None
    non_generation_time: float = 0.0
    spec_info: SpecInfo = field(default_factory=SpecInfo)
    prefix_cache_info: PrefixCacheInfo = field(default_factory=PrefixCacheInfo)


def load(path: str, *, max_rows: int | None = None) -> list[EagerSample]:
    """Every row of a file as a sample, or the first `max_rows` of them."""
    samples = []
    with Path(path).open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line.strip())
            metadata = row.get("metadata") or {}
            samples.append(
                EagerSample(prompt=row["prompt"], label=row.get("label"), metadata=metadata)
            )
            if len(samples) == max_rows:
                break
    return samples


def make_groups(samples: list[EagerSample], n_samples_per_prompt: int) -> list[list[EagerSample]]:
    """A group of independent copies for each sample."""
    groups = []
    for group_index, prompt_sample in enumerate(samples):
        group = []
        for number in range(n_samples_per_prompt):
            sample = copy.deepcopy(prompt_sample)
            sample.group_index = group_index
            sample.index = group_index * n_samples_per_prompt + number
            group.append(sample)
        groups.append(group)
    return groups


def peek(path: str, *, num_groups: int, seed: int) -> list[dict[str, Any]]:
    """Loads, shuffles, makes the first groups and shows one object for each."""
    samples = load(path)
    order = list(range(len(samples)))
    random.Random(seed).shuffle(order)
    groups = make_groups([samples[row] for row in order[:num_groups]], 8)
    return [
        {
            "row_id": row,
            "sample_group_index": group[0].group_index,
            "sample_index": group[0].index,
            "prompt": group[0].prompt,
            "label": group[0].label,
            "metadata": group[0].metadata,
        }
        for row, group in zip(order, groups, strict=False)
    ]
