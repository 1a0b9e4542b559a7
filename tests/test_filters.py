"""Loading functions, and the built-in filters."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from rolloutds.errors import FilterError
from rolloutds.filters import load_function, pop_first
from rolloutds.testing import make_group


@pytest.mark.parametrize("asked", [0, 2, 3, 9])
def test_pop_first_takes_the_oldest_and_removes_them(asked: int) -> None:
    groups = [make_group(i, 2) for i in range(3)]
    buffer = list(groups)
    assert pop_first(SimpleNamespace(), None, buffer, asked) == groups[:asked]
    assert buffer == groups[asked:]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    file = tmp_path / "my_filters_for_test.py"
    file.write_text("def take(args, rollout_id, buffer, n):\n    return buffer[:n]\nnumber = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield file
    sys.modules.pop("my_filters_for_test", None)


@pytest.mark.parametrize("separator", [".", ":"])
def test_a_module_s_function_is_loaded(module: Path, separator: str) -> None:
    assert load_function(f"my_filters_for_test{separator}take")(None, None, [1, 2], 1) == [1]


def test_a_file_s_function_is_loaded(module: Path) -> None:
    assert load_function(f"{module}:take")(None, None, [1, 2], 1) == [1]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("take", "mod.fn"),
        (".take", "mod.fn"),
        ("no_such_module_here.take", "no_such_module_here cannot be imported"),
        ("no/such/file.py:take", "no such file"),
        ("my_filters_for_test.nothing", "no function 'nothing'"),
        ("my_filters_for_test.number", "no function 'number'"),
    ],
)
def test_what_cannot_be_loaded_says_why(module: Path, path: str, says: str) -> None:
    with pytest.raises(FilterError, match=says):
        load_function(path)


def test_a_module_that_raises_says_what(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("1 / 0\n")
    with pytest.raises(FilterError, match="ZeroDivisionError"):
        load_function(f"{file}:take")
