"""One local Ray for every test of this process that asks for it; none is started otherwise.

A test module that needs it says so at its top, and takes the fixture `ray_cluster`::

    pytest_plugins = ("tests.ray_cluster",)

The first test starts the cluster (some 3 s), the others join it, and it ends with the session,
its processes included.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

import pytest

NAMESPACE = "rolloutds-tests"
NUM_CPUS = 2
_ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",  # no token file in the home folder, and no notice about it
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # today's default-to-be; unset, it warns
}


@dataclass(frozen=True)
class RayCluster:
    """The cluster that runs.

    Attributes:
        address: what another process joins it by (``ray.init(address)``, ``--ray-address``).
        namespace: the one of this process.
        environment: variables that another process needs to join it quietly.
    """

    address: str
    namespace: str
    environment: dict[str, str]


@pytest.fixture
def ray_cluster(request: pytest.FixtureRequest) -> RayCluster:
    """A local Ray with two CPUs that this process has joined; skips without the extra."""
    ray = pytest.importorskip("ray", reason="needs the ray extra")
    if not ray.is_initialized():
        _start(request.config)
    return RayCluster(ray.get_runtime_context().gcs_address, NAMESPACE, dict(_ENVIRONMENT))


def _start(config: pytest.Config) -> None:
    import ray

    patch = pytest.MonkeyPatch()
    for name, value in _ENVIRONMENT.items():
        patch.setenv(name, value)
    on_sigterm = signal.getsignal(signal.SIGTERM)
    ray.init(
        address="local",
        num_cpus=NUM_CPUS,
        include_dashboard=False,
        object_store_memory=100 * 2**20,
        log_to_driver=False,
        configure_logging=False,
        namespace=NAMESPACE,
    )
    signal.signal(signal.SIGTERM, on_sigterm)  # Ray's own would be inherited by what tests start
    config.add_cleanup(ray.shutdown)
    config.add_cleanup(patch.undo)
