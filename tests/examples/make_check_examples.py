"""Writes ``tests/examples/checks/CODE/{pass,fail}``: run it after a change, with torch installed.

    python tests/examples/make_check_examples.py

An example is what `validate` is given: files, and in ``args`` what else is on the command line
(``{tokenizer}`` is the folder ``tests/examples/tokenizer``).
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CHECKS = HERE / "checks"
PROMPT = ["--input-key", "prompt"]
LABEL = [*PROMPT, "--label-key", "label"]
MEDIA = [*PROMPT, "--multimodal-keys", '{"image": "images"}']
TEMPLATE = [*PROMPT, "--hf-checkpoint", "{tokenizer}", "--apply-chat-template"]
ALTERNATING = [*TEMPLATE, "--chat-template", "alternating.jinja"]
LIMIT = [*PROMPT, "--hf-checkpoint", "{tokenizer}", "--rollout-max-prompt-len", "3"]
TOOL = {"type": "function", "function": {"name": "zzz_probe", "parameters": {}}}
USER = {"role": "user", "content": "What is 2 + 2?"}
STRICT = (
    "{% for m in messages %}{% if m.role != ['user', 'assistant'][loop.index0 % 2] %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}{{ m.content }}{% endfor %}"
)
DEAF = "{% for m in messages %}{{ m.content }}{% endfor %}"
QUESTION = (
    "a farmer has three fields and each field holds four rows of seven apple trees how many "
    "trees are there in all"
)

Content = bytes | str | list[Any]


def lines(*rows: Any) -> list[Any]:
    """Rows of a JSON Lines file."""
    return list(rows)


ROWS: dict[str, tuple[list[str], Content, Content]] = {
    # code: arguments, content that passes, content that fails
    "ROW001": (PROMPT, lines({"prompt": "a"}), '{"prompt": "a"}\n{"prompt": "b"'),
    "ROW002": (PROMPT, lines({"prompt": "你好"}), '{"prompt": "你好"}\n'.encode("gbk")),
    "ROW003": (PROMPT, lines({"prompt": "a"}), '{"prompt": "a"}\n["b"]\n'),
    "ROW004": (
        PROMPT,
        '{"prompt": 1' + "0" * 20 + "}\n",
        '{"prompt": "a", "n": ' + "1" * 5000 + "}\n",
    ),
    "ROW005": (LABEL, '{"prompt": "a", "label": null}\n', '{"prompt": "a", "label": NaN}\n'),
    "ROW006": (PROMPT, '{"prompt": "\\ud83d\\ude00"}\n', '{"prompt": "\\ud83d"}\n'),
    "ROW007": (
        PROMPT,
        '{"prompt": "say \\"a\\": 1", "m": {"a": 1}, "n": {"a": 1}}\n',
        '{"prompt": "a", "m": {"a": 1, "b": 2, "a" : 3}}\n',
    ),
    "ROW008": (
        PROMPT,
        lines({"prompt": "a", "level": 1}, {"prompt": "b", "level": None}),
        lines({"prompt": "a", "level": 1}, {"prompt": "b", "level": "1"}),
    ),
    "ROW010": (PROMPT, lines({"prompt": "a"}), "\n  \n"),
    "ROW011": (
        [*PROMPT, "--rollout-batch-size", "2"],
        lines({"prompt": "a"}, {"prompt": "b"}),
        lines({"prompt": "a"}),
    ),
    "ROW012": (PROMPT, lines({"prompt": "a"}), '[\n{"prompt": "a"},\n{"prompt": "b"}\n]\n'),
    "KEY001": (PROMPT, lines({"prompt": "a"}), lines({"prompt": "a"}, {"text": "b"})),
    "KEY002": (PROMPT, lines({"prompt": "a"}), lines({"prompt": None})),
    "KEY003": (
        PROMPT,
        lines({"prompt": "a"}),
        lines({"prompt": ""}, {"prompt": " "}, {"prompt": []}),
    ),
    "KEY004": (LABEL, lines({"prompt": "a", "label": None}), lines({"prompt": "a"})),
    "KEY005": (LABEL, lines({"prompt": "a", "label": "4"}), lines({"prompt": "a", "label": None})),
    "KEY006": (LABEL, lines({"prompt": "a", "label": 0}), lines({"prompt": "a", "label": ""})),
    "KEY007": (
        LABEL,
        lines({"prompt": "a", "label": "42"}, {"prompt": "b", "label": None}),
        lines({"prompt": "a", "label": "42"}, {"prompt": "b", "label": 42}),
    ),
    "KEY008": (
        PROMPT,
        lines({"prompt": "a"}, {"prompt": "b"}),
        lines({"prompt": "a", "metadata": {"a": 1}}, {"prompt": "b"}),
    ),
    "KEY009": (PROMPT, lines({"prompt": "a"}), lines({"prompt": "a", "metadata": None})),
    "KEY010": (
        PROMPT,
        lines({"prompt": "a", "metadata": {"a": 1}}),
        lines({"prompt": "a", "metadata": {}}),
    ),
    "KEY011": (
        PROMPT,
        lines({"prompt": "a"}),
        lines({"prompt": "a", "tools": [TOOL]}, {"prompt": "b"}),
    ),
    "KEY012": (
        PROMPT,
        lines({"prompt": "a", "tools": [TOOL]}),
        lines({"prompt": "a", "tools": []}),
    ),
    "KEY013": (
        PROMPT,
        lines({"prompt": "a", "metadata": '{"d": 1}'}, {"prompt": "b", "metadata": 0}),
        lines({"prompt": "a", "metadata": "{bad"}, {"prompt": "b", "metadata": [1]}),
    ),
    "PROMPT001": (PROMPT, lines({"prompt": "a"}), lines({"prompt": 4}, {"prompt": ["hello"]})),
    "PROMPT002": (
        PROMPT,
        lines({"prompt": [USER]}, {"prompt": [{"role": "user", "content": [{"type": "text"}]}]}),
        lines({"prompt": "a"}, {"prompt": [USER]}),
    ),
    "PROMPT003": (
        PROMPT,
        lines({"prompt": [{"role": "system", "content": "Be brief."}, USER]}),
        lines({"prompt": [{"role": "human", "content": "a"}]}, {"prompt": [{"content": "b"}]}),
    ),
    "PROMPT004": (
        PROMPT,
        lines(
            {
                "prompt": [
                    USER,
                    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
                    {"role": "tool", "content": "4"},
                ]
            }
        ),
        lines({"prompt": [{"role": "user", "content": ""}]}, {"prompt": [{"role": "user"}]}),
    ),
    "PROMPT005": (
        PROMPT,
        lines({"prompt": [USER, {"role": "assistant", "content": "5"}, USER]}),
        lines({"prompt": [USER, {"role": "assistant", "content": "4"}]}),
    ),
    "PROMPT006": (ALTERNATING, lines({"prompt": [USER]}), lines({"prompt": [USER, USER]})),
    "TOOL001": (
        PROMPT,
        lines({"prompt": "a", "tools": json.dumps([TOOL])}, {"prompt": "b", "tools": None}),
        lines({"prompt": "a", "tools": "[{bad"}),
    ),
    "TOOL002": (
        PROMPT,
        lines({"prompt": "a", "tools": [TOOL]}),
        lines({"prompt": "a", "tools": {"a": 1}}),
    ),
    "TOOL003": (
        PROMPT,
        lines({"prompt": "a", "tools": [TOOL]}),
        lines({"prompt": "a", "tools": [{"description": "adds"}]}),
    ),
    "TOOL004": (
        TEMPLATE,
        lines({"prompt": "a", "tools": [TOOL]}),
        lines({"prompt": "a", "tools": [TOOL]}),
    ),
    "MEDIA001": (
        MEDIA,
        lines({"prompt": "<image> a", "images": ["1.png"]}, {"prompt": "hi", "images": None}),
        lines(
            {"prompt": "<image> a", "images": ["1.png", "2.png"]},
            {"prompt": "<Image>", "images": ["1"]},
        ),
    ),
    "MEDIA002": (
        MEDIA,
        lines({"prompt": "hi yo", "images": None}),
        lines({"prompt": "<image> What is this?", "images": None}),
    ),
    "MEDIA003": (
        [*MEDIA, "--check-media"],
        lines(
            {"prompt": "<image>", "images": ["data.jsonl"]},
            {"prompt": "<image>", "images": ["https://a/b"]},
        ),
        lines({"prompt": "<image>", "images": ["moved/1.png"]}),
    ),
    "LEN001": (LIMIT, lines({"prompt": "a b c"}), lines({"prompt": "a b"}, {"prompt": "a b c d"})),
    "LEN002": (LIMIT, lines({"prompt": "a b"}), lines({"prompt": "a b c d"})),
    "LEN003": (
        [*PROMPT, "--rollout-max-prompt-len", "4"],
        lines(*({"prompt": p} for p in ([USER], "a", [USER], "b", [USER]))),
        lines(*({"prompt": p} for p in ("a", [USER], "b"))),
    ),
    "LEN004": (
        [*PROMPT, "--rollout-max-prompt-len", "4"],
        lines({"prompt": "a"}),
        lines({"prompt": [USER]}),
    ),
    "DUP001": (
        PROMPT,
        lines({"prompt": "a"}, {"prompt": "A"}),
        lines({"prompt": "a"}, {"prompt": "b"}, {"prompt": "a"}),
    ),
    "DUP002": (
        PROMPT,
        lines({"prompt": "a b"}, {"prompt": "a c"}),
        lines({"prompt": "a b"}, {"prompt": "A  B"}),
    ),
    "DUP003": (
        LABEL,
        lines({"prompt": "a", "label": "1"}, {"prompt": "a", "label": "1"}),
        lines({"prompt": "a", "label": "1"}, {"prompt": "A", "label": "2"}),
    ),
    "PORT001": (
        PROMPT,
        lines({"prompt": "a"}),
        lines({"prompt": "a", "tools": None}, {"prompt": "b", "tools": ""}),
    ),
    "PORT002": (
        PROMPT,
        lines({"prompt": "a", "metadata": {"d": 1}}),
        lines({"prompt": "a", "metadata": '{"d": 1}'}),
    ),
    "PORT003": (PROMPT, lines({"prompt": "a"}), '\ufeff{"prompt": "a"}\n'),
    "PORT004": (
        ["--input-key", "row.prompt"],
        lines({"row.prompt": "a"}),
        lines({"row": {"prompt": "a"}}),
    ),
    "PORT007": (MEDIA, lines({"prompt": "a"}), lines({"prompt": "a", "images": None})),
    "PORT008": (
        [*MEDIA, "--rollout-max-prompt-len", "9"],
        lines({"prompt": "<image>", "images": ["1"]}),
        lines({"prompt": "a"}, {"prompt": "<image>", "images": ["1"]}),
    ),
}


def sample(index: int, group: int = 0, **fields: Any) -> dict[str, Any]:
    """A completed sample with a response of two tokens."""
    return {
        "group_index": group,
        "index": index,
        "prompt": "a",
        "label": "4",
        "reward": float(index % 2),
        "status": "completed",
        "response": "b c",
        "response_length": 2,
        "tokens": [1, 2, 3],
        "loss_mask": [1, 1],
        "rollout_log_probs": [-0.5, -0.5],
        **fields,
    }


def group(*samples: Any, index: int | None = 0) -> dict[str, Any]:
    """A line of a buffer file."""
    return {"group_index": index, "origin": "dump", "samples": list(samples)}


GOOD = [group(sample(0), sample(1))]
TWO = ["--n-samples-per-prompt", "2"]


def pair(**fields: Any) -> list[Any]:
    """One group whose second sample has other fields."""
    return [group(sample(0), sample(1, **fields))]


NAN = {"__rolloutds__": "float", "value": "nan"}
GROUPS: dict[str, tuple[list[str], Content, Content]] = {
    "GROUP001": (["--kind", "groups"], GOOD, [*GOOD, {"group_index": 1, "samples": "none"}]),
    "GROUP002": (
        TWO,
        [group([sample(0), sample(1)], [sample(2)])],
        [
            group(sample(0), sample(1), sample(2)),
            group(sample(3, 1), index=1),
        ],
    ),
    "GROUP003": (
        ["--n-samples-per-prompt", "1"],
        [group(sample(0)), group(sample(1, 1), index=1)],
        [group(sample(0)), group(sample(1, 1), index=1), group(sample(2))],
    ),
    "GROUP004": (
        [],
        [group(sample(0)), group(sample(1, 1), index=1)],
        [group(sample(0)), group(sample(1, 2), index=2)],
    ),
    "GROUP005": (
        [],
        [group(sample(0)), group(sample(1, 1), index=1)],
        [group(sample(0)), group(sample(0, 1, prompt="b"), index=1)],
    ),
    "GROUP006": ([], GOOD, pair(prompt="other")),
    "GROUP007": ([], GOOD, pair(label="5")),
    "GROUP008": ([], pair(reward=None, status="aborted"), pair(reward=None)),
    "GROUP009": ([], GOOD, pair(reward=NAN)),
    "GROUP010": (
        ["--reward-key", "acc"],
        [group(sample(0, reward={"acc": 1}), sample(1, reward={"acc": 0}))],
        [group(sample(0, reward={"acc": 1}), sample(1, reward={"score": 0}))],
    ),
    "GROUP011": ([], GOOD, pair(reward={"acc": 1})),
    "GROUP012": ([], GOOD, pair(loss_mask=[1])),
    "GROUP013": ([], GOOD, pair(rollout_log_probs=[-0.5])),
    "GROUP014": ([], GOOD, pair(tokens=[1])),
    "GROUP015": (
        [],
        pair(rollout_top_p_token_offsets=[0, 1, 2]),
        pair(rollout_top_p_token_offsets=[0, 1]),
    ),
    "GROUP016": ([], GOOD, pair(status="paused")),
    "GROUP017": ([], GOOD, pair(reward=0.0)),
    "GROUP018": ([], GOOD, pair(status="aborted")),
    "GROUP019": (
        [],
        GOOD,
        pair(response="", response_length=0, tokens=[1], loss_mask=[], rollout_log_probs=[]),
    ),
    "GROUP020": ([], pair(weight_versions=["3", "3"]), pair(weight_versions=["3", "4"])),
    "GROUP021": ([], GOOD, pair(foo=1)),
}


def write(folder: Path, name: str, content: Content) -> None:
    """Writes one file of an example."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(content, list):
        content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")
    (folder / name).write_bytes(content)


