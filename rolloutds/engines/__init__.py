"""Engines: the same work on many items in this process, in several, or on a Ray cluster.

An engine is one module here and one name in `open_engine`. It knows no work: what a task does,
and how results are merged, lies with the work.
"""

from __future__ import annotations

import os
from typing import Final

from rolloutds.engines.base import Engine, Partitions
from rolloutds.errors import ConfigError

__all__ = ["ENGINES", "Engine", "Partitions", "open_engine"]

ENGINES: Final = ("local", "ray")
"""Names of the engines."""


def open_engine(
    name: str = "local", jobs: int | None = None, ray_address: str | None = None
) -> Engine:
    """An engine by its name; it is closed as a context manager is.

    Args:
        name: one of `ENGINES`.
        jobs: tasks at a time; 0: one a core (of the machine, or of the Ray cluster); None: one
            process, or one task a core of the cluster.
        ray_address: of the Ray cluster to join.

    Raises:
        ConfigError: there is no such engine, or the address of a cluster it does not use.
        MissingExtraError: Ray is not installed.
        EngineError: the cluster cannot be joined.
    """
    if name not in ENGINES:
        raise ConfigError(f"there is no engine {name!r}", expected=f"one of {', '.join(ENGINES)}")
    if name == "ray":
        from rolloutds.engines.ray import RayEngine

        return RayEngine(ray_address, jobs or None)
    if ray_address is not None:
        raise ConfigError(
            f"the address {ray_address!r} of a Ray cluster, and the engine is {name}",
            expected="the engine ray",
            hint="add --engine ray",
        )
    from rolloutds.engines.local import LocalEngine

    return LocalEngine((os.cpu_count() or 1) if jobs == 0 else jobs or 1)
