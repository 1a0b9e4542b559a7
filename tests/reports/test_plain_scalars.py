from __future__ import annotations

from rolloutds.reports.plain_scalars import PlainScalars
from rolloutds.torch_file import ArrayType
from rolloutds.torch_file.scalars import scalar_of

TRUE = scalar_of(ArrayType("b1", 1), b"\1")
FIVE = scalar_of(ArrayType("i1", 1), b"\5")


def test_scalars_become_plain_values_wherever_they_are():
    found = PlainScalars().turn({"a": [TRUE, (FIVE, None)], TRUE: {FIVE: "text"}})
    assert repr(found) == "{'a': [True, (5, None)], True: {5: 'text'}}"
    assert [type(key) for key in found] == [str, bool]
    assert type(found["a"][1][0]) is int


def test_what_holds_no_scalar_is_not_copied():
    value = {"tokens": [1, 2], "metadata": {"a": None}}
    assert PlainScalars().turn(value) is value
