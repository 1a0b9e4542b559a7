"""A buffer filter to try: `rolloutds buffer replay --filter sample_data/filters_good.py:mixed_first`."""

from __future__ import annotations

from typing import Any


def mixed_first(args: Any, rollout_id: int | None, buffer: list[Any], num_samples: int) -> Any:
    """Takes groups with right and wrong answers first, then the rest in the order they wait."""
    ranked = sorted(range(len(buffer)), key=lambda at: not _is_mixed(buffer[at]))
    chosen = ranked[:num_samples]
    taken = [buffer[at] for at in chosen]
    for at in sorted(chosen, reverse=True):
        del buffer[at]
    return taken


def _is_mixed(group: list[Any]) -> bool:
    return len({sample.reward for sample in group if sample.reward is not None}) > 1
