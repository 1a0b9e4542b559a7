"""Writes ``orders.json`` beside this file, from Python's own ``random.Random.shuffle``.

Run it only to add cases: an order that is pinned never changes, on any Python version.
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

# Orders of up to this many rows are written out whole.
_MAX_ROWS_WHOLE = 64
_CASES = [
    *((num_rows, 42, 0) for num_rows in (0, 1, 2, 3, 4, 10, 32, 63, 64, 65, 1000, 4095, 4096)),
    *((10, 42, epoch_id) for epoch_id in (1, 2, 100)),
    *((10, seed, 0) for seed in (0, 1, -1, -42, 2**31, 2**32 - 1, 2**32, 2**64 + 1, -(10**40))),
    *((7_473, 42, epoch_id) for epoch_id in (0, 1, 2)),
    *((num_rows, 42, 0) for num_rows in (65_535, 65_536, 65_537, 199_999, 200_000, 262_144)),
    (262_143, -7, 3),
    (524_288, 2**70, 1),
    (1_000_000, 42, 0),
    (1_000_000, 42, 1),
    (1_000_000, 0, 0),
]


def _golden_case(num_rows: int, seed: int, epoch_id: int) -> dict[str, Any]:
    order = list(range(num_rows))
    random.Random(seed + epoch_id).shuffle(order)
    case: dict[str, Any] = {"num_rows": num_rows, "seed": seed, "epoch_id": epoch_id}
    if num_rows <= _MAX_ROWS_WHOLE:
        return {**case, "order": order}
    return {**case, "head": order[:10], "sha256_of_int64": _digest(order)}


def _digest(order: list[int]) -> str:
    """Returns the sha256 of the order as 64-bit little-endian integers."""
    packed = b"".join(position.to_bytes(8, "little") for position in order)
    return hashlib.sha256(packed).hexdigest()


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(_golden_case(*case)) for case in _CASES)
    Path(__file__).with_name("orders.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
