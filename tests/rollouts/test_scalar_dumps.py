"""A dump full of NumPy scalars looks like one of the plain values they equal."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rolloutds import torch_file
from rolloutds.check_api import check_groups
from rolloutds.errors import GroupError
from rolloutds.filters import highest_reward_first
from rolloutds.replay import ReplaySettings, replay
from rolloutds.reward_numbers import as_number, reward_number, weight_versions
from rolloutds.rollouts import open_groups
from rolloutds.rollouts.convert import convert
from rolloutds.rollouts.group_facts import COLUMNS
from rolloutds.rollouts.stats import iter_facts, stats_of
from rolloutds.rollouts.where import parse_where
from rolloutds.sample import Sample

Make = Callable[[str, Any], Any]
_REWARDS = (1.0, 0.0, 1.0, float("nan"))


def live(code: str, value: Any) -> Any:
    kinds = {"U": np.str_, "S": np.bytes_}
    return kinds[code](value) if code in kinds else np.dtype(code).type(value)


def plain(code: str, value: Any) -> Any:
    return live(code, value).item()


def sample(group: int, i: int, make: Make) -> dict[str, Any]:
    return {
        "group_index": make("i8", group),
        "index": make("i4", 4 * group + i),
        "prompt": make("U", f"p{group}"),
        "tokens": [make("i4", token) for token in (1, 2, 3 + i)],
        "response": make("U", "abc"),
        "response_length": make("u2", 2),
        "label": make("i8", 7),
        "reward": make("f4", _REWARDS[i] if group else 1.0),
        "loss_mask": [make("i1", 1), make("?", 1)],
        "rollout_log_probs": [make("f2", -0.5), make("f8", -0.25)],
        "weight_versions": [make("i8", 3 + i)],
        "status": make("U", "completed"),
        "remove_sample": make("?", i == 0),
        "metadata": {
            make("U", "source"): make("U", "x"),
            make("i8", 5): make("S", b"ab"),
            "ok": make("?", 1),
            "score": {"a": make("f4", 0.1)},
            "big": [make("u8", 2**64 - 1)],
        },
        "spec_info": {"spec_accept_token_num": make("i8", 2)},
    }


@pytest.fixture
def dumps(write_torch) -> tuple[str, str]:
    """A dump of scalars, and one of the plain values."""
    paths = []
    for name, make in (("numpy", live), ("plain", plain)):
        samples = [sample(group, i, make) for group in range(3) for i in range(4)]
        value = {"rollout_id": make("i8", 3), "samples": samples, "metadata": make("f4", 0.1)}
        paths.append(write_torch(value, f"{name}/3.pt"))
    return paths[0], paths[1]


def test_both_have_the_same_figures(dumps):
    rows = []
    for path in dumps:
        facts = list(iter_facts(open_groups(path), None))
        holds = parse_where("reward_mean > 0.5 and rollout_id == 3 and num_removed == 1", COLUMNS)
        columns = [entry.columns(6) | {"file": ""} for entry in facts]
        stats = stats_of(open_groups(path), by="metadata.ok")
        total = stats.total
        bins = [numbers.histogram() for numbers in (total.plain_rewards, total.lengths)]
        rows.append((repr(columns), [holds(row) for row in columns], list(stats.parts), repr(bins)))
        assert total.num_all(1.0) == 1
    assert rows[0] == rows[1]
    assert rows[0][1:3] == ([True, False, False], ["True"])


def test_both_have_the_same_findings(dumps):
    found = [
        [(it.code, it.message.replace(path, ""), it.group, it.sample) for it in check_groups(path)]
        for path in dumps
    ]
    assert found[0] == found[1]
    assert found[0]


def test_a_filter_sees_numbers(dumps):
    orders = []
    for path in dumps:
        groups = [group.members for group in open_groups(path)]
        args = argparse.Namespace(reward_key=None)
        played = replay(
            highest_reward_first, groups, args=args, settings=ReplaySettings(num_samples=2)
        )
        orders.append([[taken.number for taken in call.returned] for call in played.rounds])
        assert not played.findings
    assert orders[0] == orders[1] == [[0, 1], [2]]


def test_lines_for_reading_and_parquet_have_the_plain_values(dumps, tmp_path):
    import pyarrow.parquet as pq

    for ending in (".ndjson", ".parquet"):
        outputs = [str(tmp_path / f"{i}{ending}") for i in range(2)]
        for path, output in zip(dumps, outputs, strict=True):
            convert(open_groups(path), output)
        if ending == ".ndjson":
            assert Path(outputs[0]).read_bytes() == Path(outputs[1]).read_bytes()
        else:
            one, other = (pq.read_table(output) for output in outputs)
            assert repr(one.to_pylist()) == repr(other.to_pylist())
            assert one.schema == other.schema


def test_times_are_described_where_there_is_no_plain_value(write_torch, tmp_path):
    at = np.datetime64("1970-01-03", "D")
    path = write_torch({"rollout_id": 0, "samples": [{"prompt": "a", "label": at}] * 2})
    convert(open_groups(path, n_samples_per_prompt=2), str(tmp_path / "a.ndjson"))
    assert '"label":"<scalar datetime64[D] 2>"' in (tmp_path / "a.ndjson").read_text()
    (group,) = open_groups(path, n_samples_per_prompt=2)
    assert as_number(group.samples[0].label) is None
    with pytest.raises(GroupError, match="the reward is <scalar datetime64"):
        reward_number(Sample(reward=group.samples[0].label), None)


def test_lines_of_one_sample_are_grouped_by_tagged_numbers(dumps, tmp_path, comparable):
    convert(open_groups(dumps[0]), str(tmp_path / "a.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    samples = [sample for line in lines for sample in line["samples"]]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(one) + "\n" for one in samples[::-1]))
    groups = list(open_groups(str(tmp_path / "b.jsonl")))
    assert [group.group_index for group in groups] == [2, 1, 0]
    assert [len(group.samples) for group in groups] == [4, 4, 4]


def test_scalars_are_numbers_for_rewards_and_versions(dumps):
    group = list(open_groups(dumps[0]))[1]
    assert [reward_number(one, None) for one in group.samples] == [1.0, 0.0, 1.0, None]
    assert type(reward_number(group.samples[0], None)) is float
    assert weight_versions(group.samples[1]) == [4]


def test_looking_at_scalars_loads_no_numpy(dumps):
    for arguments in (["buffer", "show", dumps[0]], ["buffer", "stats", dumps[0]]):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "rolloutds", *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
        loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
        assert "rolloutds.torch_file.scalars" in loaded
        assert not {"numpy", "torch"} & loaded


def test_a_state_still_reads_as_plain_values(dumps):
    value = torch_file.read(dumps[0])
    assert type(value["rollout_id"]) is int
    assert type(value["samples"][0]["reward"]) is float
