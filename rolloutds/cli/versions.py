"""Versions of installed packages, from their metadata: nothing is imported to look at it."""

from __future__ import annotations

from importlib import metadata


def installed_version(package: str) -> str | None:
    """The version of a package; None when it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def required_packages(package: str) -> list[str]:
    """Names of the packages that one declares it needs, extras left out."""
    try:
        declared = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return []
    return sorted({_name(text) for text in declared if "extra ==" not in text})


def _name(requirement: str) -> str:
    end = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_.")), None)
    return requirement[:end]
