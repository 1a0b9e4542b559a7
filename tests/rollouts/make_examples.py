"""Makes the example files beside this script, a folder a format, as each system writes them.

    python tests/rollouts/make_examples.py [FOLDER]

Every file has three prompts with two or four samples each. Needs torch, NumPy and pyarrow.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

PROMPTS = ["What is 2 + 3?", "Which is larger, 7/8 or 8/9?", "Name a prime above 90."]
ANSWERS = ["5", "8/9", "97"]
REPLIES = [["5", "6"], ["8/9", "7/8"], ["97", "I think 91"]]


def main(folder: Path) -> None:
    makers = [
        *(make_rolloutds, make_slime, make_group_lists, make_checkpoint, make_verl, make_trl),
        *(make_prime_rl, make_verifiers, make_nemo_rl, make_roll, make_open_instruct),
        *(make_areal, make_skyrl),
    ]
    for maker in makers:
        maker(folder / maker.__name__.removeprefix("make_").replace("_", "-"))


# --- writing ------------------------------------------------------------------------------


def write_lines(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


def write_torch(path: Path, value: Any) -> None:
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)


# --- samples ------------------------------------------------------------------------------


def ids(text: str) -> list[int]:
    """Made-up token ids, one a word."""
    return [1000 + sum(word.encode()) for word in text.split()]


def pairs() -> list[tuple[int, int, str, str, float]]:
    """Number of the prompt, number of the sample in its group, prompt, reply, reward."""
    return [
        (g, i, prompt, REPLIES[g][i], float(REPLIES[g][i] == ANSWERS[g]))
        for g, prompt in enumerate(PROMPTS)
        for i in range(2)
    ]


def sample(group: int, number: int, *, first_group: int = 0) -> dict[str, Any]:
    """A sample as slime's dumps have it."""
    prompt, reply = PROMPTS[group], REPLIES[group][number % 2]
    response = ids(reply)
    return {
        "group_index": first_group + group,
        "index": 2 * (first_group + group) + number,
        "rollout_id": None,
        "prompt": prompt,
        "tokens": ids(prompt) + response,
        "multimodal_inputs": None,
        "multimodal_train_inputs": None,
        "multimodal_train_input_id": None,
        "apply_chat_template_kwargs": {},
        "response": reply,
        "response_length": len(response),
        "label": ANSWERS[group],
        "reward": float(reply == ANSWERS[group]),
        "loss_mask": [1] * len(response),
        "weight_versions": ["3"],
        "rollout_log_probs": [-0.25] * len(response),
        "rollout_top_p_token_ids": None,
        "rollout_top_p_token_offsets": None,
        "rollout_routed_experts": None,
        "remove_sample": False,
        "teacher_log_probs": None,
        "status": "completed",
        "metadata": {"source": "arithmetic", "difficulty": group + 1},
        "generate_function_path": None,
        "custom_rm_path": None,
        "train_metadata": None,
        "session_id": None,
        "non_generation_time": 0.0,
        "spec_info": {
            "spec_accept_token_num": 0,
            "spec_draft_token_num": 0,
            "spec_verify_ct": 0,
            "completion_token_num": 0,
        },
        "prefix_cache_info": {"cached_tokens": 0, "total_prompt_tokens": 0},
    }


def groups(first_group: int = 0) -> list[list[dict[str, Any]]]:
    return [[sample(g, i, first_group=first_group) for i in range(2)] for g in range(3)]


# --- our own ------------------------------------------------------------------------------


def make_rolloutds(folder: Path) -> None:
    found = groups()
    found[1][0] |= {"status": "paused", "foo": {"kept": True}}
    lines = [{"group_index": i, "samples": group} for i, group in enumerate(found)]
    write_lines(folder / "buffer.jsonl", lines)
    write_lines(folder / "arrays.jsonl", groups())
    write_lines(folder / "samples.jsonl", [one for group in groups() for one in group])
    nested = [sample(0, 0), sample(0, 1)], [sample(0, 0) | {"index": 2}]
    for number, rollout in enumerate(nested):
        for one in rollout:
            one["rollout_id"] = number
    write_lines(folder / "nested.jsonl", [{"group_index": 0, "samples": list(nested)}])


