"""Copies of groups that a filter may do anything to, and what it did to them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from rolloutds.group_forms import leaves
from rolloutds.sample import Sample
from rolloutds.state_copy import ATOMS, StateCopier


class _NotSet:
    def __repr__(self) -> str:
        return "not set"


NOT_SET = _NotSet()
"""Stands for the value of a field that a sample does not have."""


def copy_group(group: Any) -> Any:
    """A copy that shares nothing editable with the group."""
    copier = StateCopier()
    return [
        [_copy_sample(sample, copier) for sample in member]
        if isinstance(member, list)
        else _copy_sample(member, copier)
        for member in group
    ]


def _copy_sample(sample: Any, copier: StateCopier) -> Any:
    if not isinstance(sample, Sample):
        return copy.deepcopy(sample)  # the reference's own class, or a user's
    copied = type(sample).__new__(type(sample))
    copied.__dict__ = fields = sample.__dict__.copy()
    for name, value in sample.__dict__.items():
        if type(value) not in ATOMS:
            fields[name] = _copy_value(value, copier)
    return copied


def _copy_value(value: Any, copier: StateCopier) -> Any:
    if type(value) is list and not value:
        return []  # half of a sample's fields
    if isinstance(value, Sample.Status):
        return value
    if isinstance(value, Sample.SpecInfo | Sample.PrefixCacheInfo):
        counters = type(value).__new__(type(value))
        counters.__dict__ = value.__dict__.copy()
        return counters
    return copier.copy(value)


class Edit(NamedTuple):
    """A field of a sample that is not what it was; `NOT_SET` where there is none."""

    sample: int
    field: str
    was: Any
    now: Any


def edits(original: Any, group: Any) -> Iterator[Edit]:
    """The fields that differ between a group and the copy that a filter was given.

    Samples are compared position by position; groups of another size are compared as far as
    both go.
    """
    for position, (before, after) in enumerate(zip(leaves(original), leaves(group), strict=False)):
        if not _are_equal(_fields(before), _fields(after)):
            yield from _field_edits(position, _fields(before), _fields(after))


def _field_edits(position: int, before: dict[str, Any], after: dict[str, Any]) -> Iterator[Edit]:
    for name in dict.fromkeys([*before, *after]):
        was, now = before.get(name, NOT_SET), after.get(name, NOT_SET)
        if not _are_equal(was, now):
            yield Edit(position, name, was, now)


def _fields(sample: Any) -> dict[str, Any]:
    return getattr(sample, "__dict__", {})


def _are_equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        if (one == other) is True:  # plain data, at C speed
            return True
    except Exception:  # arrays, and classes of the user's
        pass
    try:
        return type(one) is type(other) and _look_alike(one, other)
    except Exception:  # a class whose values cannot be looked at is no plain copy
        return False


def _look_alike(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_are_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_are_equal, one, other))
    if hasattr(one, "tolist"):
        return bool(one.tolist() == other.tolist())
    if hasattr(one, "__dict__") and not isinstance(one, Sample.Status):
        return _are_equal(vars(one), vars(other))
    return repr(one) == repr(other)  # NaN is not equal to itself
