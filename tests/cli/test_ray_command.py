"""``rolloutds ray status``: a shared source as somebody outside the run sees it."""

from __future__ import annotations

import json
import socket
import uuid
from types import SimpleNamespace

import jsonschema
import pytest

from rolloutds.integrations.ray import SharedDataSource
from rolloutds.reports.schemas import SCHEMAS

pytest_plugins = ("tests.ray_cluster",)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Makes one source for the whole module, with a worker that holds groups and one that left."""
    made: list[SharedDataSource] = []

    def make():
        if made:
            return made[0]
        folder = tmp_path_factory.mktemp("shared")
        (folder / "p.jsonl").write_text("".join(f'{{"input": "row {i}"}}\n' for i in range(10)))
        args = SimpleNamespace(prompt_data=folder / "p.jsonl", rollout_global_dataset=True)
        name = f"status-{uuid.uuid4().hex[:8]}"
        options = {"name": name, "state_folder": folder, "max_in_flight": 8, "slow_after": 0}
        with SharedDataSource(args, worker="left", **options) as left:
            left.get_samples(2)
        made.append(SharedDataSource(args, worker="slow", **options))
        made[0].discard(made[0].get_samples(3)[:1], "too long")
        return made[0]

    yield make
    for source in made:
        source.shut_down()


def status(run, source, *more):
    return run("ray", "status", "--name", source.name, *more)


def test_the_source_and_a_row_for_each_worker(run, ray_cluster, shared):
    outcome = status(run, shared())
    assert (outcome.code, outcome.err) == (0, "")
    facts, table = outcome.out.split("\n\n")
    assert "cursor         epoch 0, offset 3 of 10 rows; next group 3" in facts
    assert "in flight      2 groups; at most 8 in all" in facts
    assert "discarded      1 (too long: 1)" in facts
    assert "workers        1 alive, 1 gone, 1 slow" in facts
    slow, left = table.splitlines()[1:]
    assert slow.split()[:3] == ["slow", "slow", "2"]
    assert left.split()[:3] == ["left", "gone", "0"]


def test_programs_get_it_by_a_schema(run, ray_cluster, shared):
    printed = json.loads(status(run, shared(), "--format", "json").out)
    jsonschema.validate(printed, SCHEMAS["ray_status"], cls=jsonschema.Draft202012Validator)
    assert set(printed) == set(SCHEMAS["ray_status"]["properties"])
    slow, left = status(run, shared(), "--format", "jsonl").records
    assert set(slow) == set(SCHEMAS["ray_status"]["properties"]["workers"]["items"]["properties"])
    assert (slow["num_drawn"], slow["num_discarded"], slow["is_slow"]) == (3, 1, True)
    assert (left["num_requeued"], left["why_left"]) == (2, "it was closed")


def test_a_name_that_is_not_there_lists_those_that_are(run, ray_cluster, shared):
    outcome = run("ray", "status", "--name", "none")
    assert (outcome.code, outcome.out) == (3, "")
    assert "shared source 'none' in namespace 'rolloutds': there is none" in outcome.err
    assert shared().name in run("ray", "status", "--name", "none").err


def test_no_cluster_is_an_error_and_none_is_started(run, monkeypatch):
    ray = pytest.importorskip("ray", reason="needs the ray extra")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    joined = []

    def fail(address, **options):
        joined.append(address)
        raise ConnectionError("Could not find any running Ray instance.\nmore")

    monkeypatch.setattr(ray, "init", fail)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    outcome = run("ray", "status")
    assert outcome.code == 3
    assert "no Ray cluster can be joined: Could not find any running Ray instance." in outcome.err
    assert "more" not in outcome.err
    assert run("ray", "status", "--ray-address", "local").code == 3
    assert joined == ["auto"]


def test_an_address_where_nobody_listens_is_refused_at_once(run, monkeypatch):
    ray = pytest.importorskip("ray", reason="needs the ray extra")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda *words, **options: pytest.fail("Ray tries for long"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        outcome = run("ray", "status", "--ray-address", address)
    assert outcome.code == 3
    assert f"{address}: no Ray cluster can be joined: " in outcome.err


def test_without_ray_the_extra_is_named(run, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    outcome = run("ray", "status")
    assert outcome.code == 3
    assert "pip install 'rolloutds[ray]'" in outcome.err