def make_checkpoint(folder: Path) -> None:
    waiting, drawn = groups()[:2], groups()[2]
    state = {
        "sample_offset": 4,
        "epoch_id": 0,
        "sample_group_index": 4,
        "sample_index": 8,
        "metadata": {},
        "rolloutds": {
            "format_version": 1,
            "fingerprint": None,
            "n_samples_per_prompt": 2,
            "buffer": waiting,
            "in_flight": {
                "groups": [
                    {"group_index": 2, "first_index": 4, "samples": drawn},
                    {"group_index": 3, "first_index": 6, "row_position": 3},
                ],
                "num_completed": 0,
                "num_discarded": {},
            },
        },
    }
    write_torch(folder / "rollout" / "global_dataset_state_dict_7.pt", state)


def make_slime(folder: Path) -> None:
    import numpy as np
    import torch

    samples = [one for group in groups() for one in group]
    samples[0]["rollout_routed_experts"] = torch.arange(12, dtype=torch.int32).reshape(2, 3, 2)
    samples[1]["metadata"] |= {
        "scores": np.array([0.5, float("nan")]),
        "length": np.int64(3),
        "seen": datetime.datetime(2026, 3, 1, 12, 30, tzinfo=datetime.UTC),
    }
    samples[2] |= {"status": "paused", "foo": {"kept": True}}
    samples[3]["reward"] = float("nan")
    write_torch(folder / "12.pt", {"rollout_id": 12, "samples": samples})
    # Samples of one group need not lie together.
    mixed = [samples[i] for i in (0, 2, 4, 1, 3, 5)]
    write_torch(folder / "eval_12.pt", {"rollout_id": 12, "samples": mixed, "metadata": {"n": 2}})


def make_group_lists(folder: Path) -> None:
    write_torch(folder / "buffer.pt", groups(first_group=8))


# --- other systems ------------------------------------------------------------------------


def make_verl(folder: Path) -> None:
    rows = [
        {"input": p, "output": r, "gts": ANSWERS[g], "score": reward, "step": 40, "acc": reward > 0}
        for g, _, p, r, reward in pairs()
    ]
    write_lines(folder / "40.jsonl", rows)
    # A balanced batch has the samples of a prompt in several places.
    newer = [
        row | {"uid": f"prompt-{g}_{i}_0"} for row, (g, i, *_) in zip(rows, pairs(), strict=True)
    ]
    write_lines(folder / "41.jsonl", [row | {"step": 41} for row in newer[::2] + newer[1::2]])


def make_trl(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            "step": 5,
            "prompt": [{"role": "user", "content": p}],
            "completion": [{"role": "assistant", "content": r}],
            "accuracy_reward": reward,
            "format_reward": 0.5,
            "advantage": reward - 0.5,
            "source": "arithmetic",
        }
        for _, _, p, r, reward in pairs()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "completions_00005.parquet")


def node(parent: int | None, role: str, text: str, *, sampled: bool) -> dict[str, Any]:
    tokens = ids(text)
    return {
        "parent": parent,
        "message": {"role": role, "content": text},
        "sampled": sampled,
        "token_ids": tokens,
        "mask": [sampled] * len(tokens),
        "logprobs": [-0.5] * len(tokens) if sampled else [],
        "advantages": [],
    }


def episode(number: int, nodes: list[dict[str, Any]], group: int, reward: float) -> dict[str, Any]:
    return {
        "id": f"episode-{number}",
        "env": {"id": "arithmetic", "name": "arithmetic"},
        "task": {"type": "single", "data": {"answer": ANSWERS[group]}, "key": "t", "hash": "0a"},
        "group": {"id": f"group-{group}"},
        "run": "run-1",
        "ok": True,
        "errors": [],
        "traces": [
            {
                "nodes": nodes,
                "rewards": {
                    "correct": {"score": reward, "weight": 1.0},
                    "short": {"score": 1.0, "weight": 0.25},
                },
                "metrics": {"turns": 1.0},
                "stop_condition": "length" if number == 1 else "answered",
            }
        ],
    }


def make_prime_rl(folder: Path) -> None:
    rows = []
    for number, (g, _, prompt, reply, reward) in enumerate(pairs()):
        nodes = [
            node(None, "user", prompt, sampled=False),
            node(0, "assistant", reply, sampled=True),
        ]
        if number == 5:  # two turns
            nodes += [
                node(1, "user", "Are you sure?", sampled=False),
                node(2, "assistant", "97 then", sampled=True),
            ]
        rows.append(episode(number, nodes, g, reward))
    write_lines(folder / "rollouts" / "step_6" / "train" / "all" / "traces.jsonl", rows)
    # A second answer to the same question makes the trace a tree of two ways.
    branched = json.loads(json.dumps(rows))
    branched[0]["traces"][0]["nodes"].append(node(0, "assistant", "five", sampled=True))
    write_lines(folder / "rollouts" / "step_7" / "eval" / "all" / "traces.jsonl", branched)


