"""One prompt to a group of independent samples.

`copy.deepcopy` walks every field of every sample. Here the fields that need a copy are found once
for each prompt; the rest of a sample is one copy of a dict.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any

from rolloutds.errors import PromptError
from rolloutds.sample import SAMPLE_FIELDS, PrefixCacheInfo, Sample, SampleGroup, SpecInfo

_FACTORIES: dict[str, Callable[[], Any]] = {
    "tokens": list,
    "apply_chat_template_kwargs": dict,
    "weight_versions": list,
    "metadata": dict,
    "spec_info": SpecInfo,
    "prefix_cache_info": PrefixCacheInfo,
}
_BLANK_FIELDS: dict[str, Any] = {name: Sample().__dict__[name] for name in SAMPLE_FIELDS}


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


class SampleTemplate:
    """Makes the samples of one prompt.

    Args:
        fields: values of the fields that differ from a blank sample's. They are taken over, not
            copied: the caller keeps no reference that it edits.
    """

    __slots__ = ("_copied", "_fields", "_made")

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = _BLANK_FIELDS | fields
        self._made = [(n, make) for n, make in _FACTORIES.items() if n not in fields]
        self._copied = [(n, v) for n, v in fields.items() if type(v) in (dict, list, tuple)]

    def make(self, group_index: int | None = None, index: int | None = None) -> Sample:
        """One sample that shares nothing editable with its siblings, except media objects."""
        fields = self._fields.copy()
        for name, make in self._made:
            fields[name] = make()
        for name, value in self._copied:
            fields[name] = copy_plain(value)
        fields["group_index"] = group_index
        fields["index"] = index
        sample = Sample.__new__(Sample)
        sample.__dict__ = fields
        return sample

    def make_group(self, group_index: int, first_index: int, size: int) -> SampleGroup:
        """A group: `size` samples numbered on from `first_index`."""
        return [self.make(group_index, first_index + i) for i in range(size)]
