"""Values that come back: plain ones, tensors, arrays, times, and stand-ins for the rest."""

from __future__ import annotations

import collections
import copy
import datetime
import decimal
import enum
import json
import math
import pickle
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolloutds.errors import TorchFileError
from rolloutds.torch_file import (
    ArrayValue,
    ForeignObject,
    TensorValue,
    read,
    require_torch,
    to_live,
    write,
)

_KEYS = st.text() | st.integers() | st.none() | st.tuples(st.integers(), st.text())
_ATOMS = (
    st.none() | st.booleans() | st.integers() | st.text() | st.binary()
    | st.floats(allow_nan=False) | st.complex_numbers(allow_nan=False)
    | st.builds(bytearray, st.binary()) | st.sets(st.integers()) | st.frozensets(st.text())
    | st.dates() | st.datetimes() | st.times() | st.timedeltas()
    | st.datetimes(timezones=st.just(datetime.UTC))
)  # fmt: skip
_VALUES = st.recursive(
    _ATOMS,
    lambda inner: st.lists(inner) | st.dictionaries(_KEYS, inner) | st.tuples(inner, inner),
    max_leaves=30,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80)
@given(value=_VALUES, protocol=st.integers(0, 5))
def test_plain_pickles_come_back(make_archive, without_trial, value, protocol: int):
    pickled = pickle.dumps(value, protocol)
    found = read(make_archive(pickled))

    assert found == pickle.loads(pickled)
    assert repr(found) == repr(pickle.loads(pickled))


def test_floats_that_are_no_numbers_come_back(make_archive):
    found = read(make_archive(pickle.dumps([math.nan, math.inf, -math.inf, -0.0], 2)))

    assert math.isnan(found[0])
    assert found[1:3] == [math.inf, -math.inf]
    assert math.copysign(1, found[3]) == -1


def test_kinds_of_dicts_come_back_as_dicts(make_archive):
    ordered = collections.OrderedDict(b=1, a=[2])
    ordered.extra = 5
    default = collections.defaultdict(list, a=[1])
    value = [ordered, default, collections.Counter("aab"), collections.OrderedDict()]

    found = read(make_archive(pickle.dumps(value, 2)))

    assert found == [{"b": 1, "a": [2]}, {"a": [1]}, {"a": 2, "b": 1}, {}]
    assert list(found[0]) == ["b", "a"]
    assert all(isinstance(part, dict) for part in found)
    assert copy.deepcopy(found) == found
    assert type(to_live(found)[0]) is dict


# --- other classes ---------------------------------------------------------------------------


@dataclass
class Progress:
    step: int = 0
    total_tokens: int = 0


@dataclass(slots=True)
class Slotted:
    name: str


class Color(enum.Enum):
    RED = "red"


class Stack(list):
    """A list of a class of its own."""


class Table(dict):
    """A dict of a class of its own."""


@pytest.mark.parametrize("protocol", range(2, 6))
def test_other_classes_show_their_name_and_fields(make_archive, protocol: int):
    value = [Progress(3, 400), Slotted("x"), Color.RED, Stack([1, 2]), Table(a=1)]
    value += [decimal.Decimal("1.5"), range(3), datetime.timezone.utc]  # noqa: UP017
    found = read(make_archive(pickle.dumps(value, protocol)))

    progress, slotted, color, stack, table, number, steps, zone = found
    assert progress.class_name == f"{__name__}.Progress"
    assert progress.fields == {"step": 3, "total_tokens": 400}
    assert repr(progress) == f"<{__name__}.Progress step, total_tokens>"
    assert slotted.class_name.endswith(".Slotted")
    assert color.args == ("red",)
    assert stack.items == [1, 2]
    assert table.pairs == [("a", 1)]
    assert (number.class_name, number.args) == ("decimal.Decimal", ("1.5",))
    assert steps.args == (0, 3, 1)
    assert zone is datetime.UTC


def test_old_protocols_show_them_too(make_archive):
    for protocol in (0, 1):
        found = read(make_archive(pickle.dumps(Progress(3, 4), protocol)))
        assert found.class_name == f"{__name__}.Progress"
        assert found.fields == {"step": 3, "total_tokens": 4}


def test_stand_ins_can_be_copied_and_pickled(make_archive):
    found = read(make_archive(pickle.dumps(Progress(3, 4), 2)))

    for again in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert isinstance(again, ForeignObject)
        assert again.fields == found.fields


# --- torch -----------------------------------------------------------------------------------

