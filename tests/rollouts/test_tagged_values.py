from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolloutds.errors import DataError
from rolloutds.rollouts.tagged_values import KINDS, TAG, Tagger, json_line, untagged
from rolloutds.torch_file import ArrayType, ArrayValue, ScalarValue, TensorValue

texts = st.text(st.characters(exclude_categories=()), max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | texts
    | st.binary(max_size=6)
    | st.datetimes(timezones=st.none() | st.just(datetime.UTC))
    | st.dates()
    | st.times()
    | st.timedeltas()
)
keys = texts | st.integers(-(2**70), 2**70) | st.just(TAG)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


def there(value):
    return json_line(Tagger().turn(value, ("value",)))


def back(text):
    return untagged(json.loads(text), "here")


@given(values)
def test_values_survive(comparable, value):
    assert comparable(back(there(value))) == comparable(value)


@given(values)
def test_the_line_is_strict_json_on_one_line(value):
    text = there(value)
    text.encode("utf-8")
    assert len(text.splitlines()) == 1
    assert not set(text) & set("\x1b\x85\u2028\u202e\ufeff")

    def refuse(constant):
        raise AssertionError(constant)

    json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    "value",
    [
        {TAG: "tensor"},
        {TAG: {TAG: "float", "value": "nan"}},
        {"a": {TAG: None}},
        {1: {TAG: [float("nan")]}},
    ],
)
def test_a_dict_with_our_own_key_survives(value, comparable):
    assert comparable(back(there(value))) == comparable(value)


def test_the_form_of_the_tags():
    tag = Tagger().turn
    assert tag(float("nan"), ("v",)) == {TAG: "float", "value": "nan"}
    assert tag(float("-inf"), ("v",)) == {TAG: "float", "value": "-inf"}
    assert tag(b"ab", ("v",)) == {TAG: "bytes", "data": "YWI="}
    day = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    assert tag(day, ("v",)) == {TAG: "datetime", "value": "2026-01-02T00:00:00+00:00"}
    assert tag(np.array([1, 2], dtype="<i2"), ("v",)) == {
        TAG: "ndarray",
        "dtype": "<i2",
        "shape": [2],
        "data": "AQACAA==",
    }
    assert tag((1,), ("v",)) == {TAG: "tuple", "items": [1]}
    assert tag(np.float32(1.5), ("v",)) == {
        TAG: "ndarray",
        "dtype": "<f4",
        "shape": [],
        "is_scalar": True,
        "data": "AADAPw==",
    }
    assert set(KINDS) >= {"tensor", "ndarray", "datetime", "bytes", "float"}


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(["a", "bcd"]),
        np.array([b"a", b"bcd"]),
        np.array([True, False]),
        np.array([1 + 2j]),
        np.float16([0.1, np.nan]),
        np.array(3.5),
        np.zeros((0, 4), dtype="u1"),
        np.array([{"a": 1}, None, (1, 2)], dtype=object),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_survive(array):
    found = back(there(array))
    assert isinstance(found, ArrayValue)
    again = found.to_numpy()
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert again.tolist() == array.tolist() or np.isnan(array).any()
    assert again.tobytes() == array.tobytes() or array.dtype.hasobject


LIVE_SCALARS = [
    *(np.dtype(code).type(1) for code in ["f2", "f4", "f8", "c8", "c16", "?"]),
    *(np.dtype(code).type(1) for code in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]),
    *(np.float32("nan"), np.float64("-inf"), np.uint64(2**64 - 1), np.bool_(False)),
    *(np.str_("日\ud800"), np.str_(""), np.bytes_(b"\xff"), np.bytes_(b""), np.void(b"ab")),
    *(np.datetime64("2026-01-02", "ns"), np.array("NaT", "M8[25us]")[()], np.timedelta64(-3, "h")),
]


@pytest.mark.parametrize("value", LIVE_SCALARS, ids=lambda v: f"{v.dtype} {v!s}")
def test_scalars_survive(value):
    found = back(there({"a": [value]}))["a"][0]
    assert isinstance(found, ScalarValue)
    again = found.to_numpy()
    assert (type(again), again.dtype) == (type(value), value.dtype)
    assert again.tobytes() == value.tobytes()
    assert there({"a": [found]}) == there({"a": [value]})


