"""Whether schema and statistics of a file show that its rows are plain, so none need be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rolloutds.readers.base import RowKeys
from rolloutds.readers.line_checks import RowCheck
from rolloutds.readers.parquet.columns import field_at, leaves_of, needed_columns

_BATCH_ROWS: Final = 1024

_TypeCheck = Callable[[Any], bool]


def is_proven(file: Any, check: RowCheck) -> bool:
    """Whether every row is plain: it has a prompt, and nothing that inspect() must see."""
    keys, schema = check.keys, file.schema_arrow
    if any("." in key and key not in schema.names for key in keys.named()):
        return False
    columns = needed_columns(schema, keys)
    if not all(_always_converts(field_at(schema, name).type) for name in columns):
        return False
    if not _has_no_nulls(file, keys.input_key):
        return False
    return check.inspect is None or _needs_no_look(file, check)


def _needs_no_look(file: Any, check: RowCheck) -> bool:
    keys = check.keys
    expected: list[tuple[str | None, _TypeCheck]] = [
        (keys.input_key, _is_prompt),
        (keys.metadata_key, _is_metadata),
        (keys.tool_key, _is_list_of_structs),
        *((key, _is_null) for key in keys.media_keys),
    ]
    if not all(_has_type(file, key, is_plain) for key, is_plain in expected):
        return False
    columns = needed_columns(file.schema_arrow, RowKeys(keys.input_key, tool_key=keys.tool_key))
    lists = [name for name in columns if _is_list(field_at(file.schema_arrow, name).type)]
    # Without a null in some leaf no list is null or empty, and none holds a null.
    return all(_a_leaf_has_no_nulls(file, name) for name in lists)


def _has_type(file: Any, key: str | None, is_plain: _TypeCheck) -> bool:
    field = None if key is None else field_at(file.schema_arrow, key)
    return field is None or is_plain(field.type)


# --- types ------------------------------------------------------------------------------------


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_list_of_structs(kind: Any) -> bool:
    from pyarrow import types

    return _is_list(kind) and bool(types.is_struct(kind.value_type))


def _is_prompt(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return _is_list_of_structs(kind) or bool(types.is_string(kind) or types.is_large_string(kind))


def _is_metadata(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_struct(kind) or types.is_null(kind))


def _is_null(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_null(kind))


def _always_converts(kind: Any) -> bool:
    """Whether Python has a value for each of a type's; it has none for some times."""
    from pyarrow import types

    if types.is_temporal(kind):
        return False
    if types.is_dictionary(kind):
        return _always_converts(kind.value_type)
    return all(_always_converts(kind.field(number).type) for number in range(kind.num_fields))


# --- nulls ------------------------------------------------------------------------------------


def _has_no_nulls(file: Any, column: str) -> bool:
    """Whether a column has no null: by the statistics of a leaf, else by reading it alone."""
    if not field_at(file.schema_arrow, column).nullable:
        return True
    if _a_leaf_has_no_nulls(file, column):
        return True
    batches = file.iter_batches(_BATCH_ROWS, columns=[column])
    return all(batch.column(column).null_count == 0 for batch in batches)


def _a_leaf_has_no_nulls(file: Any, column: str) -> bool:
    """A leaf without nulls has none above it either."""
    leaves = leaves_of(file, column)
    return leaves is not None and any(_has_none(file.metadata, leaf) for leaf in leaves)


def _has_none(metadata: Any, leaf: int) -> bool:
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(leaf).statistics
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return False
    return True
