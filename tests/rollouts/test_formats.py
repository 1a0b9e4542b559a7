"""How each format's fields become fields of a sample."""

from __future__ import annotations

import datetime
import enum
import math
from pathlib import Path
from typing import Any

import pytest

from rolloutds.errors import DataError, GroupError
from rolloutds.rollouts import open_groups
from rolloutds.sample import Sample
from rolloutds.torch_file import ArrayValue, TensorValue

Status = Sample.Status


def read(path: Path | str, **options):
    return list(open_groups(str(path), **options))


def sizes(groups) -> list[int]:
    return [len(group.samples) for group in groups]


# --- our own ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["buffer", "arrays", "samples"])
def test_our_buffer_file_in_its_three_forms(files, name):
    groups = read(files / "rolloutds" / f"{name}.jsonl")
    assert [group.group_index for group in groups] == [0, 1, 2]
    assert sizes(groups) == [2, 2, 2]
    assert [s.index for g in groups for s in g.samples] == list(range(6))
    assert {g.origin for g in groups} == {"buffer"}


def test_unknown_statuses_and_keys_are_kept_and_reported(files):  # case B6
    for path in (files / "rolloutds" / "buffer.jsonl", files / "slime" / "12.pt"):
        groups = open_groups(str(path))
        samples = [sample for group in groups for sample in group.samples]
        assert samples[2].status == "paused"
        assert samples[2].foo == {"kept": True}
        assert dict(groups.unknown_statuses) == {"paused": 1}
        assert dict(groups.unknown_keys) == {"foo": 1}
        assert [notice.code for notice in groups.notices] == ["unknown_statuses", "unknown_keys"]


def test_a_nested_group_counts_by_rollout(files):  # case B9
    (group,) = read(files / "rolloutds" / "nested.jsonl")
    assert group.is_nested
    assert [len(member) for member in group.members] == [2, 1]
    assert len(group.samples) == 3
    assert group.num_rollouts == 2


@pytest.mark.parametrize(
    ("ids", "size"),
    [([None, None, None], 3), ([0, 0, 1], 2), ([4, None, None, 4], 3), ([0, 0], 1)],
)
def test_a_flat_group_counts_different_rollout_ids(write_lines, ids, size):  # case B9
    samples = [{"prompt": "a", "response": "b", "rollout_id": i} for i in ids]
    (group,) = read(write_lines({"group_index": 0, "samples": samples}))
    assert group.num_rollouts == size
    assert not group.is_nested


def test_samples_without_group_index_come_in_runs(write_lines, write_torch):
    samples = [{"prompt": "a", "response": str(i)} for i in range(5)]
    for path in (write_lines(*samples), write_torch({"rollout_id": 1, "samples": samples})):
        with pytest.raises(GroupError, match="no group_index"):
            read(path)
        groups = read(path, n_samples_per_prompt=2)
        assert [[s.response for s in g.samples] for g in groups] == [["0", "1"], ["2", "3"], ["4"]]
        assert [group.group_index for group in groups] == [None] * 3


def test_the_group_index_of_a_line_is_given_to_its_samples(write_lines):
    (group,) = read(write_lines({"group_index": 5, "samples": [{"prompt": "a"}]}))
    assert group.samples[0].group_index == 5


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ({"group_index": 0, "samples": []}, "no samples"),
        ({"group_index": 0, "samples": [7]}, "sample 0: a int"),
        ({"group_index": "x", "samples": [{}]}, "group_index is 'x'"),
        ({"samples": [{}], "dump": 3}, "dump is 3"),
        ({"samples": [[]]}, "rollout 0: no samples"),
        ({"samples": [{"spec_info": 4}]}, "spec_info is no object"),
        ({"samples": {"a": 1}}, "a dict"),
        ("text", "no group"),
        ({"other": 1}, "no group"),
    ],
)
def test_a_malformed_group_is_named_with_its_line(write_lines, line, found):
    path = write_lines({"group_index": 0, "samples": [{"prompt": "a"}]}, line)
    with pytest.raises(GroupError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}:2")
    assert found in str(caught.value)


