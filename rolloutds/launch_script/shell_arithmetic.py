"""Whole-number arithmetic as a shell does it: the expression inside ``$(( … ))``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NoReturn

Look = Callable[[str], "str | None"]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<operator>\*\*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%()<>!~&|^?:]))",
    re.ASCII,
)
_BINARY: Final = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<=", ">=", "<", ">"),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_ASSIGNED: Final = re.compile(
    r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\s*(?:(?:<<|>>|[-+*/%&|^])?=(?!=)|\+\+|--)"
    r"|(?:\+\+|--)\s*([A-Za-z_]\w*)",
    re.ASCII,
)
_BITS: Final = 63
_MOST_CHARACTERS: Final = (400, 60, 20)
"""By depth: an expression, a variable's in it, a variable's in that one."""


def evaluate(expression: str, look: Look, depth: int = 0) -> int | None:
    """The value of an expression; None when it is not known or not an expression read here.

    Args:
        expression: what stands between the parentheses, without ``$``.
        look: the text of a variable; None: it is not known. "" counts as 0.
        depth: how many variables led here, since a variable may hold an expression.
    """
    if depth == len(_MOST_CHARACTERS) or len(expression) > _MOST_CHARACTERS[depth]:
        return None
    if not expression.strip():
        return 0
    try:
        return _Expression(expression, look, depth).value()
    except _NotKnownError:
        return None


def assigned_names(expression: str) -> list[str]:
    """The variables to which an expression gives a value (``N = 3``, ``N += 1``, ``N++``)."""
    return [first or second for first, second in _ASSIGNED.findall(expression)]


class _NotKnownError(Exception):
    """The expression has a part that is not known."""


class _Expression:
    def __init__(self, text: str, look: Look, depth: int) -> None:
        self._look = look
        self._depth = depth
        self._tokens: list[tuple[str, str]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                _give_up()
            self._tokens.append((found.lastgroup or "", found[found.lastgroup or 0]))
            at = found.end()
        self._at = 0

    def value(self) -> int:
        value = self._choice()
        if self._at < len(self._tokens):
            _give_up()
        return value

    def _next(self, *operators: str) -> str | None:
        if self._at < len(self._tokens):
            kind, text = self._tokens[self._at]
            if kind == "operator" and text in operators:
                self._at += 1
                return text
        return None

    def _choice(self) -> int:
        condition = self._binary(0)
        if not self._next("?"):
            return condition
        then = self._choice()
        if not self._next(":"):
            _give_up()
        otherwise = self._choice()
        return then if condition else otherwise

    def _binary(self, level: int) -> int:
        if level == len(_BINARY):
            return self._power()
        value = self._binary(level + 1)
        while operator := self._next(*_BINARY[level]):
            value = _calculated(value, operator, self._binary(level + 1))
        return value

    def _power(self) -> int:
        value = self._single()
        return _calculated(value, "**", self._power()) if self._next("**") else value

    def _single(self) -> int:
        operator = self._next("-", "+", "!", "~", "(")
        if operator == "(":
            value = self._choice()
            if not self._next(")"):
                _give_up()
            return value
        if operator:
            value = self._single()
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[operator]
        if self._at == len(self._tokens):
            _give_up()
        kind, text = self._tokens[self._at]
        self._at += 1
        return self._number(text) if kind == "number" else self._variable(kind, text)

    def _number(self, text: str) -> int:
        if text[:2] in ("0x", "0X"):
            return _small(int(text, 16))
        is_octal = text[0] == "0" and len(text) > 1
        if is_octal and re.search("[89]", text):
            _give_up()
        return _small(int(text, 8 if is_octal else 10))

    def _variable(self, kind: str, name: str) -> int:
        text = self._look(name) if kind == "name" else None
        value = None if text is None else evaluate(text, self._look, self._depth + 1)
        if value is None:
            _give_up()
        return value


def _calculated(left: int, operator: str, right: int) -> int:  # noqa: C901 - one case an operator
    match operator:
        case "+":
            return _small(left + right)
        case "-":
            return _small(left - right)
        case "*":
            return _small(left * right)
        case "**" if 0 <= right <= _BITS:
            return _small(left**right)
        case "/" | "%" if right:
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
            return quotient if operator == "/" else left - quotient * right
        case "<<" if 0 <= right < _BITS:
            return _small(left << right)
        case ">>" if 0 <= right <= _BITS:
            return left >> right
        case "&" | "|" | "^":
            return {"&": left & right, "|": left | right, "^": left ^ right}[operator]
        case "&&":
            return int(bool(left) and bool(right))
        case "||":
            return int(bool(left) or bool(right))
    return _compared(left, operator, right)


def _compared(left: int, operator: str, right: int) -> int:
    results = {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        ">": left > right,
        "<=": left <= right,
        ">=": left >= right,
    }
    if operator not in results:
        _give_up()
    return int(results[operator])


def _small(value: int) -> int:
    """The value where a shell's 64 bits hold it; what overflows is left alone."""
    if not -(1 << _BITS) <= value < 1 << _BITS:
        _give_up()
    return value


def _give_up() -> NoReturn:
    raise _NotKnownError
