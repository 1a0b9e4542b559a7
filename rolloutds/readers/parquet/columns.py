"""Columns of a Parquet file by the keys of a run, and the leaves each is stored in."""

from __future__ import annotations

from typing import Any, Final

from rolloutds.errors import DataError
from rolloutds.key_guess import INPUT_KEYS
from rolloutds.readers.base import RowKeys
from rolloutds.readers.line_checks import nearest_name

_MAX_COLUMNS_NAMED: Final = 12


def field_at(schema: Any, key: str) -> Any:
    """The field a literal or dotted key leads to, or None."""
    import pyarrow as pa

    if key in schema.names:
        return schema.field(schema.names.index(key))
    head, *rest = key.split(".")
    if not rest or head not in schema.names:
        return None
    field = schema.field(schema.names.index(head))
    for name in rest:
        if not pa.types.is_struct(field.type) or field.type.get_field_index(name) < 0:
            return None
        field = field.type.field(name)
    return field


def needed_columns(schema: Any, keys: RowKeys) -> list[str]:
    """The columns that hold the named keys, in their order; keys the file lacks are left out."""
    names = schema.names
    heads = (key if key in names else key.partition(".")[0] for key in keys.named())
    return [name for name in dict.fromkeys(heads) if name in names]


def refuse_unusable(schema: Any, keys: RowKeys, path: str) -> None:
    """Refuses a file without a column that must be there, or with two of one name.

    Raises:
        DataError: with the columns that are there.
    """
    for key in (keys.input_key, keys.label_key):
        if key is not None and field_at(schema, key) is None:
            raise _no_column(schema, key, path, is_input=key == keys.input_key)
    for name in needed_columns(schema, keys):
        if schema.names.count(name) > 1:
            what = f"{schema.names.count(name)} columns are named {name!r}"
            hint = "Write the file again with a name of its own for each column."
            raise DataError(what, where=path, expected="one", hint=hint)


def _no_column(schema: Any, key: str, path: str, *, is_input: bool) -> DataError:
    near = nearest_name(key, schema.names)
    if near is None and is_input:
        near = next((name for name in INPUT_KEYS if name in schema.names), None)
    columns = ", ".join(repr(name) for name in schema.names[:_MAX_COLUMNS_NAMED])
    if len(schema.names) > _MAX_COLUMNS_NAMED:
        columns += f" and {len(schema.names) - _MAX_COLUMNS_NAMED} more"
    hint = f"Did you mean {near!r}?" if near else "Name one of these columns."
    return DataError(f"no column {key!r}, the file has {columns}", where=path, hint=hint)


def leaves_of(file: Any, column: str) -> range | None:
    """Numbers of the stored leaves of a column; None where they cannot be told.

    Leaves are named by their path, and a column ``a.b`` has the path of a field ``b`` of a
    column ``a``: they are counted instead.
    """
    schema = file.schema_arrow
    counts = [_num_leaves(field.type) for field in schema]
    if sum(counts) != file.metadata.num_columns:
        return None
    at = schema.names.index(column)
    return range(sum(counts[:at]), sum(counts[: at + 1]))


def _num_leaves(kind: Any) -> int:
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return _num_leaves(kind.storage_type)
    if pa.types.is_dictionary(kind) or not kind.num_fields:
        return 1
    return sum(_num_leaves(kind.field(number).type) for number in range(kind.num_fields))