def test_values_are_what_python_s_json_gives(tmp_path):
    path = tmp_path / "buffer.jsonl"
    big = 10**300
    path.write_text(
        '{"group_index": 0, "samples": [{"prompt": "\\ud800", "reward": NaN, "label": '
        + str(big)
        + ', "metadata": {"a": 1, "a": 2}}]}\r\n\r\n'
    )
    (group,) = read(path)
    (sample,) = group.samples
    assert sample.prompt == "\ud800"
    assert math.isnan(sample.reward)
    assert sample.label == big
    assert sample.metadata == {"a": 2}


def test_lines_end_where_text_mode_ends_them(tmp_path):
    path = tmp_path / "buffer.jsonl"
    line = b'{"prompt": "\xe2\x80\xa8", "response": "b", "group_index": %d}'
    ends = [b"\r\n", b"\r", b"\n\n", b""]
    path.write_bytes(b"\xef\xbb\xbf" + b"".join(line % i + end for i, end in enumerate(ends)))
    groups = read(path)
    assert [group.place.line for group in groups] == [1, 2, 3, 5]
    assert [group.group_index for group in groups] == [0, 1, 2, 3]


def test_a_malformed_line_is_named_with_its_column(tmp_path):
    path = tmp_path / "buffer.jsonl"
    path.write_text('{"group_index": 0, "samples": [{"prompt": "a"}]}\n{"group_index": 1, "sam')
    with pytest.raises(DataError, match=r"buffer.jsonl:2:\d+: not JSON") as caught:
        read(path)
    assert "cut short" in str(caught.value)


def test_methods_of_a_sample_may_be_shadowed_by_keys(write_lines, tmp_path):
    from rolloutds.rollouts.convert import convert

    path = write_lines({"samples": [{"prompt": "a", "to_dict": 1, "get_reward_value": 2}]})
    out = tmp_path / "out.jsonl"
    convert(open_groups(path), str(out))
    (group,) = read(out)
    assert group.samples[0].__dict__["to_dict"] == 1


# --- slime --------------------------------------------------------------------------------


def test_a_slime_dump(files):
    groups = read(files / "slime" / "12.pt")
    assert [(g.rollout_id, g.is_eval, g.origin) for g in groups] == [(12, False, "dump")] * 3
    first, second = groups[0].samples
    assert isinstance(first.rollout_routed_experts, TensorValue)
    assert isinstance(second.metadata["scores"], ArrayValue)
    assert second.metadata["length"] == 3
    assert second.metadata["seen"] == datetime.datetime(2026, 3, 1, 12, 30, tzinfo=datetime.UTC)
    assert first.status is Status.COMPLETED


def test_an_evaluation_dump_whose_samples_are_mixed(files):
    groups = read(files / "slime" / "eval_12.pt")
    assert all(group.is_eval and group.rollout_id == 12 for group in groups)
    assert [[s.index for s in group.samples] for group in groups] == [[0, 1], [2, 3], [4, 5]]
    assert groups[0].dump_fields["metadata"] == {"n": 2}


def test_the_rollout_id_is_in_the_name_when_not_in_the_file(write_torch):
    path = write_torch({"samples": [{"prompt": "a", "group_index": 0}]}, "31.pt")
    assert [group.rollout_id for group in read(path)] == [31]


def test_groups_are_let_go_of_while_a_dump_is_read(files):
    import weakref

    alive: list[Any] = []
    for group in open_groups(str(files / "slime" / "12.pt")):
        assert [number for number, sample in enumerate(alive) if sample() is not None] == []
        alive += [weakref.ref(sample) for sample in group.samples]
        del group
    assert len(alive) == 6


def test_real_dumps(shared_data):
    groups = open_groups(str(shared_data / "rollouts"))
    assert sum(1 for _ in groups) == 128
    assert [(f.rollout_id, f.num_groups, f.num_samples) for f in groups.files] == [
        (i, 32, 128) for i in range(4)
    ]
    assert groups.notices == []


class State(enum.Enum):
    ABORTED = "aborted"


class Counters:
    def __init__(self):
        self.cached_tokens = 4


