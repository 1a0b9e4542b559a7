"""The worker's side of a shared source, with the source in this process."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolloutds import RolloutDataSourceWithBuffer
from rolloutds.errors import CheckpointError, ConfigError, GroupError
from rolloutds.integrations.ray.client import SharedClient
from rolloutds.integrations.ray.errors import SharedSourceError
from rolloutds.integrations.ray.options import SharedOptions
from rolloutds.integrations.ray.shared_source import _tracked
from rolloutds.integrations.ray.workers import Request
from tests.shared_clients import LocalConnection

pytest.importorskip("torch", reason="states are saved with torch")


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., tuple[SharedClient, LocalConnection]]]:
    """Makes a source, and a client of it."""
    rows = [json.dumps({"input": f"row {i}"}) + "\n" for i in range(10)]
    (tmp_path / "p.jsonl").write_text("".join(rows))
    args = SimpleNamespace(
        prompt_data=str(tmp_path / "p.jsonl"),
        rollout_global_dataset=True,
        n_samples_per_prompt=2,
        track_in_flight=True,
        save=str(tmp_path / "run"),
        load=str(tmp_path / "run"),
    )
    made = []

    def make(
        options: SharedOptions | None = None, *, load: Any = args.load, **more: Any
    ) -> tuple[SharedClient, LocalConnection]:
        args.load = load
        made.append(LocalConnection(args, tmp_path / "shared", options))
        return SharedClient(args, made[-1], **more), made[-1]

    yield make
    for connection in made:
        connection.close()


def indices(groups: Any) -> list[int]:
    return [group[0].group_index for group in groups]


def test_groups_of_a_draw_that_is_interrupted_are_given_back_at_once(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = make()
    client.get_samples(1)

    def interrupt(reply: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client, "_received", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.get_samples(2)
    (worker,) = client.stats()["workers"]
    assert (worker["num_in_flight"], worker["num_requeued"]) == (1, 2)
    assert indices(client.get_samples(3)) == [1, 2, 3]


def test_an_interrupt_stays_one_when_the_source_cannot_be_told(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, connection = make()
    client.get_samples(1)
    asked = []

    def gone(method: str, *arguments: Any) -> Any:
        asked.append(method)
        raise KeyboardInterrupt if method == "draw" else SharedSourceError("gone")

    monkeypatch.setattr(connection, "call", gone)
    with pytest.raises(KeyboardInterrupt):
        client.get_samples(2)
    client.close()
    assert asked == ["draw", "abandon", "leave"]


@pytest.mark.parametrize("timeout", ["5", -1, float("nan")])
def test_a_timeout_is_seconds(make: Callable[..., Any], timeout: Any) -> None:
    client, _ = make(SharedOptions(max_in_flight=1))
    client.get_samples(1)
    with pytest.raises(ConfigError, match=r"timeout: .*, expected seconds, from 0"):
        client.get_samples(1, timeout=timeout)
    assert client.stats()["workers"][0]["num_waiting_draws"] == 0
    with pytest.raises(ConfigError, match="timeout"):
        make(timeout=timeout)
    with pytest.raises(ConfigError, match="slow_after"):
        SharedOptions(slow_after=timeout)


@pytest.mark.parametrize("worker", [5, b"w", ("w",)])
def test_the_name_of_a_worker_is_text(make: Callable[..., Any], worker: Any) -> None:
    with pytest.raises(ConfigError, match=r"worker: .*expected text"):
        make(worker=worker)
    with pytest.raises(ConfigError, match=r"worker: .*expected text"):
        make()[0].get_samples(1, worker=worker)


def test_a_load_that_loads_nothing_forgets_nothing(make: Callable[..., Any]) -> None:
    client, _ = make(load=None)
    groups = client.get_samples(2)
    client.add_samples(groups[:1])
    client.load(3)
    with pytest.raises(GroupError, match="given back, and it"):
        client.add_samples(groups[:1])


def test_what_can_neither_be_written_nor_taken_back_is_read_again_or_refused(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(file: Any, line: bytes) -> None:
        raise OSError(28, "No space left on device")

    client, _ = make()
    client.complete(client.get_samples(2))
    (path,) = (tmp_path / "shared").iterdir()
    away = path.rename(tmp_path / "away")
    with monkeypatch.context() as patch:
        patch.setattr("rolloutds.integrations.ray.journal._write_all", fail)
        with pytest.raises(CheckpointError, match="is gone"):
            client.get_samples(1)
    with pytest.raises(CheckpointError, match="is gone"):
        client.get_samples(1)
    away.rename(path)  # restored from a copy, as the error says
    assert indices(client.get_samples(1)) == [2]


def test_settings_that_cannot_be_changed_are_copied() -> None:
    frozen = dataclasses.make_dataclass("Frozen", ["save"], frozen=True)
    args = frozen("run")
    assert Path(_tracked(args).save).is_absolute()
    assert _tracked(args).track_in_flight is True
    assert vars(args) == {"save": "run"}


def test_a_manager_draws_for_several_workers_and_a_trainer_settles(
    make: Callable[..., Any],
) -> None:
    manager, connection = make()
    trainer = SharedClient(manager.args, connection)
    one = manager.get_samples(2, worker="one")
    two = manager.get_samples(1, worker="two")
    trainer.complete(pickle.loads(pickle.dumps(one)), worker="one")
    manager.discard(two, "too long")
    counts = {
        w["name"]: (w["num_completed"], w["num_discarded"]) for w in manager.stats()["workers"]
    }
    assert (counts["one"], counts["two"]) == ((2, 0), (0, 1))


def test_the_checkpoint_is_the_plain_source_s(make: Callable[..., Any]) -> None:
    pytest.importorskip("torch", reason="states are saved with torch")
    client, connection = make()
    other = SharedClient(client.args, connection)
    client.complete(client.get_samples(2))
    held = other.get_samples(1)
    client.snapshot(0)
    client.get_samples(4)
    client.save(0)
    plain = RolloutDataSourceWithBuffer(client.args)
    plain.load(0)
    assert indices(plain.get_samples(3)) == [2, 3, 4]
    plain.save(1)
    client.load(0)
    with pytest.raises(GroupError, match="loaded rollout 0"):
        other.complete(held)
    assert indices(client.get_samples(3)) == [2, 3, 4]
    client.load(1)
    assert indices(client.get_samples(4)) == [2, 3, 4, 5]


def test_a_death_that_cannot_be_written_down_is_tried_again(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = make()[1]._actor
    has_died = asyncio.Event()
    tries = []

    async def outlives(lifeline: str, namespace: str) -> bool:
        await has_died.wait()
        return False

    def fail_twice(file: Any, line: bytes) -> None:
        tries.append(line)
        if len(tries) < 3:
            raise OSError(28, "No space left on device")
        file.write(line)

    async def draw_and_die() -> int:
        facts = {"host": "h", "pid": 1, "node": "", "lifeline": "l"}
        await actor.call("join", Request("a", 0), "a", facts, None)
        await actor.call("draw", Request("a", 1), "a", 2, None, None)
        (watch,) = actor._watched.values()
        monkeypatch.setattr("rolloutds.integrations.ray.journal._write_all", fail_twice)
        has_died.set()
        await watch
        return actor._dispatcher.look()["num_waiting"]

    monkeypatch.setattr("rolloutds.integrations.ray.actor._outlives", outlives)
    monkeypatch.setattr("rolloutds.integrations.ray.actor._UNAVAILABLE_SECONDS", 0)
    assert asyncio.run(draw_and_die()) == 2
    assert (len(tries), actor._watched) == (3, {})


def test_a_run_whose_journal_is_gone_is_not_taken_for_one_that_never_began(
    make: Callable[..., Any], tmp_path: Path
) -> None:
    client, connection = make()
    assert connection.call("is_stillborn")
    client.get_samples(1)
    connection._actor._dispatcher.is_lost = True
    for path in (tmp_path / "shared").iterdir():
        path.unlink()
    with pytest.raises(CheckpointError, match="is gone"):
        client.get_samples(1)
    assert not connection.call("is_stillborn")
