"""Conditions on groups, as ``reward_std == 0 and num_aborted > 0``.

The text is parsed as Python and walked by what stands here: names are columns, and there are no
calls, attributes or indices, so that a condition can do nothing but compare.
"""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from rolloutds.errors import ConfigError

Row = Mapping[str, Any]
Condition = Callable[[Row], Any]

_LONGEST = 2_000
_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_TAKES = "columns, numbers, text, None, comparisons, in, and, or, not, + - * / // %"


def parse_where(text: str, columns: Collection[str], *, where: str = "--where") -> Condition:
    """The condition that a text says.

    A value that is None is equal to None only; every other comparison with it, and every sum, is
    false or None.

    Args:
        text: an expression over columns.
        columns: their names.
        where: what messages call the text's place.

    Returns:
        A function of a row (column to value); it gives whether the row meets the condition.

    Raises:
        ConfigError: the text is no such expression, or names something that is no column.
    """
    if len(text) > _LONGEST:
        raise ConfigError(
            f"{len(text):,} characters", where=where, expected=f"at most {_LONGEST:,}"
        )
    try:
        parsed = ast.parse(text.strip(), mode="eval")
        found = _Walker(columns, where).build(parsed.body)
    except SyntaxError as error:
        raise ConfigError(
            f"{text!r:.100} is no expression ({error.msg}, column {error.offset})",
            where=where,
            expected="something like 'reward_std == 0 and num_aborted > 0'",
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{text!r:.100} cannot be parsed", where=where) from error
    return lambda row: bool(found(row))


def check_column(name: str, columns: Collection[str], *, where: str) -> str:
    """The name, if it is a column's.

    Raises:
        ConfigError: it is not; the message lists the columns.
    """
    if name in columns:
        return name
    nearest = difflib.get_close_matches(name, columns, n=1)
    raise ConfigError(
        f"no column {name!r:.60}",
        where=where,
        expected=f"one like {nearest[0]!r}" if nearest else None,
        hint=f"the columns are {', '.join(columns)}",
    )


class _Walker:
    """Turns a parsed expression into a function, part by part."""

    def __init__(self, columns: Collection[str], where: str) -> None:
        self._columns = columns
        self._where = where

    def build(self, node: ast.expr) -> Condition:
        """The function of one part.

        Raises:
            ConfigError: the part is of a kind that is not taken.
        """
        match node:
            case ast.Name(id=name):
                return operator.itemgetter(check_column(name, self._columns, where=self._where))
            case ast.Constant(value=value) if value is None or isinstance(value, str | int | float):
                return lambda row: value
            case ast.BoolOp(op=op, values=values):
                return _joined([self.build(value) for value in values], isinstance(op, ast.And))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.build(operand)
                return lambda row: not inner(row)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _computed(operator.sub, lambda row: 0, self.build(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return _computed(_OPERATIONS[type(op)], self.build(left), self.build(right))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._chain([left, *others], ops)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                parts = [self.build(item) for item in items]
                return lambda row: [part(row) for part in parts]
            case _:
                raise ConfigError(
                    f"{ast.unparse(node)!r:.60} ({type(node).__name__})",
                    where=self._where,
                    expected=_TAKES,
                    hint=f"the columns are {', '.join(self._columns)}",
                )

    def _chain(self, nodes: Sequence[ast.expr], ops: Sequence[ast.cmpop]) -> Condition:
        parts = [self.build(node) for node in nodes]
        compare = [_COMPARISONS[type(op)] for op in ops]

        def holds(row: Row) -> bool:
            values = [part(row) for part in parts]
            return all(
                _compared(function, one, other)
                for function, one, other in zip(compare, values, values[1:], strict=False)
            )

        return holds


def _joined(parts: Sequence[Condition], is_and: bool) -> Condition:  # noqa: FBT001 - private
    if is_and:
        return lambda row: all(part(row) for part in parts)
    return lambda row: any(part(row) for part in parts)


def _computed(function: Callable[[Any, Any], Any], left: Condition, right: Condition) -> Condition:
    def value(row: Row) -> Any:
        one, other = left(row), right(row)
        if not isinstance(one, int | float) or not isinstance(other, int | float):
            return None
        try:
            return function(one, other)
        except (ZeroDivisionError, OverflowError):
            return None

    return value


def _compared(function: Callable[[Any, Any], Any], one: Any, other: Any) -> bool:
    try:
        return bool(function(one, other))
    except TypeError:
        return False  # None is neither above nor below a number, nor a number in a text
