"""No module imports from its own package's `__init__`: import-linter cannot see that."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "rolloutds"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    place = PACKAGE.parent.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


def imports_of_own_package(name: str, source: str) -> list[str]:
    """The names that a module takes from the `__init__` of a package it lies in."""
    own_packages = [name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)]
    return [
        f"{name}:{node.lineno} takes {alias.name} from {node.module}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module in own_packages
        for alias in node.names
        if not is_module(f"{node.module}.{alias.name}")
    ]


def test_no_module_imports_from_its_own_package_s_init() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    assert len(paths) > 10
    found = [
        line
        for path in paths
        for line in imports_of_own_package(module_name(path), path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("name", "source", "is_bad"),
    [
        ("rolloutds.readers.jsonl", "from rolloutds.readers import open_rows", True),
        ("rolloutds.readers.jsonl", "def f():\n    from rolloutds import Sample", True),
        ("rolloutds.readers.jsonl", "from rolloutds.readers import base", False),
        ("rolloutds.readers.jsonl", "from rolloutds.errors import DataError", False),
        ("rolloutds.dataset", "from rolloutds.readers import open_rows", False),
        ("rolloutds.readers", "from rolloutds.readers.base import Reader", False),
    ],
    ids=["own", "grandparent", "sibling", "other", "package", "init"],
)
def test_the_check_tells_them_apart(name: str, source: str, is_bad: bool) -> None:
    assert bool(imports_of_own_package(name, source)) is is_bad
