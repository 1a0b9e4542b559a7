"""Groups: independent samples, equal to a deep copy."""

from __future__ import annotations

import copy
import json

from hypothesis import given
from hypothesis import strategies as st

from rolloutds.groups import SampleTemplate, copy_plain
from rolloutds.sample import Sample

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(plain)
def test_a_copy_is_equal_and_shares_no_container(value: object) -> None:
    copied = copy_plain(value)
    assert copied == value
    assert not container_ids(copied) & container_ids(value)


def container_ids(value: object) -> set[int]:
    if isinstance(value, dict):
        return {id(value)}.union(*(container_ids(item) for item in value.values()))
    if isinstance(value, list):
        return {id(value)}.union(*(container_ids(item) for item in value))
    return set()


def test_values_nested_deeper_than_python_can_follow_are_copied() -> None:
    depth = 900
    value = json.loads("[" * depth + "]" * depth)
    copied = copy_plain(value)
    assert json.dumps(copied) == json.dumps(value)
    assert copied is not value


@given(
    prompt=st.text() | st.lists(st.dictionaries(st.text(), plain, max_size=3), max_size=3),
    label=plain,
    metadata=st.dictionaries(st.text(), plain, max_size=3),
)
def test_a_group_equals_deep_copies(prompt: object, label: object, metadata: object) -> None:
    fields = {"prompt": prompt, "label": label, "metadata": metadata, "row_id": 3}
    expected = [Sample(**copy.deepcopy(fields), group_index=5, index=40 + i) for i in range(3)]
    template = SampleTemplate(fields)
    group = template.make_group(5, 40, 3)
    assert group == expected
    assert not containers(group[0]) & containers(group[1])
    assert not containers(group[0]) & set().union(*(container_ids(v) for v in fields.values()))


def containers(sample: Sample) -> set[int]:
    found = set().union(*(container_ids(value) for value in vars(sample).values()))
    return found | {id(sample.spec_info), id(sample.prefix_cache_info)}


def test_media_objects_are_shared() -> None:
    image = object()
    template = SampleTemplate({"prompt": [{"type": "image", "image": image}]})
    one, two = template.make_group(0, 0, 2)
    for sample in (one, two):
        assert isinstance(sample.prompt, list)
        assert sample.prompt[0]["image"] is image