class OtherSample:
    """What a project's own class looks like in a pickle."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


def test_groups_of_pickled_samples(write_torch):
    sample = OtherSample(prompt="a", group_index=3, status=State.ABORTED, foo=1)
    sample.prefix_cache_info = Counters()
    (group,) = read(write_torch([[sample]]))
    (found,) = group.samples
    assert (found.prompt, found.group_index, found.status) == ("a", 3, Status.ABORTED)
    assert found.foo == 1
    assert found.prefix_cache_info.cached_tokens == 4
    assert group.group_index == 3


# --- a buffer inside a checkpoint ---------------------------------------------------------


def test_the_buffer_and_groups_in_flight_of_a_checkpoint(files):
    groups = read(files / "checkpoint" / "rollout")
    assert [(g.group_index, g.origin, g.rollout_id) for g in groups] == [
        (0, "buffer", 7),
        (1, "buffer", 7),
        (2, "in_flight", 7),
    ]


def test_groups_that_a_checkpoint_names_by_row_are_counted(files):
    groups = open_groups(str(files / "checkpoint" / "rollout"))
    list(groups)
    (notice,) = groups.notices
    assert notice.code == "untouched_groups"
    assert "1 groups in flight are left out" in notice.text


def test_a_state_that_a_source_saved(tmp_path):
    pytest.importorskip("torch")
    from types import SimpleNamespace

    from rolloutds import RolloutDataSourceWithBuffer

    data = tmp_path / "prompts.jsonl"
    data.write_text('{"input": "a"}\n{"input": "b"}\n{"input": "c"}\n')
    args = SimpleNamespace(
        prompt_data=str(data),
        rollout_global_dataset=True,
        n_samples_per_prompt=2,
        save=str(tmp_path / "ckpt"),
        track_in_flight=True,
    )
    source = RolloutDataSourceWithBuffer(args)
    groups = source.get_samples(3)
    groups[1][0].response = "touched"
    source.add_samples(groups[1:2])
    source.save(4)
    (group,) = read(tmp_path / "ckpt" / "rollout" / "global_dataset_state_dict_4.pt")
    assert (group.group_index, group.origin, group.rollout_id) == (1, "buffer", 4)
    assert [sample.prompt for sample in group.samples] == ["b", "b"]


# --- other systems ------------------------------------------------------------------------


def test_verl(files):
    groups = read(files / "verl" / "40.jsonl")
    assert sizes(groups) == [2, 2, 2]
    assert {group.rollout_id for group in groups} == {40}
    sample = groups[0].samples[0]
    assert (sample.prompt, sample.response, sample.label) == ("What is 2 + 3?", "5", "5")
    assert sample.reward == 1.0
    assert sample.metadata == {"step": 40, "acc": True}


def test_verl_with_uids_that_lie_apart(files):
    groups = read(files / "verl" / "41.jsonl")
    assert [[s.metadata["uid"] for s in group.samples] for group in groups] == [
        [f"prompt-{g}_0_0", f"prompt-{g}_1_0"] for g in range(3)
    ]
    assert [group.place.line for group in groups] == [1, 2, 3]


def test_trl(files):
    groups = read(files / "trl" / "completions_00005.parquet")
    assert sizes(groups) == [2, 2, 2]
    sample = groups[1].samples[1]
    assert sample.reward == {"accuracy_reward": 0.0, "format_reward": 0.5}
    assert sample.prompt == [{"role": "user", "content": "Which is larger, 7/8 or 8/9?"}]
    assert sample.response == "7/8"
    assert sample.metadata["source"] == "arithmetic"
    assert sample.metadata["advantage"] == -0.5
    assert groups[0].rollout_id == 5


def test_prime_rl(files):
    groups = read(files / "prime-rl" / "rollouts" / "step_6" / "train" / "all" / "traces.jsonl")
    assert sizes(groups) == [2, 2, 2]
    assert {(g.rollout_id, g.is_eval) for g in groups} == {(6, False)}
    first, second = groups[0].samples
    assert first.reward == 1.25
    assert (first.label, first.response, first.status) == ("5", "5", Status.COMPLETED)
    assert second.status is Status.TRUNCATED
    assert first.prompt == [{"role": "user", "content": "What is 2 + 3?"}]
    assert first.metadata["rewards"]["short"] == {"score": 1.0, "weight": 0.25}
    assert first.metadata["id"] == "episode-0"


def test_prime_rl_with_two_turns(files):
    groups = read(files / "prime-rl" / "rollouts" / "step_6" / "train" / "all" / "traces.jsonl")
    sample = groups[2].samples[1]
    assert sample.response == "I think 91\n97 then"
    assert sample.loss_mask == [1, 1, 1, 0, 0, 0, 1, 1]
    assert sample.rollout_log_probs == [-0.5] * 3 + [0.0] * 3 + [-0.5] * 2
    assert sample.response_length == 8
    assert len(sample.tokens) == 5 + 8


def test_prime_rl_traces_that_branch_stay_together(files):
    groups = read(files / "prime-rl" / "rollouts" / "step_7" / "eval" / "all" / "traces.jsonl")
    assert groups[0].is_nested
    assert [[s.response for s in member] for member in groups[0].members] == [["5", "five"], ["6"]]
    assert groups[0].num_rollouts == 2
    assert groups[0].is_eval


def test_verifiers(files):
    groups = read(files / "verifiers" / "results.jsonl")
    assert sizes(groups) == [2, 2, 2]
    statuses = [sample.status for group in groups for sample in group.samples]
    assert statuses == [*[Status.COMPLETED] * 3, Status.TRUNCATED, Status.COMPLETED, Status.FAILED]
    sample = groups[0].samples[0]
    assert (sample.label, sample.response, sample.reward) == ("5", "5", 1.0)
    assert sample.metadata["info"] == {"source": "arithmetic"}
    assert sample.metadata["example_id"] == 0


def test_nemo_rl(files):
    groups = read(files / "nemo-rl" / "train_data_step9.jsonl")
    assert sizes(groups) == [2, 2, 2]
    sample = groups[2].samples[1]
    assert len(sample.tokens) == 5 + 3
    assert sample.response_length == len(sample.loss_mask) == len(sample.rollout_log_probs) == 3
    assert (sample.reward, sample.remove_sample) == (0.0, False)
    assert sample.metadata["idx"] == 5
    assert groups[0].rollout_id == 9


def test_roll(files, write_lines):
    groups = read(files / "roll" / "rollout_dump_data.step_4.jsonl")
    assert sizes(groups) == [2, 2, 2]
    sample = groups[0].samples[1]
    assert (sample.prompt, sample.response, sample.reward) == ("What is 2 + 3?", "6", 0.0)
    assert (sample.label, sample.metadata["domain"]) == ("5", "math_rule")
    assert groups[0].rollout_id == 4
    with pytest.raises(DataError, match="scores has 1 elements, and responses 2"):
        read(write_lines({"prompt": ["a", "a"], "responses": ["b", "c"], "scores": [1]}))


def test_open_instruct(files):
    groups = read(files / "open-instruct" / "run_rollouts_000000.jsonl")
    assert sizes(groups) == [2, 2, 2]
    assert [group.rollout_id for group in groups] == [2, 2, 3]
    sample = groups[2].samples[1]
    assert sample.status is Status.TRUNCATED
    assert sample.response_length == len(sample.rollout_log_probs) == 3
    assert (sample.label, sample.prompt) == ("97", "")
    assert sample.metadata["finish_reason"] == "length"


def test_areal(files):
    groups = read(files / "areal" / "rollout" / "*" / "*.jsonl")
    assert sizes(groups) == [2, 2, 2]
    assert {group.rollout_id for group in groups} == {8}
    first, second = groups[0].samples
    assert (first.weight_versions, second.weight_versions) == (["7"], ["7", "8"])
    assert first.response_length == 1


def test_skyrl(files):
    groups = read(files / "skyrl" / "dumped_evals" / "global_step_20_evals" / "arithmetic.jsonl")
    assert sizes(groups) == [2, 2, 2]
    assert {(g.rollout_id, g.is_eval) for g in groups} == {(20, True)}
    first, second = groups[1].samples
    assert (first.reward, first.metadata["score"]) == (1.0, [0.0, 1.0])
    assert second.status == "paused"
    assert first.label == "8/9"


def test_long_lists_are_packed_until_their_group_is_asked_for(write_torch):
    from rolloutds.rollouts.dump_file import TorchFile
    from rolloutds.torch_file.packed_lists import PackedList

    sample = {
        "prompt": "a",
        "group_index": 0,
        "tokens": [70_000] * 2000,
        "metadata": {"a": [1] * 99},
    }
    path = write_torch({"samples": [sample]})
    assert isinstance(TorchFile(path).value["samples"][0]["tokens"], PackedList)
    (group,) = read(path)
    assert group.samples[0].tokens == [70_000] * 2000
    assert group.samples[0].metadata == {"a": [1] * 99}
