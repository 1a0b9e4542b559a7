"""YAML and JSON files of settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rolloutds.errors import ConfigError, MissingExtraError


def read_mapping(path: Path) -> dict[str, Any]:
    """The object that a file holds; an empty file is an empty one.

    Raises:
        ConfigError: the file cannot be read, or holds something else.
        MissingExtraError: it is YAML, and PyYAML is not installed.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(
            f"cannot be read ({reason})", where=str(path), expected="a YAML file"
        ) from error
    document = _parse_json(text, path) if path.suffix == ".json" else _parse_yaml(text, path)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(
            f"holds {type(document).__name__}", where=str(path), expected="keys with values"
        )
    return {str(key): value for key, value in document.items()}


def _parse_json(text: str, path: Path) -> Any:
    try:
        return json.loads(text) if text.strip() else None
    except ValueError as error:
        raise ConfigError(f"not JSON ({error})", where=str(path)) from error


def _parse_yaml(text: str, path: Path) -> Any:
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("PyYAML", extra="yaml", needed_for=f"reading {path}") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"not YAML ({reason})", where=str(path)) from error