DTYPES = [
    "float64", "float32", "float16", "bfloat16", "complex64", "complex128", "int64", "int32",
    "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool", "complex32",
    "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_every_element_type_comes_back(tmp_path: Path, dtype: str):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([0, 1, 2, 3, 1, 0]).to(getattr(torch, dtype)).reshape(2, 3)
    path = tmp_path / "a.pt"
    torch.save({"a": tensor}, path)

    found = read(path)["a"]

    assert isinstance(found, TensorValue)
    assert (found.dtype, found.shape, found.device) == (dtype, (2, 3), "cpu")
    live = found.to_torch()
    assert live.dtype == tensor.dtype
    assert live.view(torch.uint8).tolist() == tensor.view(torch.uint8).tolist()
    if not dtype.startswith("float8"):
        assert found.tolist() == tensor.tolist()


def test_views_empty_and_single_tensors_come_back(tmp_path: Path):
    torch = pytest.importorskip("torch")
    base = torch.arange(24.0).reshape(4, 6)
    tensors = [
        base.t(), base[1:3, ::2], base[2], base.expand(2, 4, 6), torch.tensor(3.5),
        torch.zeros(0), torch.zeros(2, 0, 3), base.to(torch.bfloat16).t(), base[:, 0],
    ]  # fmt: skip
    path = tmp_path / "a.pt"
    torch.save(tensors, path)

    found = read(path)

    assert [value.tolist() for value in found] == [tensor.tolist() for tensor in tensors]
    live = to_live(found)
    assert all(torch.equal(new, old) for new, old in zip(live, tensors, strict=True))
    assert [new.stride() for new in live] == [old.stride() for old in tensors]
    live[0][0, 0] = 99.0
    assert live[8][0] == 99.0  # they shared their bytes, and still do
    copied = pickle.loads(pickle.dumps(found))
    assert [value.tolist() for value in copied] == [tensor.tolist() for tensor in tensors]


def test_parameters_gradients_and_marks_come_back(tmp_path: Path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    complex_tensor = torch.tensor([1 + 2j]).conj()
    torch.save(
        [
            torch.nn.Parameter(torch.ones(2)),
            torch.nn.Parameter(torch.ones(2), requires_grad=False),
            torch.ones(1, requires_grad=True),
            complex_tensor,
        ],
        path,
    )

    first, second, third, fourth = to_live(read(path))

    assert isinstance(first, torch.nn.Parameter)
    assert first.requires_grad
    assert isinstance(second, torch.nn.Parameter)
    assert not second.requires_grad
    assert third.requires_grad
    assert fourth.is_conj()
    assert fourth.tolist() == complex_tensor.tolist()


def test_a_module_state_and_other_things_of_torch_come_back(tmp_path: Path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    state = torch.nn.Linear(2, 3).state_dict()
    torch.save([state, torch.Size([1, 2]), torch.float32, torch.device("cpu")], path)

    found = read(path)

    assert list(found[0]) == ["weight", "bias"]
    assert torch.equal(found[0]["weight"].to_torch(), state["weight"])
    assert found[1] == (1, 2)
    assert repr(found[2]) == "<torch.float32>"
    assert found[3].args == ("cpu",)
    torch.save(torch.zeros(2).to_sparse(), path)
    assert read(path).class_name == "torch._utils._rebuild_sparse_tensor"


def test_big_endian_bytes_are_turned(make_archive, text):
    storage = b"(" + text("storage") + b"ctorch\nLongStorage\n" + text("0") + text("cpu")
    pickled = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x02tQK\x00K\x02\x85"
    data = (7).to_bytes(8, "big") + (9).to_bytes(8, "big")
    path = make_archive(pickled + b"K\x01\x85\x89}tR.", {"0": data}, byte_order="big")

    assert read(path).tolist() == [7, 9]
    torch = pytest.importorskip("torch")
    assert torch.equal(read(path).to_torch(), torch.tensor([7, 9]))


# --- NumPy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(2, 6))
def test_arrays_come_back(make_archive, protocol: int):
    np = pytest.importorskip("numpy")
    record = np.array([(1, 2.5, "x")], dtype=[("a", "i4"), ("b", ">f8"), ("c", "U3")])
    arrays = [
        np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(3.5), np.zeros((0, 4)), np.array(["ab", "日本"]), np.array([b"a", b"bcd"]),
        np.array([True, False]), np.arange(3, dtype=">i2"), np.array([1 + 2j]),
        np.array([1.5], dtype=np.float16), np.array([None, "x", [1]], dtype=object), record,
        np.array(["2020-01-01"], dtype="M8[D]"),
    ]  # fmt: skip

    found = read(make_archive(pickle.dumps(arrays, protocol)))

    assert all(isinstance(value, ArrayValue) for value in found)
    assert [value.tolist() for value in found[:-2]] == [array.tolist() for array in arrays[:-2]]
    live = to_live(found)
    for new, old in zip(live[:-1], arrays[:-1], strict=True):
        assert new.dtype == old.dtype
        assert new.shape == old.shape
        assert new.tolist() == old.tolist()


TIMES = ["M8[ns]", "M8[D]", "m8[25us]", ">M8[s]", "m8", [("at", "M8[ms]"), ("n", "i4")]]


@pytest.mark.parametrize("protocol", [2, 5])
@pytest.mark.parametrize("code", TIMES, ids=str)
def test_times_keep_their_unit(make_archive, code, protocol: int):
    np = pytest.importorskip("numpy")
    array = np.arange(24, dtype="i8").view("i4" if isinstance(code, list) else "i8")
    array = array[:48].view("V12").view(code) if isinstance(code, list) else array.view(code)

    found = read(make_archive(pickle.dumps(array, protocol)))

    for again in (found, copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        live = again.to_numpy()
        assert live.dtype == array.dtype
        assert live.tobytes() == array.tobytes()


def test_times_are_shown_with_their_unit(make_archive):
    np = pytest.importorskip("numpy")
    value = [np.zeros(2, "M8[ns]"), np.zeros(3, "m8[25us]"), np.zeros(1, "m8"), np.zeros(1)]

    found = read(make_archive(pickle.dumps(value, 2)))

    assert [repr(array) for array in found] == [
        "<array datetime64[ns] [2]>", "<array timedelta64[25us] [3]>",
        "<array timedelta64 [1]>", "<array f8 [1]>",
    ]  # fmt: skip
    assert [array.dtype.unit for array in found] == ["ns", "25us", None, None]


@pytest.mark.parametrize("unit", [b"ns]", b"XX", b"", b"\xff\xff"])
def test_units_that_are_none_are_refused(make_archive, unit: bytes):
    np = pytest.importorskip("numpy")
    pickled = pickle.dumps(np.zeros(2, "M8[ns]"), 3)
    assert pickled.count(b"C\x02ns") == 1
    changed = pickled.replace(b"C\x02ns", b"C" + bytes([len(unit)]) + unit)

    with pytest.raises(TorchFileError, match="not a NumPy type of times"):
        read(make_archive(changed))


def test_times_in_a_dump_go_through_a_buffer_file(tmp_path: Path):
    np = pytest.importorskip("numpy")
    pytest.importorskip("torch")
    from rolloutds.rollouts.tagged_values import Tagger, json_line, untagged
    from rolloutds.torch_file.dump_writer import write_dump

    value = {"at": np.array(["2026-01-01", "NaT"], "M8[ns]"), "took": np.array([5], ">m8[25us]")}
    write_dump(tmp_path / "a.pt", value)
    line = json_line(Tagger().turn_fields(read(tmp_path / "a.pt"), "here"))
    write_dump(tmp_path / "b.pt", untagged(json.loads(line), "here"))

    again = to_live(read(tmp_path / "b.pt"))
    for name, array in value.items():
        assert again[name].dtype == array.dtype
        assert again[name].tobytes() == array.tobytes()


def test_scalars_come_back_as_the_numbers_they_equal(make_archive):
    np = pytest.importorskip("numpy")
    scalars = [
        np.float64(0.1), np.float32(0.1), np.float16(0.5), np.int64(-5), np.uint8(200),
        np.bool_(True), np.str_("日本"), np.bytes_(b"ab"), np.complex64(1 + 2j), np.str_(""),
    ]  # fmt: skip

    found = read(make_archive(pickle.dumps(scalars, 2)))

    assert found == [scalar.item() for scalar in scalars]
    assert [type(value) for value in found] == [type(scalar.item()) for scalar in scalars]


# --- real files ------------------------------------------------------------------------------


def test_real_dumps_equal_a_full_load(shared_data: Path):
    torch = pytest.importorskip("torch")
    paths = sorted((shared_data / "rollouts").glob("*.pt"))
    assert paths
    for path in paths:
        assert read(path) == torch.load(path, weights_only=False)


def test_reading_loads_nothing_heavy(tmp_path: Path, repository: Path):
    pytest.importorskip("torch")
    path = tmp_path / "a.pt"
    write(path, {"a": 1})
    code = (
        "import sys; from rolloutds.torch_file import read; assert read(sys.argv[1]) == {'a': 1};"
        "print(sorted({'torch', 'numpy', 'PIL', 'zipfile', 'pyarrow'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True, text=True, check=True, cwd=repository, timeout=60,
    )  # fmt: skip
    assert ran.stdout == "[]\n"


def test_many_threads_read_at_once(make_archive):
    path = make_archive(pickle.dumps({"a": list(range(1000))}, 2))
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(read(path))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [{"a": list(range(1000))}] * 6


def test_both_kinds_of_trial_read_alike(make_archive, each_child: str):
    assert read(make_archive(pickle.dumps({"a": (1, "x")}, 2))) == {"a": (1, "x")}


def test_torch_is_looked_for_without_loading_it():
    pytest.importorskip("torch")
    require_torch(needed_for="a test")
