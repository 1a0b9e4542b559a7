"""Buffer filters: loading one, and the built-in ones.

A filter is ``fn(args, rollout_id, buffer, num_samples) -> list[group]``: it takes at most
`num_samples` groups out of `buffer` (it removes what it returns, in place) and may reorder the
rest.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from rolloutds.errors import FilterError
from rolloutds.sample import SampleGroup

BufferFilter = Callable[[Any, int | None, list[SampleGroup], int], list[SampleGroup]]
"""Signature of a buffer filter."""


def pop_first(
    args: Any, rollout_id: int | None, buffer: list[SampleGroup], num_samples: int
) -> list[SampleGroup]:
    """Takes the groups that wait longest, first in first out. Reads nothing from `args`.

    Args:
        args: the run's settings.
        rollout_id: the rollout the groups are for.
        buffer: the waiting groups, oldest first; what is returned is removed from it.
        num_samples: how many groups are asked for.

    Returns:
        At most `num_samples` groups, ``[num_groups, n_samples_per_prompt]``.
    """
    taken = buffer[:num_samples]
    del buffer[:num_samples]
    return taken


def load_function(path: str) -> Callable[..., Any]:
    """The function that `path` names: ``mod.fn``, ``mod:fn`` or ``path/file.py:fn``.

    Importing runs the module's code: give only paths that the user named.

    Raises:
        FilterError: the path has no such form, the module cannot be imported, or it has no such
            function.
    """
    module_name, _, name = path.rpartition(":" if ":" in path else ".")
    if not module_name or not name:
        raise FilterError(
            "not the path of a function",
            where=path,
            expected="mod.fn, mod:fn or path/file.py:fn",
        )
    function = getattr(_load_module(module_name, path), name, None)
    if not callable(function):
        raise FilterError(
            f"no function {name!r} in {module_name}", where=path, expected="the name of a function"
        )
    loaded: Callable[..., Any] = function
    return loaded


def _load_module(name: str, path: str) -> ModuleType:
    try:
        return _load_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except Exception as error:  # whatever the module's own code raises
        raise FilterError(
            f"{name} cannot be imported ({type(error).__name__}: {error})",
            where=path,
            hint="the module must be on PYTHONPATH or in the current folder; "
            "a file can be named as path/file.py:fn",
        ) from error


def _load_file(file: Path) -> ModuleType:
    resolved = file.expanduser().resolve()
    if not resolved.is_file():
        raise FileNotFoundError(f"no such file: {resolved}")
    name = f"rolloutds_loaded_{resolved.stem}_{abs(hash(str(resolved))):x}"
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise ImportError(f"not a Python file: {resolved}")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look a class's module up by name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
