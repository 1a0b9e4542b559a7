from __future__ import annotations

import io
import pickle
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolloutds.errors import TorchFileError
from rolloutds.torch_file import ArrayValue, ForeignObject, read
from rolloutds.torch_file.dump_reader import read_dump
from rolloutds.torch_file.packed_lists import PackedList, PackingStream, PackingUnpickler
from rolloutds.torch_file.packed_reader import unpacked

torch = pytest.importorskip("torch")

lengths = st.sampled_from([0, 1, 15, 16, 17, 999, 1000, 1001, 2017])
runs = st.builds(
    lambda numbers, length, end: [numbers[i % len(numbers)] for i in range(length)] + end,
    st.lists(
        st.integers(0, 1) | st.integers(0, 2**17) | st.integers(-(2**31), 2**31 - 1),
        min_size=1,
        max_size=4,
    )
    | st.lists(st.floats(allow_nan=False), min_size=1, max_size=4),
    lengths,
    st.just([]) | st.lists(st.none() | st.booleans() | st.integers() | st.text(), max_size=2),
)
leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
values = st.recursive(
    leaves | runs | st.text("](Kae.qr", min_size=400, max_size=420).map(lambda text: text * 60),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=8,
)


def packed_loads(data: bytes) -> Any:
    return PackingUnpickler(io.BufferedReader(io.BytesIO(data)), None).load()


@given(values, st.integers(0, 5))
def test_what_comes_out_is_what_went_in(value, protocol):
    found = unpacked(packed_loads(pickle.dumps(value, protocol)))
    assert repr(found) == repr(value)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values)
def test_a_file_reads_as_without_packing(tmp_path_factory, without_trial, value):
    path = tmp_path_factory.mktemp("packed") / "a.pt"
    torch.save({"value": value, "tensor": torch.arange(3)}, path)
    found, expected = unpacked(read_dump(path)), read(path)
    assert repr(found["value"]) == repr(expected["value"])
    assert found["tensor"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("protocol", range(2, 6))
def test_long_lists_are_packed(protocol):
    value = {"tokens": [7, 70_000] * 900, "mask": [1] * 40, "log_probs": [-0.5] * 3000, "few": [1]}
    found = packed_loads(pickle.dumps(value, protocol))
    kinds = {name: type(item) for name, item in found.items()}
    assert kinds == {"tokens": PackedList, "mask": PackedList, "log_probs": PackedList, "few": list}
    assert len(found["log_probs"]) == 3000
    assert unpacked(found) == value


def test_what_was_shared_stays_shared():
    numbers = [1] * 50
    inner = {"numbers": numbers}
    found = unpacked(packed_loads(pickle.dumps([inner, inner, numbers], 2)))
    assert found[0] is found[1]
    assert found[0]["numbers"] is found[2]
    assert found[2] == numbers


def test_a_circle_is_no_endless_walk():
    value: list[Any] = [[1] * 50]
    value.append(value)
    found = unpacked(packed_loads(pickle.dumps(value, 2)))
    assert found[0] == [1] * 50


@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 8))
def test_a_damaged_stream_ends_in_an_error_or_a_value(noise, at, cut):
    data = pickle.dumps([[5, 400, 70_000] * 30, "text", {"a": [1.5] * 40}], 2)
    damaged = data[:at] + noise + data[at + cut :]
    stream = PackingStream(io.BufferedReader(io.BytesIO(damaged)))
    assert isinstance(stream.read(), bytes)


def test_a_file_that_names_our_own_builders_runs_nothing(tmp_path):
    # The names are not importable: only the packing reader knows them, as two inert makers.
    forged = b"\x80\x02(crolloutds packed\nrun\n(U\x05uabcdtRcrolloutds packed\nlist\n(K\x01tRl."
    assert [type(value) for value in packed_loads(forged)] == [ForeignObject] * 2
    for call in (b"(dR.", b")\x81."):
        with pytest.raises((TypeError, pickle.UnpicklingError)):
            packed_loads(b"\x80\x02crolloutds packed\nlist\n" + call)
    other = packed_loads(b"\x80\x02crolloutds packed\nanything\n)R.")
    assert isinstance(other, ForeignObject)
    with pytest.raises(TypeError):
        PackedList().__setstate__({"_parts": 1})


def test_a_damaged_file_is_an_error_of_ours(tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"tokens": [1, 400] * 600}, path)
    data = bytearray(path.read_bytes())
    at = data.index(b"tokens")
    data[at + 40 : at + 50] = b"\xff" * 10
    path.write_bytes(data)
    with pytest.raises(TorchFileError):
        read_dump(path)


class Mine:
    def __init__(self) -> None:
        self.numbers = [1] * 40


def test_objects_of_other_classes_are_stand_ins(tmp_path):
    torch.save([Mine()], tmp_path / "a.pt")
    (found,) = read_dump(tmp_path / "a.pt")
    assert isinstance(found, ForeignObject)
    assert unpacked(found.fields["numbers"]) == [1] * 40


def test_lists_in_other_holders_are_packed_and_unpacked(tmp_path):
    import collections

    np = pytest.importorskip("numpy")
    holders = [collections.OrderedDict(a=[1] * 40), np.array([[2] * 40, None], dtype=object)]
    torch.save([*holders, Mine()], tmp_path / "a.pt")
    found = read_dump(tmp_path / "a.pt")
    assert type(found[0]["a"]) is type(found[1].data[0]) is PackedList
    ordered, array, mine = unpacked(found)
    assert ordered == {"a": [1] * 40}
    assert isinstance(array, ArrayValue)
    assert array.data == [[2] * 40, None]
    assert mine.fields == {"numbers": [1] * 40}


def test_fractions_are_the_same_bits(each_child, tmp_path):
    value = [0.1, -0.0, 5e-324, 1.7976931348623157e308, float("inf"), float("nan")] * 10
    torch.save(value, tmp_path / "a.pt")
    packed = read_dump(tmp_path / "a.pt")
    assert isinstance(packed, PackedList)
    pattern = f"{len(value)}d"
    assert struct.pack(pattern, *packed.tolist()) == struct.pack(pattern, *value)


PICKY_CHILD = """
import sys; sys.path.insert(0, sys.argv[1])
from rolloutds.torch_file import trial
def refuse(value, file, budget): raise file.refusal(f"was a {type(value).__name__}")
trial.check_extent = refuse
trial.run_spawned(*sys.argv[2:])
"""


def test_both_kinds_of_trial_pack(each_child, tmp_path, monkeypatch):
    def refuse(value, file, budget):
        raise file.refusal(f"was a {type(value).__name__}")

    torch.save([3] * 1000, tmp_path / "a.pt")
    monkeypatch.setattr("rolloutds.torch_file.trial.check_extent", refuse)
    monkeypatch.setattr("rolloutds.torch_file.trial._CHILD", PICKY_CHILD)
    with pytest.raises(TorchFileError, match="was a PackedList"):
        read_dump(tmp_path / "a.pt")
    with pytest.raises(TorchFileError, match="was a list"):
        read(tmp_path / "a.pt")
