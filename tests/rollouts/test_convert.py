from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolloutds import torch_file
from rolloutds.errors import ConfigError, DataError, GroupError, MissingExtraError
from rolloutds.rollouts import open_groups
from rolloutds.rollouts.convert import WRITERS, convert
from rolloutds.rollouts.writer import TOKEN_FIELDS
from rolloutds.sample import Sample
from rolloutds.torch_file.dump_reader import read_dump


def converted(source: Any, target: Any, **options):
    return convert(open_groups(str(source), n_samples_per_prompt=2), str(target), **options)


def dicts(path: Any) -> list[dict[str, Any]]:
    return [Sample.to_dict(s) for group in open_groups(str(path)) for s in group.samples]


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- lossless -----------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=5)
    | st.binary(max_size=4)
    | st.datetimes(timezones=st.none() | st.just(datetime.UTC))
    | st.dates()
    | st.timedeltas()
)
numpy_numbers = st.one_of(
    st.floats(width=32).map(np.float32),
    st.floats(width=16).map(np.float16),
    st.floats().map(np.float64),
    st.booleans().map(np.bool_),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.integers(0, 255).map(np.uint8),
)
numpy_scalars = st.one_of(
    numpy_numbers,
    st.complex_numbers(width=64).map(np.complex64),
    st.text(st.characters(exclude_characters="\0"), max_size=4).map(np.str_),
    st.sampled_from([np.bytes_(b""), np.bytes_(b"\xff"), np.void(b"ab")]),
    st.builds(np.datetime64, st.integers(-9, 9), st.sampled_from(["D", "ns", "25us"])),
    st.builds(np.timedelta64, st.integers(-9, 9), st.sampled_from(["W", "ms"])),
)
arrays = st.sampled_from(
    [
        np.array([1.5, float("nan"), -0.0]),
        np.arange(6, dtype=">u2").reshape(2, 3),
        np.array(["a", "bcd"]),
        np.array([True]),
        np.array([None, {"a": 1}, np.float32(0.5)], dtype=object),
    ]
)
shapes = st.sampled_from([("float32", (2, 3)), ("bfloat16", (4,)), ("int64", ()), ("bool", (0, 2))])
keys = (
    st.text(max_size=4)
    | st.integers(-5, 2**40)
    | st.just("__rolloutds__")
    | st.integers(-5, 5).map(np.int16)
    | st.just(np.str_("k"))
)


def tensor_of(kind: tuple[str, tuple[int, ...]]) -> Any:
    import torch

    return torch.ones(kind[1]).to(getattr(torch, kind[0]))


