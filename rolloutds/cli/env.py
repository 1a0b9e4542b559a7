"""``rolloutds env``: versions and paths, to be pasted in a bug report."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any, NamedTuple

import typer

from rolloutds.cli.command import PlainCommand
from rolloutds.cli.options import Invocation, current_folder, takes_settings
from rolloutds.cli.versions import installed_version, required_packages
from rolloutds.config import ENVIRONMENT_PREFIX, find_config_file
from rolloutds.reports.model import Cells, Column, Facts, Report, Table

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_OPTIONAL = {
    "fsspec": "remote",
    "pyyaml": "yaml",
    "ray": "ray",
    "tokenizers": "tokenizers",
    "torch": "torch",
    "transformers": "tokenizers",
}
"""Optional packages, and the extra that installs each."""


class Package(NamedTuple):
    """A package the tool uses; `version` is None when it is not installed."""

    name: str
    version: str | None
    extra: str | None


@app.command(cls=PlainCommand)
@takes_settings(has_data=False, has_cache=False)
def env(*, invocation: Invocation) -> None:
    """Show versions and paths, made to be pasted in a bug report."""
    invocation.write(env_report(invocation.config_file))


def env_report(named_config: str | None) -> Report:
    """Versions from package metadata alone: nothing is imported to look at it."""
    from rolloutds.cache import default_cache_folder

    found = Path(named_config) if named_config is not None else _found_config()
    facts: dict[str, Any] = {
        "rolloutds": installed_version("rolloutds"),
        "python": platform.python_version(),
        "python_implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "cache_folder": str(default_cache_folder()),
        "config_file": str(found) if found else None,
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(ENVIRONMENT_PREFIX)
        },
    }
    packages = _packages()
    return Report(
        kind="env",
        data={
            **facts,
            "packages": {package.name: package.version for package in packages},
        },
        sections=[Facts(_pairs(facts)), _table(packages)],
    )


def _found_config() -> Path | None:
    folder = current_folder()
    return find_config_file(folder) if folder is not None else None


def _pairs(facts: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        ("rolloutds", facts["rolloutds"] or "not installed as a package"),
        ("python", f"{facts['python']} ({facts['python_implementation']})"),
        ("platform", facts["platform"]),
        ("cache folder", facts["cache_folder"]),
        ("config file", facts["config_file"] or "none found"),
        *((name, value) for name, value in facts["variables"].items()),
    ]


def _table(packages: list[Package]) -> Table:
    rows = [Cells([package.name, _state(package)]) for package in packages]
    return Table([Column("package"), Column("version")], rows)


def _state(package: Package) -> str:
    if package.version is not None:
        return package.version
    if package.extra is None:
        return "missing"
    return f"not installed: pip install 'rolloutds[{package.extra}]'"


def _packages() -> list[Package]:
    required = [
        Package(name, installed_version(name), None) for name in required_packages("rolloutds")
    ]
    optional = [Package(name, installed_version(name), extra) for name, extra in _OPTIONAL.items()]
    return required + optional
