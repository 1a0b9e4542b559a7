"""Conditions on groups: parsed, walked, and nothing else."""

from __future__ import annotations

import pytest

from rolloutds.errors import ConfigError
from rolloutds.rollouts.where import parse_where

ROW = {"size": 4, "reward_mean": 0.5, "reward_std": 0.0, "age": None, "origin": "buffer"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("reward_std == 0 and size > 3", True),
        ("reward_std == 0 and size > 4", False),
        ("not reward_std", True),
        ("0.2 < reward_mean <= 0.5 or size == 9", True),
        ("age is None", True),
        ("age == None", True),
        ("age > 2", False),
        ("age < 2", False),
        ("not (age > 2)", True),
        ("age is not None", False),
        ("age + 1 > 0", False),
        ("origin in ('buffer', 'dump')", True),
        ("origin not in ['dump']", True),
        ("'buf' in origin", True),
        ("size in (1, 2, 3)", False),
        ("size * reward_mean == 2 and -size < 0", True),
        ("size // 3 == 1 and size % 3 == 1 and size - 1 == 3 and size / 8 == reward_mean", True),
        ("size / 0 == 1", False),
        ("origin < 3", False),
        ("origin == 'dump' or size", True),
    ],
)
def test_conditions(text, holds):
    assert parse_where(text, ROW)(ROW) is holds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("reward_sdt == 0", "no column 'reward_sdt', expected one like 'reward_std'"),
        ("unknown == 0", "the columns are size, reward_mean"),
        ("size ==", "no expression"),
        ("size = 4", "no expression"),
        ("", "no expression"),
        ("__import__('os')", "(Call)"),
        ("size.real", "(Attribute)"),
        ("origin[0]", "(Subscript)"),
        ("[x for x in origin]", "(ListComp)"),
        ("lambda: 1", "(Lambda)"),
        ("size if size else 1", "(IfExp)"),
        ("2 ** 99999999", "(BinOp)"),
        ("(size := 3)", "(NamedExpr)"),
        ("b'x' == origin", "(Constant)"),
        ("+" * 1500 + "1", "--where"),
        ("(" * 900 + "1" + ")" * 900, "--where"),
        ("1" * 3000, "at most 2,000"),
        ("'\\ud800\\x00' == origin\x00", "--where"),
    ],
)
def test_everything_else_is_refused(text, says):
    with pytest.raises(ConfigError) as caught:
        parse_where(text, ROW)
    assert says in str(caught.value)


def test_texts_are_not_multiplied():
    assert parse_where("origin * 1000000000 == origin", ROW)(ROW) is False