values = st.recursive(
    scalars | numpy_scalars | arrays | shapes.map(tensor_of),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
    ),
    max_leaves=8,
)
samples = st.fixed_dictionaries(
    {
        "prompt": st.text(max_size=5),
        "reward": st.none()
        | st.floats()
        | numpy_numbers
        | st.dictionaries(st.text(max_size=3), st.floats() | numpy_numbers),
        "tokens": st.lists(st.integers(0, 2**31) | st.integers(0, 9).map(np.int32), max_size=5),
        "rollout_log_probs": st.none() | st.lists(st.floats() | numpy_numbers, max_size=5),
        "rollout_routed_experts": st.none() | shapes.map(tensor_of),
        "status": st.sampled_from(["completed", "aborted", "paused"]),
        "metadata": st.dictionaries(keys, values, max_size=3),
    },
    optional={"foo": values},
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(groups=st.lists(st.lists(samples, min_size=1, max_size=2), min_size=1, max_size=2))
def test_nothing_is_lost_between_a_slime_dump_and_a_buffer_file(
    tmp_path, comparable, monkeypatch, groups
):
    torch = pytest.importorskip("torch")
    # No child process for each of a hundred honest files.
    monkeypatch.setattr("rolloutds.torch_file.trial.Trial.__init__", lambda *_: None)
    monkeypatch.setattr("rolloutds.torch_file.trial.Trial.end", lambda _: None)
    monkeypatch.setattr("rolloutds.torch_file.trial.Trial.outcome", lambda _: None)
    flat = [
        one | {"group_index": np.int64(number) if number else number, "index": None}
        for number, group in enumerate(groups)
        for one in group
    ]
    first, second, third, lines, again = (
        tmp_path / name for name in ("1.pt", "2.pt", "3.pt", "1.jsonl", "2.jsonl")
    )
    beside = {"n": float("nan"), "t": np.float32(0.1)}
    torch.save({"rollout_id": np.int32(3), "samples": flat, "metadata": beside}, first)
    for source, target in ((first, lines), (lines, second), (second, again), (first, third)):
        converted(source, target, force=True)
    read = read_dump(first)
    expected = {key: read[key] for key in ("rollout_id", "metadata")} | {"samples": dicts(first)}
    assert comparable(read_dump(second)) == comparable(expected)
    assert comparable(read_dump(third)) == comparable(expected)
    assert again.read_bytes() == lines.read_bytes()


def live(path: Path) -> Any:
    torch = pytest.importorskip("torch")
    load = torch.load
    return load(path, weights_only=False)


def test_scalars_of_numpy_survive_where_they_sit(tmp_path, write_torch):
    sample = {
        "prompt": "a",
        "group_index": np.int64(4),
        "reward": np.float32(0.1),
        "tokens": [np.int32(1), 2],
        "metadata": {"at": np.datetime64("2026-01-02", "ns"), "ok": {np.str_("k"): [np.bool_(1)]}},
        "label": np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", ">f8")])[0],
    }
    path = write_torch({"rollout_id": 0, "samples": [sample]})
    converted(path, tmp_path / "a.jsonl")
    converted(tmp_path / "a.jsonl", tmp_path / "b.pt")
    (found,) = live(tmp_path / "b.pt")["samples"]
    for name, value in sample.items():
        assert repr(found[name]) == repr(value)
    assert found["metadata"]["at"].dtype == np.dtype("M8[ns]")
    assert found["label"].dtype == sample["label"].dtype
    assert read_lines(tmp_path / "a.jsonl")[0]["group_index"] == 4


@pytest.mark.parametrize("value", [np.longdouble(1), np.timedelta64(3)], ids=repr)
@pytest.mark.parametrize("ending", [writer.ending for writer in WRITERS.values()])
def test_a_scalar_that_cannot_be_kept_is_refused_with_its_place(
    tmp_path, write_torch, ending, value
):
    path = write_torch({"rollout_id": 0, "samples": [{"prompt": "a", "label": [value]}] * 2})
    with pytest.raises(DataError, match=r"label\[0\] is of the class"):
        converted(path, tmp_path / f"out{ending}")
    written = converted(path, tmp_path / f"out{ending}", drop_foreign=True)
    assert list(written.dropped.values()) == [2]


@pytest.mark.parametrize("name", ["12.pt", "eval_12.pt"])
def test_the_example_dumps_survive(files, tmp_path, comparable, name):
    pytest.importorskip("torch")
    converted(files / "slime" / name, tmp_path / "a.jsonl")
    converted(tmp_path / "a.jsonl", tmp_path / name)
    assert comparable(dicts(tmp_path / name)) == comparable(dicts(files / "slime" / name))
    before, after = (torch_file.read(path) for path in (files / "slime" / name, tmp_path / name))
    assert {k: v for k, v in after.items() if k != "samples"} == {
        k: v for k, v in before.items() if k != "samples"
    }


def test_real_dumps_survive(shared_data, tmp_path):
    pytest.importorskip("torch")
    for number in range(4):
        source = shared_data / "rollouts" / f"{number}.pt"
        converted(source, tmp_path / "a.jsonl", force=True)
        converted(tmp_path / "a.jsonl", tmp_path / "b.pt", force=True)
        assert torch_file.read(tmp_path / "b.pt") == torch_file.read(source)


def test_slime_loads_the_dump(files, tmp_path):
    torch = pytest.importorskip("torch")
    converted(files / "slime" / "12.pt", tmp_path / "12.pt")
    load = torch.load
    value = load(tmp_path / "12.pt", weights_only=False)
    assert value["rollout_id"] == 12
    sample = value["samples"][1]
    assert isinstance(sample["metadata"]["scores"], np.ndarray)
    assert sample["metadata"]["seen"].year == 2026
    assert value["samples"][2]["status"] == "paused"


def test_a_nested_group_keeps_its_nesting_in_a_buffer_file(files, tmp_path):
    converted(files / "rolloutds" / "nested.jsonl", tmp_path / "a.jsonl")
    (group,) = open_groups(str(tmp_path / "a.jsonl"))
    assert [len(member) for member in group.members] == [2, 1]


def test_a_nested_group_in_a_slime_dump_is_told_apart_by_rollout_id(write_lines, tmp_path):
    pytest.importorskip("torch")
    nested = [[{"prompt": "a"}, {"prompt": "a"}], [{"prompt": "a"}]]
    path = write_lines({"group_index": 0, "samples": nested})
    written = converted(path, tmp_path / "a.pt")
    (group,) = open_groups(str(tmp_path / "a.pt"))
    assert [sample.rollout_id for sample in group.samples] == [0, 0, 1]
    assert group.num_rollouts == 2
    assert "nested groups had no rollout_id" in written.remarks[0]


def test_keys_of_a_group_survive_in_a_buffer_file(write_lines, tmp_path):
    path = write_lines({"group_index": 0, "samples": [{"prompt": "a"}], "note": [1]})
    converted(path, tmp_path / "a.jsonl")
    assert read_lines(tmp_path / "a.jsonl")[0]["note"] == [1]


# --- every format to every format ---------------------------------------------------------


@pytest.mark.parametrize("ending", [writer.ending for writer in WRITERS.values()])
def test_every_format_can_be_converted(files, tmp_path, ending):
    if ending == ".pt":
        pytest.importorskip("torch")
    paths = [path for path in sorted(files.rglob("*")) if path.is_file()]
    for path in paths:
        if ending == ".pt" and path.parent.name == "open-instruct":
            continue  # two steps in a file, which is no dump of one rollout
        written = converted(path, tmp_path / f"out{ending}", force=True)
        assert written.num_samples == sum(len(g.samples) for g in open_groups(str(path)))
        if ending in (".jsonl", ".pt"):
            assert len(dicts(tmp_path / f"out{ending}")) == written.num_samples


def test_lines_for_reading_have_no_tags(files, tmp_path):
    converted(files / "slime" / "12.pt", tmp_path / "a.ndjson")
    text = (tmp_path / "a.ndjson").read_text()
    assert "__rolloutds__" not in text
    rows = read_lines(tmp_path / "a.ndjson")
    assert rows[1]["metadata"]["scores"] == [0.5, "nan"]
    assert rows[1]["metadata"]["seen"] == "2026-03-01T12:30:00+00:00"
    assert rows[0]["rollout_routed_experts"][1] == [[6, 7], [8, 9], [10, 11]]
    assert rows[3]["reward"] == "nan"
    assert [row["group_index"] for row in rows] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("ending", [".jsonl", ".ndjson", ".pt", ".parquet"])
def test_no_tokens(files, tmp_path, ending):
    if ending == ".pt":
        pytest.importorskip("torch")
    target = tmp_path / f"a{ending}"
    converted(files / "slime" / "12.pt", target, drop_tokens=True)
    if ending == ".parquet":
        import pyarrow.parquet as pq

        rows = pq.read_table(target).to_pylist()
    elif ending == ".ndjson":
        rows = read_lines(target)
    else:
        rows = dicts(target)
    assert all(not row.get(name) for row in rows for name in TOKEN_FIELDS)
    assert [row["response_length"] for row in rows] == [1, 1, 1, 1, 1, 3]


def test_parquet(files, tmp_path):
    import pyarrow.parquet as pq

    converted(files / "slime" / "12.pt", tmp_path / "a.parquet")
    rows = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert [row["reward"] for row in rows[:3]] == [1.0, 0.0, 1.0]
    assert rows[0]["dump_rollout_id"] == 12
    assert rows[0]["tokens"] == dicts(files / "slime" / "12.pt")[0]["tokens"]
    assert json.loads(rows[0]["metadata"]) == {"source": "arithmetic", "difficulty": 1}
    assert json.loads(rows[0]["other"])["rollout_routed_experts"]["shape"] == [2, 3, 2]
    assert json.loads(rows[2]["other"]) == {"foo": {"kept": True}}
    assert rows[4]["other"] is None
    assert np.isnan(rows[3]["reward"])


def test_parquet_keeps_what_fits_no_column(write_lines, tmp_path):
    import pyarrow.parquet as pq

    sample = {
        "prompt": [{"role": "user", "content": "a"}],
        "reward": {"a": 1.0},
        "label": 2**70,
        "response": "\ud800",
        "rollout_log_probs": [0.5, float("nan")],
    }
    converted(write_lines({"group_index": 0, "samples": [sample]}), tmp_path / "a.parquet")
    (row,) = pq.read_table(tmp_path / "a.parquet").to_pylist()
    kept = json.loads(row["other"])
    assert {name: kept[name] for name in ("prompt", "reward", "label", "response")} == {
        name: sample[name] for name in ("prompt", "reward", "label", "response")
    }
    assert np.isnan(row["rollout_log_probs"][1])


# --- refusals -----------------------------------------------------------------------------


class Picture:
    pass


def dump_with_foreign(write_torch, torch_name="made.pt") -> str:
    samples = [
        {"prompt": "a", "group_index": 4, "multimodal_inputs": None},
        {"prompt": "a", "group_index": 4, "multimodal_inputs": {"images": [Picture()]}},
    ]
    return write_torch({"rollout_id": 0, "samples": samples}, torch_name)


@pytest.mark.parametrize("ending", [writer.ending for writer in WRITERS.values()])
def test_a_foreign_value_is_refused_with_its_place(write_torch, tmp_path, ending):
    path = dump_with_foreign(write_torch)
    target = tmp_path / f"out{ending}"
    with pytest.raises(DataError) as caught:
        converted(path, target)
    message = str(caught.value)
    assert message.startswith(f"{path} group 0, sample 1: multimodal_inputs['images'][0] is of")
    assert "Picture" in message
    assert "--drop-foreign" in message
    assert not target.exists()
    assert os.listdir(tmp_path) == ["made.pt"]


@pytest.mark.parametrize("ending", [writer.ending for writer in WRITERS.values()])
def test_a_foreign_value_can_be_dropped_and_is_counted(write_torch, tmp_path, ending):
    written = converted(
        dump_with_foreign(write_torch), tmp_path / f"out{ending}", drop_foreign=True
    )
    assert list(written.dropped.values()) == [1]
    assert next(iter(written.dropped)).endswith("Picture")
    if ending in (".jsonl", ".pt"):
        assert dicts(written.path)[1]["multimodal_inputs"] == {"images": [None]}


def test_an_output_that_exists_is_refused_unless_forced(files, tmp_path):
    target = tmp_path / "a.jsonl"
    target.write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        converted(files / "verl", target)
    assert target.read_text() == "mine"
    converted(files / "verl" / "40.jsonl", target, force=True)
    assert len(read_lines(target)) == 3
    with pytest.raises(DataError, match="a folder"):
        converted(files / "verl" / "40.jsonl", tmp_path, format_name="rolloutds", force=True)


def test_a_file_can_take_its_own_place(files, tmp_path):
    target = tmp_path / "a.jsonl"
    target.write_bytes((files / "rolloutds" / "samples.jsonl").read_bytes())
    converted(target, target, force=True)
    assert [line["group_index"] for line in read_lines(target)] == [0, 1, 2]


def test_a_failure_leaves_nothing_behind_and_the_old_file_as_it_was(write_lines, tmp_path):
    path = write_lines({"samples": [{"prompt": "a"}]}, {"samples": []})
    target = tmp_path / "out.jsonl"
    target.write_text("mine")
    with pytest.raises(GroupError, match="no samples"):
        converted(path, target, force=True)
    assert target.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["made.jsonl", "out.jsonl"]


def test_a_folder_that_is_missing_is_an_error_of_ours(files, tmp_path):
    for ending in (".jsonl", ".parquet"):
        with pytest.raises(DataError, match="cannot be written"):
            converted(files / "verl" / "40.jsonl", tmp_path / "missing" / f"a{ending}")


def test_the_ending_or_the_name_says_the_format(files, tmp_path):
    with pytest.raises(ConfigError, match=r"\.jsonl \(rolloutds\)"):
        converted(files / "verl" / "40.jsonl", tmp_path / "out.csv")
    written = converted(files / "verl" / "40.jsonl", tmp_path / "out.csv", format_name="readable")
    assert written.format_name == "readable"
    with pytest.raises(ConfigError, match="no format 'csv'"):
        converted(files / "verl" / "40.jsonl", tmp_path / "b.csv", format_name="csv")


def test_a_dump_is_of_one_rollout(files, shared_data, tmp_path):
    pytest.importorskip("torch")
    with pytest.raises(DataError, match="rollout 1, and groups before it are of another"):
        converted(shared_data / "rollouts", tmp_path / "a.pt")


def test_a_dump_has_every_group_index_once(write_lines, tmp_path):
    pytest.importorskip("torch")
    line = {"group_index": 3, "samples": [{"prompt": "a"}]}
    with pytest.raises(DataError, match="has group_index 3, as"):
        converted(write_lines(line, line), tmp_path / "a.pt")


def test_groups_without_a_number_get_one_in_a_dump(files, tmp_path):
    pytest.importorskip("torch")
    written = converted(files / "verl" / "40.jsonl", tmp_path / "a.pt")
    assert written.remarks == ["3 groups had no group_index and got one"]
    assert [g.group_index for g in open_groups(str(tmp_path / "a.pt"))] == [0, 1, 2]


def test_a_dump_needs_torch(files, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "rolloutds.rollouts.slime_output.torch_file.require_torch",
        lambda needed_for: (_ for _ in ()).throw(
            MissingExtraError("torch", extra="torch", needed_for=needed_for)
        ),
    )
    with pytest.raises(MissingExtraError, match="needs the package 'torch'"):
        converted(files / "verl" / "40.jsonl", tmp_path / "a.pt")
