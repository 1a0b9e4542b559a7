"""Output in Parquet: one sample a row, the fields most asked for as columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from rolloutds.rollouts.atomic_output import whole_file
from rolloutds.rollouts.base import ReadGroup
from rolloutds.rollouts.parquet_rows import RowsWriter
from rolloutds.rollouts.plain_walk import PlainWalk, Way
from rolloutds.rollouts.tagged_values import Tagger, json_line
from rolloutds.rollouts.writer import GroupWriter
from rolloutds.sample import Sample
from rolloutds.torch_file import PlainScalar, ScalarValue

_ROW_GROUP: Final = 1024
_ROW_GROUP_TOKENS: Final = 1 << 20


class _Column(NamedTuple):
    """Arrow's type, and whether a value fits it."""

    kind: str
    fits: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _is_exact_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) <= 1 << 53)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and (value.isascii() or _encodes(value))


def _encodes(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _are_whole(value: Any) -> bool:
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        return False
    return not value or (_is_whole(min(value)) and _is_whole(max(value)))


def _are_numbers(value: Any) -> bool:
    is_float = isinstance(value, list) and set(map(type, value)) <= {float}
    return is_float or (isinstance(value, list) and all(map(_is_exact_number, value)))


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


COLUMNS: Final[dict[str, _Column]] = {
    "group_index": _Column("int64", _is_whole),
    "index": _Column("int64", _is_whole),
    "rollout_id": _Column("int64", _is_whole),
    "row_id": _Column("int64", _is_whole),
    "status": _Column("string", _is_text),
    "prompt": _Column("string", _is_text),
    "label": _Column("string", _is_text),
    "response": _Column("string", _is_text),
    "response_length": _Column("int64", _is_whole),
    "reward": _Column("double", _is_exact_number),
    "tokens": _Column("list<int64>", _are_whole),
    "loss_mask": _Column("list<int64>", _are_whole),
    "rollout_log_probs": _Column("list<double>", _are_numbers),
    "weight_versions": _Column("list<string>", _are_texts),
    "remove_sample": _Column("bool", lambda value: type(value) is bool),
}
"""Fields with a column of their own. What does not fit it is in the column ``other``."""


class ParquetOutput(GroupWriter):
    """One sample a row; ``metadata`` and ``other`` are JSON text, tagged as in a buffer file."""

    ending = ".parquet"
    describes = "Parquet, one sample a row; what has no column is JSON in `metadata` and `other`"

    @staticmethod
    def make_walk(*, drop_foreign: bool) -> PlainWalk:
        """Tags, for the JSON in it."""
        return _CellTagger(drop_foreign=drop_foreign)

    def write(self, groups: Iterable[ReadGroup], path: str) -> None:
        """A row a sample."""
        types = {"dump_rollout_id": "int64", **{n: c.kind for n, c in COLUMNS.items()}}
        types |= {"metadata": "string", "other": "string"}
        with whole_file(path) as handle, RowsWriter(handle, types) as writer:
            batch: list[dict[str, Any]] = []
            num_tokens = 0
            for group in groups:
                rows = self._rows(group)
                batch += rows
                num_tokens += sum(len(row.get("tokens", ())) for row in rows)
                if len(batch) >= _ROW_GROUP or num_tokens >= _ROW_GROUP_TOKENS:
                    writer.write(batch)
                    batch.clear()
                    num_tokens = 0
                del group
            if batch:
                writer.write(batch)

    def _rows(self, group: ReadGroup) -> list[dict[str, Any]]:
        return [
            self._row(sample, group, f"{group.place}, sample {i}")
            for i, sample in enumerate(group.samples)
        ]

    def _row(self, sample: Sample, group: ReadGroup, where: str) -> dict[str, Any]:
        turned = self.fields(sample, where)
        said = group.rollout_id
        row: dict[str, Any] = {"dump_rollout_id": None if said is None else int(said)}
        for name, column in COLUMNS.items():
            # A column of numbers holds NaN as it is.
            is_number = column.kind in _NUMBERS
            value = _plain(sample.__dict__.get(name)) if is_number else turned.get(name)
            if name in turned and value is not None and column.fits(value):
                row[name] = value
                del turned[name]
        if group.group_index is None:
            row["group_index"] = int(group.number)
        row["metadata"] = json_line(turned.pop("metadata", {}))
        other = {n: v for n, v in turned.items() if v != _DEFAULTS.get(n, _NO_DEFAULT)}
        row["other"] = json_line(other) if other else None
        return row


class _CellTagger(Tagger):
    """Tags, but NumPy scalars are the numbers and text they equal: queries look for those."""

    def scalar(self, value: ScalarValue, way: Way) -> Any:
        """The plain value; a tag where there is none."""
        plain = _plain(value)
        return self.turn(plain, way) if type(plain) in _PLAIN else super().scalar(value, way)


def _plain(value: Any) -> Any:
    """A scalar as what it equals, also in a list."""
    if isinstance(value, list):
        has_scalars = any(isinstance(item, PlainScalar) for item in value)
        return [_plain(item) for item in value] if has_scalars else value
    return value.tolist() if isinstance(value, PlainScalar) else value


_PLAIN: Final = (bool, int, float, str, bytes)
_NUMBERS: Final = ("double", "list<double>")
_NO_DEFAULT: Final = object()
_DEFAULTS: Final[dict[str, Any]] = json.loads(json.dumps(Sample().to_dict()))
