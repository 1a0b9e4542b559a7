"""Samples in `.pt` files that were pickled as objects: their attributes, as a dict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rolloutds.torch_file import ForeignClass, ForeignObject


def plain_sample(value: Any) -> Any:
    """The dict form of a sample; anything that is none is returned as it is.

    An object of a class called ``Sample`` is read by its attributes: whoever saves a buffer's
    groups as they are in memory has such objects in the file.
    """
    if not isinstance(value, ForeignObject) or not value.class_name.endswith("Sample"):
        return value
    fields = dict(value.fields)
    fields["status"] = _status(fields.get("status", "pending"))
    for name in ("spec_info", "prefix_cache_info"):
        counters = fields.get(name)
        if isinstance(counters, ForeignObject):
            fields[name] = counters.fields
    return fields


def _status(value: Any) -> Any:
    """The text an enum member was made from, or its name in small letters."""
    if isinstance(value, ForeignObject) and value.args and isinstance(value.args[-1], str):
        return value.args[-1]
    if isinstance(value, ForeignClass):  # pickled by name, as Python 3.11 does
        return value.class_name.rpartition(".")[2].lower()
    return value


def plain_group(value: Any) -> Any:
    """A list of samples, flat or nested, with each in its dict form."""
    if isinstance(value, list | tuple):
        return [plain_group(member) for member in value]
    return plain_sample(value)


def is_sample(value: Any) -> bool:
    """Whether it may be a sample of a `.pt` file."""
    value = plain_sample(value)
    return isinstance(value, Mapping) and bool({"prompt", "response", "tokens"} & value.keys())
