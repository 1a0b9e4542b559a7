from __future__ import annotations

import io
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rolloutds.errors import TorchFileError
from rolloutds.torch_file import ForeignObject, read
from rolloutds.torch_file.packed_lists import PackedList, PackingStream, builder
from rolloutds.torch_file.packed_reader import read_packed, unpacked

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


class Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return builder(module, name) or super().find_class(module, name)


def packed_loads(data: bytes) -> Any:
    stream = PackingStream(io.BufferedReader(io.BytesIO(data)))
    return Unpickler(io.BufferedReader(stream)).load()


@given(values, st.integers(0, 5))
def test_what_comes_out_is_what_went_in(value, protocol):
    found = unpacked(packed_loads(pickle.dumps(value, protocol)))
    assert repr(found) == repr(value)


@settings(max_examples=20)
@given(values)
def test_a_file_reads_as_without_packing(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("packed") / "a.pt"
    torch.save({"value": value, "tensor": torch.arange(3)}, path)
    found, expected = unpacked(read_packed(path)), read(path)
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
    assert builder("rolloutds packed", "anything") is None
    assert builder("builtins", "list") is None
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
        read_packed(path)


class Mine:
    def __init__(self) -> None:
        self.numbers = [1] * 40


def test_objects_of_other_classes_are_stand_ins(tmp_path):
    torch.save([Mine()], tmp_path / "a.pt")
    (found,) = read_packed(tmp_path / "a.pt")
    assert isinstance(found, ForeignObject)
    assert unpacked(found.fields["numbers"]) == [1] * 40