def test_scalars_that_are_keys_survive():
    found = back(there({np.str_("a"): 1, np.int16(3): 2, "b": 3}))
    assert found == {"a": 1, 3: 2, "b": 3}
    kinds = [getattr(key, "dtype", None) for key in found]
    assert [kind and kind.name for kind in kinds] == ["U1", "i2", None]


@pytest.mark.parametrize("key", [np.float32(1), np.bool_(True), np.bytes_(b"a"), 1.5])
def test_other_keys_are_refused(key):
    with pytest.raises(DataError, match="keys that are text or int"):
        there({key: 1})


@pytest.mark.parametrize("key", [np.float32(1), np.bool_(True), np.bytes_(b"a"), 1.5, None, (1, 2)])
def test_other_keys_are_left_out_and_counted_where_that_is_asked_for(key):
    tagger = Tagger(drop_foreign=True)
    turned = tagger.turn_fields({"metadata": {key: 5, "a": {key: 6}, "b": 1}}, "here")
    assert turned == {"metadata": {"a": {}, "b": 1}}
    assert tagger.dropped.total() == 2


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (np.longdouble(1), "numpy.longdouble"),
        (np.array([1], dtype=np.longdouble), "numpy.ndarray"),
        (np.timedelta64(3), "numpy.timedelta64"),
        (np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])[0], "numpy.void"),
    ],
    ids=["longdouble", "longdouble array", "no unit", "record"],
)
def test_what_cannot_be_kept_is_refused(value, name):
    with pytest.raises(DataError, match=rf"value is of the class {name}"):
        there(value)


def test_an_array_that_would_not_be_read_again_is_refused():
    value = ArrayValue()
    value.fill((1,), ArrayType("f16", 16), bytes(16), is_fortran=False)
    with pytest.raises(DataError, match=r"value is of the class numpy.ndarray of f16"):
        there(value)


def tensors():
    torch = pytest.importorskip("torch")
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    return {
        "plain": base,
        "view": base.t()[1:, ::2],
        "expanded": torch.tensor([[1], [2]]).expand(2, 3),
        "bfloat16": base.to(torch.bfloat16),
        "bool": base > 3,
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3, dtype=torch.int64),
        "complex": torch.tensor([1 + 2j, 3j]),
        "float8": torch.tensor([0.5, 2.0]).to(torch.float8_e4m3fn),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }


@pytest.mark.parametrize(
    "name",
    [
        *["plain", "view", "expanded", "bfloat16", "bool", "scalar"],
        "empty",
        "complex",
        "float8",
        "parameter",
    ],
)
@pytest.mark.parametrize("is_live", [True, False], ids=["live", "read"])
def test_tensors_survive(name, is_live, tmp_path):
    torch = pytest.importorskip("torch")
    from rolloutds import torch_file

    tensor = value = tensors()[name]
    if not is_live:
        torch.save(tensor, tmp_path / "t.pt")
        value = torch_file.read(tmp_path / "t.pt")
    found = back(there(value))
    assert isinstance(found, TensorValue)
    again = found.to_torch()
    assert again.dtype == tensor.dtype
    assert again.shape == tensor.shape
    assert again.requires_grad == tensor.requires_grad
    assert type(again) is type(tensor)
    assert again.tolist() == tensor.tolist()


