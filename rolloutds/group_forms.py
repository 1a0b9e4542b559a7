"""Groups as plain data and back.

A group is a list of samples; compact rollouts nest one level more, a list of samples for each
rollout. The dict form of a sample here leaves out what has its default: most of the fields, most
of the time.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from enum import Enum
from typing import Any

from rolloutds.sample import Sample, SampleGroup
from rolloutds.state_copy import ATOMS, StateCopier

GroupForm = list[Any]
"""A group as plain data: a dict for each sample, nested as the group is."""

_BLANK: dict[str, Any] = dict(Sample().__dict__)
_EMPTY = {name: type(value) for name, value in _BLANK.items() if type(value) in (list, dict)}
_blank = _BLANK.get
_COUNTERS = ("spec_info", "prefix_cache_info")
_NUMBERS = ("group_index", "index", "row_id")


def leaves(group: Any) -> Iterator[Any]:
    """The samples of a group, those of compact rollouts one by one."""
    for member in group:
        if isinstance(member, list):
            yield from member
        else:
            yield member


def first_sample(group: Any) -> Any:
    """The first sample of a group, None of an empty one."""
    return next(leaves(group), None)


def is_group(value: Any) -> bool:
    """Whether a value is a non-empty list of samples, or of non-empty lists of samples."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(_is_sample(m) or _is_rollout(m) for m in value)
    )


def _is_rollout(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_sample, value))


def _is_sample(value: Any) -> bool:
    # Any class with a dict form will do: a run may bring the reference's own samples.
    return isinstance(value, Sample) or callable(getattr(value, "to_dict", None))


def form_of(group: Any, copier: StateCopier) -> GroupForm:
    """The group as plain data that shares nothing editable with it."""
    return [
        [_sample_form(sample, copier) for sample in member]
        if isinstance(member, list)
        else _sample_form(member, copier)
        for member in group
    ]


def _sample_form(sample: Any, copier: StateCopier) -> dict[str, Any]:
    form: dict[str, Any] = {}
    # to_dict has plain values where the sample has a status and counters.
    fields = sample.to_dict() if not isinstance(sample, Sample) else sample.__dict__.copy()
    for name, value in fields.items():
        if value is _blank(name, form):
            continue
        if type(value) in ATOMS:
            form[name] = value
        elif name in _NUMBERS:
            form[name] = _plain_number(value, copier)
        elif name == "status" and isinstance(value, Enum):
            form[name] = value.value
        elif name in _COUNTERS and isinstance(value, Sample.SpecInfo | Sample.PrefixCacheInfo):
            if not _same(value.__dict__, _BLANK[name].__dict__):
                form[name] = copier.copy(value.to_dict())
        elif type(value) is not _EMPTY.get(name) or value:
            form[name] = copier.copy(value)
    return form


def _plain_number(value: Any, copier: StateCopier) -> Any:
    try:
        return operator.index(value)  # a NumPy integer, or a tensor of one
    except TypeError:
        return copier.copy(value)


def group_of(form: GroupForm) -> SampleGroup:
    """The group again; it takes the values of `form` over."""
    return [
        [Sample.from_dict(sample) for sample in member]  # type: ignore[misc]  # a compact group
        if isinstance(member, list)
        else Sample.from_dict(member)
        for member in form
    ]


def is_numbered_copy(form: GroupForm, sample: dict[str, Any], group_index: int, first: int) -> bool:
    """Whether a group is nothing but copies of one sample, its own numbers aside.

    Args:
        form: the group.
        sample: form of the sample, with its numbers 0.
        group_index: number of the group.
        first: number of its first sample.
    """
    return all(
        _same(member, sample | {"group_index": group_index, "index": first + i})
        for i, member in enumerate(form)
    )


def _same(one: Any, other: Any) -> bool:
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is dict:
        return list(one) == list(other) and all(map(_same, one.values(), other.values()))
    if kind is list or kind is tuple:
        return len(one) == len(other) and all(map(_same, one, other))
    if kind is float:
        return repr(one) == repr(other)
    return kind in ATOMS and bool(one == other)
