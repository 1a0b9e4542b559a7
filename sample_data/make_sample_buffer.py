"""Makes `buffer.jsonl` beside this script: what waits in the buffer of a run on `prompts.jsonl`.

    python sample_data/make_sample_buffer.py [FOLDER]

The run is the one of `rolloutds.toml`: shuffled with seed 42, 8 samples a prompt. After six
rollouts of 32 groups, 40 groups came back: some aborted, some left over. The same file comes out
every time; the only randomness is a seeded generator's ``random()``.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rolloutds.shuffle import epoch_order

SEED = 20_260_401
ROLLOUT_SEED = 42
NUM_DRAWN = 192
NUM_GROUPS = 40
SIZE = 8

Draw = Callable[[], float]
Fields = dict[str, Any]

# What happened to a group, in the order of waiting; some more often than others.
KINDS = (
    *("mixed", "all right", "aborted", "mixed", "stale"),
    *("partly aborted", "all wrong", "mixed", "truncated", "untouched"),
)
OPENINGS = (
    "Let me work through it step by step.",
    "First I write down what is given.",
    "I check the small cases before the rest.",
    "We can count this directly.",
)
MIDDLES = (
    "Adding up the parts in the order they come, each one is checked before the next is taken.",
    "The second quantity follows from the first.",
    "That leaves one case, which is quick to check.",
    "Both ways of counting agree, so nothing was counted twice and nothing was left out.",
    "The units are the same on both sides.",
)


def main(folder: Path) -> None:
    here = Path(__file__).resolve().parent
    lines = (here / "prompts.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    rows = [json.loads(line) for line in lines]
    order = epoch_order(len(rows), ROLLOUT_SEED, 0)
    draw = random.Random(SEED).random
    written = []
    for number, group_index in enumerate(waiting_groups(draw)):
        row_id = order[group_index]
        group = make_group(KINDS[number % len(KINDS)], group_index, row_id, rows[row_id], draw)
        line = {"group_index": group_index, "samples": group}
        written.append(json.dumps(line, ensure_ascii=False) + "\n")
    (folder / "buffer.jsonl").write_text("".join(written), encoding="utf-8")


def waiting_groups(draw: Draw) -> list[int]:
    """Numbers of the groups that came back, the longest waiting first."""
    numbers = list(range(NUM_DRAWN))
    drawn = [numbers.pop(int(draw() * len(numbers))) for _ in range(NUM_GROUPS)]
    return sorted(drawn)


def make_group(kind: str, group_index: int, row_id: int, row: Fields, draw: Draw) -> list[Fields]:
    """The samples of a group that had such a fate."""
    rollout = group_index // 32
    group = []
    for number in range(SIZE):
        sample = {
            "group_index": group_index,
            "index": group_index * SIZE + number,
            "prompt": row["prompt"],
            "label": row["label"],
            "metadata": row["metadata"],
            "row_id": row_id,
        }
        group.append(sample | outcome(kind, number, rollout, row, draw))
    return group


def outcome(kind: str, number: int, rollout: int, row: Fields, draw: Draw) -> Fields:
    """What one sample has beyond its prompt."""
    if kind == "untouched":
        return {"status": "pending", "tokens": [], "weight_versions": []}
    is_right = {"all right": True, "all wrong": False}.get(kind, draw() < 0.55)
    is_aborted = kind == "aborted" or (kind == "partly aborted" and number % 3 == 1)
    is_truncated = kind == "truncated" and number % 2 == 0
    response = answered(row["label"], draw, is_right=is_right)
    if is_aborted or is_truncated:
        words = response.split(" ")
        response = " ".join(words[: 1 + int(draw() * (len(words) - 4))])
    status = "aborted" if is_aborted else "truncated" if is_truncated else "completed"
    versions = [str(max(0, rollout - 2)), str(rollout)] if kind == "stale" else [str(rollout)]
    reward = None if is_aborted else float(is_right and not is_truncated)
    return with_tokens(row["prompt"], response, draw) | {
        "reward": reward,
        "status": status,
        "weight_versions": versions if number % 2 else versions[-1:],
    }


def answered(label: str, draw: Draw, *, is_right: bool) -> str:
    """A response that ends with an answer."""
    middle = [MIDDLES[int(draw() * len(MIDDLES))] for _ in range(int(draw() * 5))]
    answer = label if is_right else another(label, draw)
    return " ".join([OPENINGS[int(draw() * len(OPENINGS))], *middle, f"The answer is {answer}."])


def another(label: str, draw: Draw) -> str:
    """A wrong answer of the same form, as far as that is easy."""
    if label.lstrip("-").isdecimal():
        return str(int(label) + 1 + int(draw() * 9))
    return "not among these"


def with_tokens(prompt: list[dict[str, str]], response: str, draw: Draw) -> Fields:
    """The response with made-up token ids, one a word, and a log-prob for each of its own."""
    before = [token for message in prompt for token in token_ids(message["content"])]
    own = token_ids(response)
    return {
        "tokens": before + own,
        "response": response,
        "response_length": len(own),
        "loss_mask": [1] * len(own),
        "rollout_log_probs": [-round(draw() * 2, 2) for _ in own],
    }


def token_ids(text: str) -> list[int]:
    return [
        256 + sum(31**i * byte for i, byte in enumerate(word.encode())) % 9_000
        for word in text.split()
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent)
