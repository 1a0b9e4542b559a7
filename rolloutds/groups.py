"""One prompt to a group of independent samples.

`copy.deepcopy` walks every field of every sample. Here the values that need a copy, and the
cheapest way to copy each, are found once for a prompt; the rest of a sample is one copy of a dict.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable
from typing import Any

from rolloutds.errors import PromptError
from rolloutds.sample import SAMPLE_FIELDS, PrefixCacheInfo, Sample, SampleGroup, SpecInfo

_BLANK_FIELDS: dict[str, Any] = {name: Sample().__dict__[name] for name in SAMPLE_FIELDS}
_CONTAINERS = frozenset({dict, list, tuple})
_new = object.__new__


def copy_plain(value: Any) -> Any:
    """A copy of plain data that shares only what cannot be edited, and media objects.

    Raises:
        PromptError: the value is nested too deeply to be copied.
    """
    try:
        return _copy(value)
    except RecursionError:
        return _copy_deep(value)


def _copy(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {key: _copy(item) for key, item in value.items()}
    if kind is list:
        return [_copy(item) for item in value]
    if kind is tuple:
        return tuple([_copy(item) for item in value])
    return value


def _copy_deep(value: Any) -> Any:
    # The json module reads values nested deeper than Python code can follow; marshal, in C, can.
    try:
        return marshal.loads(marshal.dumps(value))
    except ValueError as error:
        raise PromptError("nested too deeply", expected="fewer than 1,000 levels") from error


def _copier(value: Any) -> Callable[[], Any]:
    """Makes copies of `value`: found once for a prompt, called once for each of its samples."""
    if type(value) is dict and _are_flat(value.values()):
        return value.copy
    if type(value) is list:
        kinds = set(map(type, value))
        if kinds.isdisjoint(_CONTAINERS):
            return value.copy
        if kinds == {dict} and _are_flat([i for item in value for i in item.values()]):
            return lambda: [item.copy() for item in value]
    return lambda: copy_plain(value)


def _are_flat(items: Iterable[Any]) -> bool:
    return _CONTAINERS.isdisjoint(map(type, items))


class SampleTemplate:
    """Makes the samples of one prompt.

    Args:
        fields: values of the fields that differ from a blank sample's. They are taken over, not
            copied: the caller keeps no reference that it edits.

    Attributes:
        fields: these, with metadata.
    """

    __slots__ = ("_copiers", "fields")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields if "metadata" in fields else {**fields, "metadata": {}}
        self._copiers = [
            (name, _copier(value))
            for name, value in self.fields.items()
            if type(value) in _CONTAINERS
        ]

    def make(self, group_index: int | None = None, index: int | None = None) -> Sample:
        """One sample that shares nothing editable with its siblings, except media objects."""
        return self._numbered(group_index, [index])[0]

    def make_group(self, group_index: int, first_index: int, size: int) -> SampleGroup:
        """A group: `size` samples numbered on from `first_index`."""
        return self._numbered(group_index, range(first_index, first_index + size))

    def _numbered(self, group_index: int | None, indices: Iterable[int | None]) -> SampleGroup:
        # A batch makes a thousand samples: one loop without a call for each of them.
        common = _BLANK_FIELDS | self.fields
        common["group_index"] = group_index
        copiers = self._copiers
        group = []
        for index in indices:
            fields = common.copy()
            fields["index"] = index
            fields["tokens"] = []
            fields["weight_versions"] = []
            fields["apply_chat_template_kwargs"] = {}
            fields["spec_info"] = SpecInfo()
            fields["prefix_cache_info"] = PrefixCacheInfo()
            for name, copy in copiers:
                fields[name] = copy()
            sample = _new(Sample)
            sample.__dict__ = fields
            group.append(sample)
        return group