def write_args(folder: Path, *args: str) -> None:
    """Writes the arguments, one a line."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "args").write_text("".join(f"{arg}\n" for arg in args), "utf-8")


def write_plain() -> None:
    """The examples of one JSON Lines file."""
    for code, (args, good, bad) in {**ROWS, **GROUPS}.items():
        for side, content in (("pass", good), ("fail", bad)):
            folder = CHECKS / code / side
            write(folder, "data.jsonl", content)
            write_args(folder, "data.jsonl", *args)
            if args is ALTERNATING:
                write(folder, "alternating.jinja", STRICT)


def write_others() -> None:
    """The examples that need more than that."""
    for side, sizes in (("pass", [1] * 4), ("fail", [1, 300_000])):
        folder = CHECKS / "ROW009" / side
        write_args(folder, "data.jsonl", *PROMPT)
        write(folder, "data.jsonl", [{"prompt": "x" * size} for size in sizes])
    for side, content in (("pass", None), ("fail", b"PAR1 cut short")):
        folder = CHECKS / "ROW013" / side
        write_args(folder, "data.parquet", *PROMPT)
        write_parquet(folder, [{"prompt": "a"}]) if content is None else write(
            folder, "data.parquet", content
        )
    write(CHECKS / "TOOL004" / "fail", "deaf.jinja", DEAF)
    write_args(
        CHECKS / "TOOL004" / "fail", "data.jsonl", *TEMPLATE, "--chat-template", "deaf.jinja"
    )
    for side, text in (("pass", "another question"), ("fail", QUESTION.upper())):
        for code, more in (("EVAL001", ""), ("EVAL002", " then")):
            folder = CHECKS / code / side
            write(folder, "data.jsonl", [{"prompt": text + more}])
            write(folder, "eval.jsonl", [{"prompt": QUESTION}])
            write_args(folder, "data.jsonl", *PROMPT, "--against", "eval.jsonl")
    write_tools_in_parquet()
    write_port()
    write_checkpoints()
    for side, name in (("pass", "dump_3.pt"), ("fail", "dump.pt")):
        folder = CHECKS / "GROUP022" / side
        write_torch(folder / name, {"rollout_id": 3, "samples": [sample(0), sample(1)]})
        write_args(folder, name)


def write_tools_in_parquet() -> None:
    """Tools as structs that Arrow fills in, and as text."""
    tools = [
        [{"type": "function", "function": {"name": name, "parameters": {name: "text"}}}]
        for name in ("add", "search")
    ]
    for side in ("pass", "fail"):
        folder = CHECKS / "TOOL005" / side
        values = [json.dumps(tool) if side == "pass" else tool for tool in tools]
        write_parquet(folder, [{"prompt": "a", "tools": value} for value in values])
        write_args(folder, "data.parquet", *PROMPT)


def write_port() -> None:
    """Folders, and slices from the end."""
    for side in ("pass", "fail"):
        folder = CHECKS / "PORT005" / side
        write(folder / "data", "rows.jsonl", [{"prompt": "a"}])
        write_args(folder, "data/rows.jsonl" if side == "pass" else "data", *PROMPT)
        folder = CHECKS / "PORT006" / side
        write(folder, "data.jsonl", [{"prompt": "a"}, {"prompt": "b"}])
        write_args(folder, f"data.jsonl@[{'0:1' if side == 'pass' else '-1:'}]", *PROMPT)


def write_parquet(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Writes rows as Parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), folder / "data.parquet")


def write_torch(path: Path, value: Any) -> None:
    """Writes a `.pt` file."""
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path)


def state(epoch: int = 0, offset: int = 2, groups: int | None = 2, **more: Any) -> dict[str, Any]:
    """A cursor of slime."""
    value = {
        "sample_offset": offset,
        "epoch_id": epoch,
        "sample_group_index": groups,
        "sample_index": (groups or 0) * 2,
        "metadata": {},
    } | more
    return {key: item for key, item in value.items() if item is not None}


def own_state() -> dict[str, Any]:
    """What the data source saves after two groups of `abcd`, one of them put back."""
    from rolloutds import RolloutDataSourceWithBuffer

    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), "data.jsonl", ABCD)
        args = argparse.Namespace(
            prompt_data=str(Path(folder, "data.jsonl")),
            input_key="prompt",
            rollout_global_dataset=True,
            n_samples_per_prompt=2,
        )
        source = RolloutDataSourceWithBuffer(args)
        source.add_samples(source.get_samples(2)[:1])
        return dict(source.state_dict())


ABCD = [{"prompt": letter} for letter in "abcd"]


def ours(**changes: Any) -> dict[str, Any]:
    """That state, with other values of keys of its own part or of the cursor."""
    value = own_state()
    for key, item in changes.items():
        (value if key in value else value["rolloutds"])[key] = item
    return value


def with_fingerprint(**changes: Any) -> dict[str, Any]:
    """That state, saved with other settings."""
    value = ours(**({"n_samples_per_prompt": 7} if "n_samples_per_prompt" in changes else {}))
    value["rolloutds"]["fingerprint"].update(changes)
    return value


def waiting(**changes: Any) -> dict[str, Any]:
    """The group in the buffer, changed."""
    return {**own_state()["rolloutds"]["buffer"][0], **changes}


def loader(samples: int) -> dict[str, Any]:
    """The state of a data loader that has served two samples."""
    sampler = {
        "samples_yielded": samples,
        "sampler_state": None,
        "sampler_iter_state": {"yielded": 2},
    }
    return {
        "_index_sampler_state": None,
        "_sampler_iter_state": sampler,
        "_sampler_iter_yielded": 2,
        "_num_yielded": 2,
        "_IterableDataset_len_called": None,
        "_shared_seed": None,
        "fetcher_state": None,
        "dataset_state": None,
        "_iterator_finished": False,
    }


def write_checkpoints() -> None:
    """Saved states; those of ours are made by the data source itself."""
    one = sample(0)
    cases: dict[str, tuple[Any, Any]] = {
        "CKPT001": (state(), b"PK\x03\x04 cut short"),
        "CKPT002": (state(), state(metadata=None)),
        "CKPT003": (state(), state(groups=None, sample_index=4)),
        "CKPT004": (state(), state(offset=-1)),
        "CKPT005": (ours(), ours(format_version=99)),
        "CKPT010": (ours(), with_fingerprint(content_digest="0" * 64)),
        "CKPT011": (ours(), with_fingerprint(n_samples_per_prompt=7)),
        "CKPT012": (ours(), state()),
        "CKPT013": (state(), state(epoch=1, offset=1, groups=21)),
        "CKPT020": (state(), state(offset=9, groups=9)),
        "CKPT021": (ours(), ours(sample_group_index=3, sample_index=6)),
        "CKPT022": (state(), state(sample_index=5)),
        "CKPT023": (ours(), ours(buffer=[[one]])),
        "CKPT024": (ours(), ours(buffer=[waiting(row_position=9)])),
        "CKPT025": (ours(), ours(buffer=[waiting(), waiting()])),
        "CKPT026": (ours(), ours(buffer=[waiting(group_index=9, first_index=18)])),
        "CKPT030": (ours(), ours(moved={"by": "hand"})),
    }
    for code, sides in cases.items():
        for side, value in zip(("pass", "fail"), sides, strict=True):
            folder = CHECKS / code / side
            write(folder, "data.jsonl", ABCD)
            write_state(folder, 3, value)
            write_args(folder, "run", "data.jsonl", *PROMPT, *TWO)
    for side, samples in (("pass", 2), ("fail", 3)):
        folder = CHECKS / "CKPT040" / side
        write_torch(folder / "run" / "global_step_2" / "data.pt", loader(samples))
        write_args(folder, "run")
    for side, offsets in (("pass", (1, 2, 3, 4)), ("fail", (1, 2, 3, 9))):
        for number, offset in enumerate(offsets):
            write_state(CHECKS / "CKPT050" / side, number, state(offset=offset, groups=offset))
        write_args(CHECKS / "CKPT050" / side, "run")
    for side, numbers in (("pass", (0, 1, 2)), ("fail", (0, 1, 2, 4))):
        for number in numbers:
            value = state(offset=number + 1, groups=number + 1)
            write_state(CHECKS / "CKPT051" / side, number, value)
        write_args(CHECKS / "CKPT051" / side, "run")


def write_state(folder: Path, rollout_id: int, value: Any) -> None:
    """Writes a cursor file of slime's name."""
    path = folder / "run" / "rollout" / f"global_dataset_state_dict_{rollout_id}.pt"
    if isinstance(value, bytes):
        write(path.parent, path.name, value)
    else:
        write_torch(path, value)


def main() -> None:
    """Writes all examples anew."""
    shutil.rmtree(CHECKS, ignore_errors=True)
    write_plain()
    write_others()


if __name__ == "__main__":
    main()