def make_verifiers(folder: Path) -> None:
    rows = [
        {
            "example_id": g,
            "prompt": [{"role": "user", "content": p}],
            "completion": [{"role": "assistant", "content": r}],
            "answer": ANSWERS[g],
            "info": {"source": "arithmetic"},
            "reward": reward,
            "error": "timed out" if (g, i) == (2, 1) else None,
            "is_completed": True,
            "is_truncated": (g, i) == (1, 1),
            "stop_condition": "answered",
            "metrics": {"turns": 1.0},
        }
        for g, i, p, r, reward in pairs()
    ]
    write_lines(folder / "results.jsonl", rows)


def make_nemo_rl(folder: Path) -> None:
    rows = []
    for number, (_, _, prompt, reply, reward) in enumerate(pairs()):
        before, after = ids(prompt), ids(reply)
        tokens = before + after + [0] * (12 - len(before + after))
        mask = [0.0] * len(before) + [1.0] * len(after) + [0.0] * (12 - len(before + after))
        columns = {
            "content": prompt + reply,
            "rewards": reward,
            "input_lengths": len(before + after),
            "token_ids": tokens,
            "token_loss_mask": mask,
            "sample_loss_mask": 1.0,
            "advantages": [reward - 0.5] * 12,
            "generation_logprobs": [-0.5] * 12,
            "prev_logprobs": [-0.5] * 12,
        }
        rows.append({name: [value] for name, value in columns.items()} | {"idx": number})
    write_lines(folder / "train_data_step9.jsonl", rows)


def make_roll(folder: Path) -> None:
    columns = {
        "global_step": [4] * 6,
        "id": [f"row-{g}" for g, *_ in pairs()],
        "prompt": [p for _, _, p, _, _ in pairs()],
        "messages": [json.dumps([{"role": "user", "content": p}]) for _, _, p, _, _ in pairs()],
        "ground_truth": [ANSWERS[g] for g, *_ in pairs()],
        "tag": ["arithmetic"] * 6,
        "domain": ["math_rule"] * 6,
        "responses": [r for _, _, _, r, _ in pairs()],
        "scores": [reward for *_, reward in pairs()],
    }
    write_lines(folder / "rollout_dump_data.step_4.jsonl", [columns])


def make_open_instruct(folder: Path) -> None:
    rows = [
        {
            "step": 2 + (g == 2),
            "sample_idx": 2 * g + i,
            "prompt_idx": g % 2,
            "prompt_tokens": ids(p),
            "response_tokens": ids(r),
            "reward": reward,
            "advantage": reward - 0.5,
            "finish_reason": "length" if (g, i) == (2, 1) else "stop",
            "dataset": "arithmetic",
            "ground_truth": ANSWERS[g],
            "request_info": {"num_calls": 0},
            "logprobs": [-0.5] * len(ids(r)),
        }
        for g, i, p, r, reward in pairs()
    ]
    write_lines(folder / "run_rollouts_000000.jsonl", rows)


def make_areal(folder: Path) -> None:
    for g, prompt in enumerate(PROMPTS):
        rows = [
            {
                "task_id": 100 + g,
                "sample_idx": i,
                "seqlen": len(ids(prompt)) + len(ids(reply)),
                "prompt_len": len(ids(prompt)),
                "head_version": 7,
                "tail_version": 7 + i,
                "reward": float(reply == ANSWERS[g]),
                "prompt": prompt,
                "completion": reply,
            }
            for i, reply in enumerate(REPLIES[g])
        ]
        write_lines(folder / "rollout" / "8" / f"{100 + g}.jsonl", rows)


def make_skyrl(folder: Path) -> None:
    rows = [
        {
            "input_prompt": p,
            "output_response": r,
            "score": [0.0, reward] if g == 1 else reward,
            "stop_reason": "paused" if (g, i) == (1, 1) else "stop",
            "env_class": "gsm8k",
            "env_extras": {"reward_spec": {"method": "rule", "ground_truth": ANSWERS[g]}},
            "data_source": "arithmetic",
        }
        for g, i, p, r, reward in pairs()
    ]
    write_lines(folder / "dumped_evals" / "global_step_20_evals" / "arithmetic.jsonl", rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "files")
