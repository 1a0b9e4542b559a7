"""A tiny actor for each process that draws: Ray ends it when the process dies.

It is how the shared source hears of a death at once, on whatever machine. It costs a process
without work, some 60 MB of memory of its own, and about a second at the first draw.
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from typing import Any

_lock = threading.Lock()
_held: dict[tuple[Any, ...], tuple[str, Any]] = {}


class Lifeline:
    """The actor."""

    async def hold(self) -> None:
        """Never returns: the call fails when the actor ends."""
        await asyncio.Event().wait()

    async def ready(self) -> None:
        """Returns once it runs."""


def lifeline(namespace: str) -> str:
    """Name of this process's lifeline, which is started at the first call, or if it was killed."""
    import ray

    context = ray.get_runtime_context()
    place = (os.getpid(), context.get_job_id(), context.get_worker_id(), namespace)
    with _lock:
        found = _held.get(place)
        if found is None or not _is_running(found[1]):
            found = _held[place] = _started(namespace, context.get_node_id())
        return found[0]


def _started(namespace: str, node_id: str) -> tuple[str, Any]:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    name = f"rolloutds-lifeline-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    actor = (
        ray.remote(Lifeline)
        .options(
            name=name,
            namespace=namespace,
            num_cpus=0,
            max_concurrency=1_000,
            # On the machine of its process: another one's end says nothing about this one.
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=True),
        )
        .remote()
    )
    ray.get(actor.ready.remote())
    return name, actor


def _is_running(actor: Any) -> bool:
    import ray

    try:
        ray.get(actor.ready.remote())
    except ray.exceptions.RayActorError:
        return False
    return True