@pytest.mark.parametrize(
    "tagged",
    [
        {TAG: "unheard of"},
        {TAG: 7},
        {TAG: ["float"]},
        {TAG: "float"},
        {TAG: "float", "value": "1e400"},
        {TAG: "bytes", "data": "?"},
        {TAG: "bytes", "data": 5},
        {TAG: "datetime", "value": "yesterday"},
        {TAG: "datetime", "value": 3},
        {TAG: "timedelta", "days": 10**12, "seconds": 0, "microseconds": 0},
        {TAG: "tensor", "dtype": "float32", "shape": [2], "data": "AAAA"},
        {TAG: "tensor", "dtype": "float33", "shape": [0], "data": ""},
        {TAG: "tensor", "dtype": [], "shape": [0], "data": ""},
        {TAG: "tensor", "dtype": "float32", "shape": [-1], "data": ""},
        {TAG: "tensor", "dtype": "float32", "shape": [1 << 70, 0], "data": ""},
        {TAG: "tensor", "dtype": "float32", "shape": 3, "data": ""},
        {TAG: "ndarray", "dtype": "<M8", "shape": [1], "data": "AAAAAAAAAAA="},
        {TAG: "ndarray", "dtype": "<f8", "shape": [2], "data": "AAAA"},
        {TAG: "ndarray", "dtype": "|O8", "shape": [2], "items": [1]},
        {
            TAG: "ndarray",
            "dtype": "record",
            "shape": [1],
            "data": "AA==",
            "fields": 3,
            "num_bytes": 1,
        },
        {TAG: "ndarray", "dtype": "<f4", "shape": [], "data": "AAAA", "is_scalar": True},
        {TAG: "ndarray", "dtype": "<f4", "shape": [1], "data": "AACAPw==", "is_scalar": True},
        {TAG: "ndarray", "dtype": "|O8", "shape": [], "data": "AACAPwAAgD8=", "is_scalar": True},
        {TAG: "ndarray", "dtype": "|V0", "shape": [], "data": "", "is_scalar": True},
        {TAG: "ndarray", "dtype": "<U1", "shape": [], "data": "/////w==", "is_scalar": True},
        {
            TAG: "ndarray",
            "dtype": "record",
            "shape": [],
            "data": "AA==",
            "fields": [["a", {"dtype": "<f8"}, 0]],
            "num_bytes": 1,
            "is_scalar": True,
        },
        {TAG: "tuple", "items": 3},
        {TAG: "dict", "items": [[1]]},
        {TAG: "dict", "items": [[[], 1]]},
        {TAG: "text", "data": "/w=="},
    ],
    ids=str,
)
def test_a_malformed_tag_is_an_error_with_its_place(tagged):
    for value in (tagged, [{"a": tagged}], {TAG: "tuple", "items": [tagged]}):
        with pytest.raises(DataError) as caught:
            untagged(json.loads(json.dumps(value)), "file:3")
        assert str(caught.value).startswith("file:3: ")


def test_what_is_nested_too_deeply_is_an_error():
    value: list[Any] = []
    for _ in range(400):
        value = [value]
    with pytest.raises(DataError, match="nested"):
        there(value)
    with pytest.raises(DataError, match="nested"):
        untagged(value, "file:3")


def test_a_value_that_contains_itself_is_an_error():
    value: list[Any] = []
    value.append(value)
    with pytest.raises(DataError, match="nested"):
        there(value)


def test_a_value_that_is_huge_when_written_out_is_an_error(monkeypatch):
    from rolloutds.rollouts import plain_walk

    monkeypatch.setattr(plain_walk, "_MAX_ITEMS", 1000)
    value: list[Any] = ["x"]
    for _ in range(30):
        value = [value, value]
    with pytest.raises(DataError, match="too large"):
        there(value)


@pytest.mark.parametrize(
    "value",
    [
        {1},
        object(),
        {1.5: 2},
        {None: 1},
        1j,
        np.array(["NaT"], dtype="M8"),
        10**4300,
    ],
    ids=["set", "object", "float key", "None key", "complex", "time without unit", "huge"],
)
def test_other_classes_are_refused_with_the_way_to_them(value):
    with pytest.raises(DataError, match=r"metadata\['a'\]\[1\]"):
        Tagger().turn_fields({"metadata": {"a": [0, value]}}, "file:3, sample 2")


def test_other_classes_can_be_dropped_and_are_counted():
    tagger = Tagger(drop_foreign=True)
    fields = {"metadata": {"a": [0, object()], "b": {1}, "c": 3}, "extra": {2}}
    assert tagger.turn_fields(fields, "here") == {"metadata": {"a": [0, None], "c": 3}}
    assert dict(tagger.dropped) == {"object": 1, "set": 2}


@given(st.lists(st.floats() | st.integers() | st.none() | st.booleans(), max_size=6))
def test_lists_of_numbers_are_seen_through(items):
    from rolloutds.rollouts.plain_walk import PlainWalk

    assert repr(PlainWalk().turn(items, ("v",))) == repr(items)
