"""The Ray engine: which cluster it joins, and what it leaves behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rolloutds.engines import open_engine
from rolloutds.errors import EngineError, MissingExtraError

pytest_plugins = ("tests.ray_cluster",)

CHECKOUT = Path(__file__).resolve().parents[2]


def test_a_cluster_this_process_has_joined_is_left_as_it_is(ray_cluster, work):
    import ray

    with open_engine("ray") as engine:
        assert engine.num_tasks == 2
        assert not engine.is_local
        assert list(engine.map(work.double, [1, 2], common=3)) == [5, 7]
    assert ray.is_initialized()


def test_paths_lead_from_the_folder_of_the_driver(ray_cluster, work, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_engine("ray", 1) as engine:
        assert list(engine.map(work.folder, [None])) == [str(tmp_path)]


def test_the_first_argument_is_loaded_once_a_process(ray_cluster, work):
    with open_engine("ray", 2) as engine:
        found = set(engine.map(work.identity_of_common, range(20), common=[1, 2, 3]))
    processes = {process for process, _ in found}
    assert len(found) == len(processes)


JOINS = """
import sys
import ray
from rolloutds.engines import open_engine
with open_engine("ray", None, sys.argv[1]) as engine:
    print(engine.num_tasks, list(engine.map(max, [3], common=2)))
print(ray.is_initialized())
"""


def test_a_cluster_it_joins_by_address_is_left(ray_cluster, monkeypatch):
    for name, value in ray_cluster.environment.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(
        [sys.executable, "-c", JOINS, ray_cluster.address],
        capture_output=True,
        text=True,
        check=False,
        cwd=CHECKOUT,
    )
    assert done.stdout.splitlines() == ["2 [3]", "False"], done.stderr


def test_an_address_where_nobody_listens_is_refused(monkeypatch):
    ray = pytest.importorskip("ray", reason="needs the ray extra")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:1: the Ray cluster cannot be joined"):
        open_engine("ray", ray_address="127.0.0.1:1")


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError) as caught:
        open_engine("ray")
    assert caught.value.hint == "pip install 'rolloutds[ray]'"


@pytest.mark.parametrize(("size", "stays"), [(0, False), (1, True), (200_000, True)])
def test_a_bucket_is_too_large_to_be_handed_to_the_driver(size, stays):
    """Ray hands on results of up to 100 KiB."""
    from rolloutds.engines.ray import _stored

    bucket, filler = _stored(bytes(size))
    assert bucket == bytes(size)
    assert (size + len(filler) >= 100 * 1024) is stays


def test_what_ray_prints_is_not_the_result(ray_cluster, capsys):
    from rolloutds.cli.engine_options import opened_engine

    with opened_engine("ray", 1, None):
        sys.stdout.write("a worker died\n")
    assert capsys.readouterr() == ("", "a worker died\n")
