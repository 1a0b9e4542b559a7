"""Buffer filters with a mistake each; `rolloutds buffer replay --filter` says which.

rolloutds buffer replay --filter sample_data/filters_bad.py:best_first
"""

from __future__ import annotations

import random
from typing import Any


def best_first(args: Any, rollout_id: int | None, buffer: list[Any], num_samples: int) -> Any:
    """Returns the groups whose first sample has the highest reward; they stay in the buffer."""
    ranked = sorted(buffer, key=lambda group: group[0].reward or 0.0, reverse=True)
    return ranked[:num_samples]


def all_at_once(args: Any, rollout_id: int | None, buffer: list[Any], num_samples: int) -> Any:
    """Returns everything, however little is asked for."""
    taken = list(buffer)
    buffer.clear()
    return taken


def shuffled(args: Any, rollout_id: int | None, buffer: list[Any], num_samples: int) -> Any:
    """Seeds the generator of the whole process, and leaves the buffer in another order."""
    random.seed(args.rollout_seed)
    random.shuffle(buffer)
    taken = buffer[:num_samples]
    del buffer[:num_samples]
    return taken
