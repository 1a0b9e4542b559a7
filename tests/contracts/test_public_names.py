"""Every public name exists, is documented where it is defined, and is loaded only when used."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

import rolloutds


def described_names(source: str) -> set[str]:
    """Names that a module defines and describes: by a docstring, or a string just below."""
    body = ast.parse(source).body
    described = {
        node.name
        for node in body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
    }
    for node, below in itertools.pairwise(body):
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if is_text and isinstance(node, ast.Assign | ast.AnnAssign):
            described |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return described


def test_the_list_is_sorted_and_complete() -> None:
    assert rolloutds.__all__ == sorted(rolloutds.__all__)
    assert set(rolloutds.__all__) == set(rolloutds._HOMES)
    assert set(rolloutds.__all__) <= set(dir(rolloutds))


@pytest.mark.parametrize("name", rolloutds.__all__)
def test_every_public_name_is_described_where_it_is_defined(name: str) -> None:
    home = importlib.import_module(f"rolloutds.{rolloutds._HOMES[name]}")
    assert getattr(rolloutds, name) is getattr(home, name)
    assert name in described_names(Path(inspect.getfile(home)).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", rolloutds.__all__)
def test_public_methods_of_public_classes_are_documented(name: str) -> None:
    value = getattr(rolloutds, name)
    members = vars(value) if inspect.isclass(value) else {}
    silent = [
        member
        for member, attribute in members.items()
        if not member.startswith("_")
        and isinstance(attribute, property | classmethod | staticmethod | type(described_names))
        and not inspect.getdoc(getattr(value, member))
    ]
    assert silent == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = rolloutds.Nothing


def test_importing_the_package_loads_none_of_its_modules() -> None:
    code = "import rolloutds, sys; print([m for m in sys.modules if m.startswith('rolloutds.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
