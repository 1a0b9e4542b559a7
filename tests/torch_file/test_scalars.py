"""NumPy scalars of a dump: numbers and text that keep their type."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolloutds.errors import TorchFileError, UnsavableValueError
from rolloutds.torch_file import (
    ArrayValue,
    ForeignObject,
    OpaqueScalar,
    PlainScalar,
    ScalarValue,
    read,
    to_live,
    write,
)
from rolloutds.torch_file.arrays import ArrayType
from rolloutds.torch_file.dump_reader import read_dump
from rolloutds.torch_file.dump_writer import write_dump
from rolloutds.torch_file.scalars import scalar_of

_NUMBERS = (
    *("float16", "float32", "float64", "complex64", "complex128", "bool"),
    *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64)),
)
_UNITS = st.sampled_from(["Y", "D", "s", "ms", "us", "ns", "25us"])


@st.composite
def _of_bytes(draw: st.DrawFn, name: str) -> np.generic:
    """Any bit pattern of a type, but signalling NaN: hardware makes quiet ones of them."""
    dtype = np.dtype(name)
    data = draw(st.binary(min_size=dtype.itemsize, max_size=dtype.itemsize))
    if name == "bool":
        data = bytes([data[0] & 1])
    value = np.frombuffer(data, dtype=dtype)[0]
    return dtype.type("nan") if dtype.kind in "fc" and np.isnan(value) else value


def scalars() -> st.SearchStrategy[np.generic]:
    """A scalar of any type that is kept."""
    numbers = st.sampled_from(_NUMBERS).flatmap(_of_bytes)
    texts = st.text(st.characters(exclude_characters="\0"), max_size=5).map(np.str_)
    raw = st.binary(max_size=5).map(lambda data: np.bytes_(data.rstrip(b"\0")))
    counts = st.integers(-(2**63), 2**63 - 1)
    times = st.builds(np.datetime64, counts, _UNITS) | st.builds(np.timedelta64, counts, _UNITS)
    void = st.binary(min_size=1, max_size=6).map(np.void)
    return numbers | texts | raw | times | void


def same(one: np.generic, other: np.generic) -> bool:
    """Whether they are equal to the bit, and of the same type."""
    return (
        type(one) is type(other) and one.dtype == other.dtype and one.tobytes() == other.tobytes()
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(value=scalars(), protocol=st.integers(2, 5))
def test_a_scalar_keeps_type_and_bits(make_archive, without_trial, value, protocol):
    found = read_dump(make_archive(pickle.dumps({"a": [value, value]}, protocol)))["a"][0]

    assert isinstance(found, ScalarValue)
    assert same(found.to_numpy(), value)
    assert same(to_live([found])[0], value)
    assert same(copy.deepcopy(found).to_numpy(), value)
    assert same(pickle.loads(pickle.dumps(found)).to_numpy(), value)


@settings(max_examples=150)
@given(value=scalars())
def test_a_scalar_behaves_as_the_value_it_equals(value):
    found = scalar_of(_type_of(value), value.tobytes()[: value.dtype.itemsize])
    assert found is not None
    if isinstance(found, OpaqueScalar):
        assert not hasattr(found, "tolist")
        return
    assert isinstance(found, PlainScalar)
    plain = value.item()
    assert type(found.tolist()) is type(plain)
    assert repr(found) == repr(found.item()) == repr(plain)
    assert f"{found!s}" == f"{plain!s}"
    assert isinstance(found, int if type(plain) is bool else type(plain))
    assert found == plain or plain != plain
    assert hash(found) == hash(plain) or plain != plain
    assert bool(found) == bool(plain)


def _type_of(value: np.generic) -> ArrayType:
    if value.dtype.kind in "Mm":
        dtype = ArrayType(f"{value.dtype.kind}8", 8)
        dtype.unit = np.datetime_data(value.dtype)[0]
        return dtype
    letter, size = value.dtype.kind, value.dtype.itemsize
    return ArrayType(f"{letter}{size // 4 if letter == 'U' else size}", size)


def test_scalars_calculate_sort_and_print_as_numbers(make_archive):
    values = [np.float32(0.1), np.int64(-5), np.bool_(True), np.uint8(200)]
    small, minus, truth, large = found = read_dump(make_archive(pickle.dumps(values)))

    assert [repr(value) for value in found] == ["0.10000000149011612", "-5", "True", "200"]
    assert [f"{value:>5}" for value in found[1:3]] == ["   -5", format(True, ">5")]
    assert sorted(found) == [minus, small, truth, large]
    assert type(small + 1) is float
    assert sum(found) == pytest.approx(196.1)
    assert json.dumps([small, minus]) == "[0.10000000149011612, -5]"
    assert {large: "x"}[200] == "x"


def test_what_is_no_dump_has_the_plain_values(make_archive):
    value = [np.float32(0.5), np.str_("a")]
    assert [type(item) for item in read(make_archive(pickle.dumps(value)))] == [float, str]


def test_times_and_records_are_shown_by_their_type(make_archive):
    values = [
        np.datetime64("1970-01-03", "D"),
        np.timedelta64("NaT", "ns"),
        np.void(b"xy"),
        np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", ">f8")])[0],
    ]
    found = read_dump(make_archive(pickle.dumps(values)))

    assert list(map(repr, found)) == [
        "<scalar datetime64[D] 2>",
        "<scalar timedelta64[ns] NaT>",
        "<scalar V2>",
        "<scalar V12>",
    ]
    assert all(map(same, (value.to_numpy() for value in found), values))
    again = read_dump(make_archive(pickle.dumps(values)))
    assert found == again
    assert len({*found, *again}) == 4
    assert found[0] != 2


@pytest.mark.parametrize("value", [np.longdouble(1), np.clongdouble(1j)], ids=repr)
def test_longer_floats_stay_foreign(make_archive, value):
    (found,) = read_dump(make_archive(pickle.dumps([value])))
    assert isinstance(found, ForeignObject)
    assert found.class_name.endswith("multiarray.scalar")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(values=st.lists(scalars(), max_size=6), number=st.integers(0, 2**31))
def test_a_dump_is_written_back(tmp_path, values, number):
    torch = pytest.importorskip("torch")
    value = {"a": values, "b": {np.int32(number): np.str_("x"), np.str_("k"): (values,)}}
    first, second = tmp_path / "a.pt", tmp_path / "b.pt"
    torch.save(value, first)
    write_dump(second, read_dump(first))
    load = torch.load
    again = load(second, weights_only=False)

    assert all(map(same, again["a"], values))
    assert len(again["a"]) == len(values)
    assert [type(key) for key in again["b"]] == [np.int32, np.str_]
    assert again["b"] == value["b"] or any(item != item for item in values)


def test_live_scalars_are_written_as_they_are(tmp_path):
    pytest.importorskip("torch")
    write_dump(tmp_path / "a.pt", [np.float16(0.5), np.datetime64(3, "s"), np.str_("x")])
    found = read_dump(tmp_path / "a.pt")
    assert [value.to_numpy().dtype.str for value in found] == ["<f2", "<M8[s]", "<U1"]


@pytest.mark.parametrize("value", [np.longdouble(1), {np.float32(1): 0}], ids=["long", "key"])
def test_what_cannot_be_written_names_its_place(tmp_path, value):
    pytest.importorskip("torch")
    with pytest.raises(UnsavableValueError, match=r"a\[0\] is numpy|the key of type"):
        write_dump(tmp_path / "a.pt", {"a": [value]})


@pytest.mark.parametrize("code", ["q8", "f3", "O8"])
def test_an_array_that_numpy_does_not_take_names_its_place(tmp_path, code):
    pytest.importorskip("torch")
    record = ArrayType("V8", 8)
    record.take_fields({"x": (ArrayType(code, int(code[1:])), 0)})
    value = ArrayValue()
    value.fill((1,), record, bytes(8), is_fortran=False)
    with pytest.raises(UnsavableValueError, match=r"a\[0\] is <array V8 \[1\]>, which NumPy"):
        write_dump(tmp_path / "a.pt", {"a": [value]})
    assert not list(tmp_path.iterdir())


def test_reading_scalars_loads_no_numpy(make_archive):
    path = make_archive(pickle.dumps([np.float32(1), np.str_("a"), np.datetime64(1, "s")]))
    program = (
        "import sys; from rolloutds.torch_file.dump_reader import read_dump; "
        f"value = read_dump({str(path)!r}); repr(value); value[0] + 1; "
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# --- files made to harm -------------------------------------------------------------------

_DTYPE = b"cnumpy\ndtype\n(X\x02\x00\x00\x00%sK\x00K\x01tR(K\x03X\x01\x00\x00\x00<NNN%sK\x00tb"
_SCALAR = b"\x80\x02cnumpy.core.multiarray\nscalar\n("


def _made(code: bytes, data: bytes, *, num_bytes: int = -1, after: bytes = b"") -> bytes:
    size = b"J" + num_bytes.to_bytes(4, "little", signed=True)
    dtype = _DTYPE % (code, size + b"J\xff\xff\xff\xff")
    content = b"B" + len(data).to_bytes(4, "little") + data
    return _SCALAR + dtype + content + b"tR" + after + b"."


def test_the_bytes_made_by_hand_are_a_scalar(make_archive):
    found = read_dump(make_archive(_made(b"f4", b"\0\0\xc0\x3f")))
    assert same(found.to_numpy(), np.float32(1.5))


@pytest.mark.parametrize(
    "pickled",
    [
        _made(b"f4", b"\0\0\0"),
        _made(b"f4", b""),
        _made(b"f4", b"\0" * 5),
        _made(b"U1", b"\xff\xff\xff\xff"),
        _made(b"U1", b"a", num_bytes=1),
        _made(b"V4", b"abcd", num_bytes=2**31 - 1),
        _made(b"f4", b"\0\0\0\0", after=b"}X\x01\x00\x00\x00aK\x01sb"),
        _made(b"V4", b"abcd", after=b"}X\x01\x00\x00\x00aK\x01sb"),
        _made(b"U1", b"a\0\0\0", after=b"N}X\x01\x00\x00\x00aK\x01s\x86b"),
    ],
)
def test_a_scalar_that_does_not_fit_is_refused(make_archive, pickled):
    with pytest.raises(TorchFileError, match="cannot be read"):
        read_dump(make_archive(pickled))


@pytest.mark.parametrize("code", [b"O8", b"V0", b"q8", b"f3", b"M9"])
def test_a_scalar_of_an_unknown_type_stays_foreign(make_archive, code):
    found = read_dump(make_archive(_made(code, b"\0" * int(code[1:]))))
    assert isinstance(found, ForeignObject)


def test_a_type_cannot_change_after_a_scalar_took_it(make_archive):
    dtype = _DTYPE.replace(b"tR(", b"tRq\x01(") % (b"V4", b"K\x04J\xff\xff\xff\xff")
    grown = b"h\x01(K\x03X\x01\x00\x00\x00<NNNM\x00\x10J\xff\xff\xff\xffK\x00tb"
    pickled = _SCALAR + dtype + b"B\x04\x00\x00\x00abcdtR" + grown + b"."
    with pytest.raises(TorchFileError, match="changes after its use"):
        read_dump(make_archive(pickled))


@pytest.mark.parametrize(
    "fields",
    [
        {"a": (ArrayType("i4", 4), 1)},
        {"a": (ArrayType("i4", 4), -1)},
        {"a": (ArrayType("i8", 8), 0)},
        {1: (ArrayType("i4", 4), 0)},
        {"a": ("i4", 0)},
        {"a": (ArrayType("i4", 4), "0")},
    ],
)
def test_fields_lie_inside_their_record(fields):
    with pytest.raises(TypeError, match="NumPy record"):
        ArrayType("V4", 4).take_fields(fields)


def test_a_key_that_a_state_cannot_have_is_named_as_numpy_does(make_archive, tmp_path):
    pytest.importorskip("torch", reason="needs the torch extra")
    found = read_dump(make_archive(pickle.dumps({"metadata": {np.int32(5): "a"}}, 2)))
    with pytest.raises(UnsavableValueError, match=r'"metadata".* numpy\.int32'):
        write(tmp_path / "state.pt", {"state": found})
    kept = read_dump(make_archive(pickle.dumps({"score": np.float32(0.5)}, 2)))
    write(tmp_path / "state.pt", kept)
    assert read(tmp_path / "state.pt") == {"score": 0.5}
