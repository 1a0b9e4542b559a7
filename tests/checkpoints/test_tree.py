from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rolloutds.checkpoints.tree import Tree, TreeLimits
from rolloutds.torch_file import ForeignObject

ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=30,
)


def bomb(levels: int):
    value: list = ["x"]
    for _ in range(levels):
        value = [value] * 10
    return value


@given(VALUES)
def test_every_value_is_shown(value):
    assert list(Tree().lines(value))
    json.dumps(Tree().plain(value))
    assert list(Tree().flat(value))
    assert len(Tree().brief(value)) <= TreeLimits().max_characters + 40


def test_shared_parts_are_shown_once():
    part = {"a": "b"}
    lines = list(Tree().lines({"one": part, "two": part}))
    assert lines == [
        "object of 2",
        "  one: object of 1",
        '    a: "b"',
        "  two: object of 1, the same as one",
    ]


def test_circles_end():
    circle: list = ["x"]
    circle.append(circle)
    assert list(Tree().lines(circle))[-1] == "  [1]: list of 2, the same as the value itself"
    assert Tree().plain(circle) == ["x", "<the same as the value itself>"]


def test_a_small_value_that_is_huge_when_written_out_stays_small():
    text = "\n".join(Tree().lines(bomb(40)))
    assert len(text) < 100_000
    assert len(json.dumps(Tree().plain(bomb(40)))) < 100_000
    assert len(list(Tree().flat(bomb(40)))) < 10_000


def test_depth_items_and_texts_are_bounded():
    limits = TreeLimits(max_depth=3, max_items=50, max_listed=4, max_characters=10)
    deep: dict = {}
    for _ in range(100):
        deep = {"a": deep, "b": "y" * 1_000}
    text = "\n".join(Tree(limits).lines({"deep": deep, "many": ["t"] * 1_000}))
    assert "nested deeper than is shown" in text
    assert "… 996 more" in text
    assert '"yyyyyyyyyy…" (1,000 characters)' in text
    assert len(text) < 2_000


def test_integers_that_python_refuses_to_write_are_described():
    huge = 10**6_000
    assert "integer of 19,932 bits" in Tree().leaf(huge)
    assert json.dumps(Tree().plain({"n": huge}))
    assert list(Tree().lines({huge: huge}))


def test_an_object_shows_its_class_and_fields():
    value = ForeignObject("prime_rl.Progress")
    value.state = {"step": 3}
    assert list(Tree().lines({"p": value})) == [
        "object of 1",
        "  p: object of class prime_rl.Progress",
        "    step: 3",
    ]
    assert Tree().plain(value) == {"class": "prime_rl.Progress", "step": 3}
