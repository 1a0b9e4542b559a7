"""Identity of a dataset as a run sees it: what a saved cursor belongs to.

A cursor is four integers. They mean the same prompts only on the same rows in the same order, so
a saved state carries what makes both, and a resume compares it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Fingerprint = dict[str, Any]
"""Plain values by field name, as `fingerprint_of` puts them together."""

ORDER_FIELDS: dict[str, str] = {
    "content_digest": "content of the prompt data",
    "num_rows_in_files": "rows in the files",
    "slice": "slice",
    "num_rows": "rows after the length filter",
    "rollout_shuffle": "shuffle",
    "rollout_seed": "seed",
    "rollout_max_prompt_len": "length limit",
}
"""Fields that decide which row comes at which position: a difference is refused."""

LENGTH_FIELDS: dict[str, str] = {
    "tokenizer_digest": "tokenizer",
    "template_digest": "chat template",
}
"""Fields that decide the order only while a length limit is set."""

ROW_FIELDS: dict[str, str] = {
    "n_samples_per_prompt": "samples per prompt",
    "keys": "keys",
}
"""Fields that change what a group looks like, not which row it is: a difference is said."""


FIELDS: tuple[str, ...] = (*ORDER_FIELDS, *LENGTH_FIELDS, *ROW_FIELDS)
"""Every field, each in every fingerprint."""


class Difference(NamedTuple):
    """One field in which a saved state and the current run differ."""

    name: str
    saved: Any
    current: Any
    changes_order: bool

    def __str__(self) -> str:
        return f"{self.name}: saved {self.saved!r}, now {self.current!r}"


def compare(saved: Mapping[str, Any] | None, current: Mapping[str, Any] | None) -> list[Difference]:
    """The fields that differ; those that change the order come first.

    A dataset on one side only is one difference. A field that the saved fingerprint lacks is not
    compared.
    """
    if saved is None or current is None:
        return [] if saved is current else [_presence(saved, current)]
    limited = current.get("rollout_max_prompt_len") is not None
    order = ORDER_FIELDS | (LENGTH_FIELDS if limited else {})
    rest = ROW_FIELDS | ({} if limited else LENGTH_FIELDS)
    return [
        Difference(title, saved[name], current.get(name), changes_order)
        for names, changes_order in ((order, True), (rest, False))
        for name, title in names.items()
        if name in saved and saved[name] != current.get(name)
    ]


def _presence(saved: Mapping[str, Any] | None, current: Mapping[str, Any] | None) -> Difference:
    was, now = ("none" if s is None else f"{s.get('num_rows')} rows" for s in (saved, current))
    return Difference("dataset", was, now, changes_order=True)
