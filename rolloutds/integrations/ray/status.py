"""What a shared source that runs says of itself; nothing is started to ask it."""

from __future__ import annotations

import os
from typing import Any, Final

from rolloutds.engines.ray import knock
from rolloutds.errors import MissingExtraError
from rolloutds.integrations.ray.errors import SharedSourceError

_WAIT_SECONDS: Final = 30.0
_RAY_RETRIES: Final = "8"  # of a second each, where what listens is no cluster; Ray's are 20


def read_status(name: str, namespace: str, address: str | None = None) -> dict[str, Any]:
    """The `stats` of a shared source.

    Args:
        name: its name.
        namespace: the namespace it is in.
        address: of the Ray cluster; None: the one this process has joined, else the one that
            ``RAY_ADDRESS`` names, else the one of this machine.

    Raises:
        MissingExtraError: Ray is not installed.
        SharedSourceError: there is no such cluster, no source of that name in it, or no answer.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # unset, Ray warns of it
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", _RAY_RETRIES)
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError(
            "ray", extra="ray", needed_for="the status of a shared source"
        ) from error
    is_joined = ray.is_initialized()
    if not is_joined:
        _join(address or os.environ.get("RAY_ADDRESS") or "auto")
    try:
        return {"name": name, "namespace": namespace} | _asked(name, namespace)
    finally:
        if not is_joined:
            ray.shutdown()


def _join(address: str) -> None:
    import ray

    where = "this machine" if address == "auto" else address
    if address == "local":
        raise SharedSourceError("starts a cluster", where=address, expected="one that runs")
    try:
        knock(address)
        ray.init(address, log_to_driver=False, configure_logging=False)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        said = str(error).partition("\n")[0]
        raise SharedSourceError(
            f"no Ray cluster can be joined: {said}",
            where=where,
            hint="name its address with --ray-address; `ray status` on its head shows whether "
            "it runs",
        ) from error


def _asked(name: str, namespace: str) -> dict[str, Any]:
    import ray

    where = f"shared source {name!r} in namespace {namespace!r}"
    try:
        actor = ray.get_actor(name, namespace=namespace)
        error, stats, _ = ray.get(actor.call.remote("stats"), timeout=_WAIT_SECONDS)
    except ValueError as absent:
        raise SharedSourceError(
            "there is none",
            where=where,
            hint=_others(ray.util.list_named_actors(all_namespaces=True)),
        ) from absent
    except ray.exceptions.GetTimeoutError as late:
        raise SharedSourceError(
            f"does not answer within {_WAIT_SECONDS:.0f} s",
            where=where,
            hint="it may be starting again, or reading its journal",
        ) from late
    except (ray.exceptions.RayActorError, AttributeError) as gone:
        raise SharedSourceError(
            f"cannot be asked ({type(gone).__name__})", where=where, expected="a shared source"
        ) from gone
    if error is not None:
        raise error
    found: dict[str, Any] = stats
    return found


def _others(actors: list[dict[str, str]]) -> str:
    names = sorted(
        f"{actor['name']} (namespace {actor['namespace']})"
        for actor in actors
        if not actor["name"].startswith("rolloutds-lifeline-")
    )
    if not names:
        return "no named actor runs in this cluster"
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"named actors of this cluster: {shown}"
