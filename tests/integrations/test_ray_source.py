"""The shared source on a real Ray: workers that die, an actor that dies, errors, stats."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rolloutds.errors import (
    CheckpointError,
    ConfigError,
    DataNotFoundError,
    GroupError,
    MissingExtraError,
)
from rolloutds.integrations.ray import CapacityError, SharedDataSource, SharedSourceError
from rolloutds.source import DataSource
from rolloutds.testing import make_group

pytest_plugins = ("tests.ray_cluster",)

WAIT = 30  # seconds until a death must have been noticed; it takes a tenth of one


@pytest.fixture
def make(ray_cluster: Any, tmp_path: Path) -> Iterator[Callable[..., SharedDataSource]]:
    """Makes clients of one shared source, which is shut down after the test."""
    rows = [json.dumps({"input": f"row {i}"}) + "\n" for i in range(10)]
    (tmp_path / "p.jsonl").write_text("".join(rows))
    args = SimpleNamespace(
        prompt_data=str(tmp_path / "p.jsonl"),
        rollout_global_dataset=True,
        n_samples_per_prompt=2,
        save=str(tmp_path / "run"),
        load=str(tmp_path / "run"),
    )
    name = f"test-{uuid.uuid4().hex[:12]}"
    made = []

    def make(**options: Any) -> SharedDataSource:
        settings = {n: options.pop(n) for n in [*options] if hasattr(args, n)}
        made.append(
            SharedDataSource(SimpleNamespace(**(vars(args) | settings)), name=name, **options)
        )
        return made[-1]

    yield make
    if made:
        made[0].shut_down()
        assert list((tmp_path / "run" / "shared").iterdir()) == []


def indices(groups: Any) -> list[int]:
    return [group[0].group_index for group in groups]


def until(holds: Callable[[], Any]) -> Any:
    """Waits until something holds, and gives it."""
    end = time.monotonic() + WAIT
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)
    return found


def worker_process(client: SharedDataSource) -> Any:
    """An actor that draws with a copy of the client, in a process of its own."""
    import ray

    class Puller:
        def __init__(self, source: SharedDataSource) -> None:
            self.source = source

        def pull(self, num_groups: int) -> list[int]:
            return indices(self.source.get_samples(num_groups))

        def pid(self) -> int:
            return os.getpid()

    return ray.remote(Puller).options(num_cpus=0).remote(client)


def test_it_is_a_data_source_that_two_clients_share(make: Callable[..., SharedDataSource]) -> None:
    one, two = make(worker="one"), make(worker="two")
    assert isinstance(one, DataSource)
    assert [indices(source.get_samples(2)) for source in (one, two, one)] == [
        [0, 1],
        [2, 3],
        [4, 5],
    ]
    assert (len(one), one.epoch_id, two.sample_offset, one.sample_index) == (10, 0, 6, 12)


def test_groups_of_a_process_that_is_killed_come_back_first(
    make: Callable[..., SharedDataSource],
) -> None:
    import ray

    client = make(worker="here")
    other = worker_process(make())
    assert ray.get(other.pull.remote(3)) == [0, 1, 2]
    mine = client.get_samples(2)
    os.kill(ray.get(other.pid.remote()), signal.SIGKILL)
    until(lambda: len(client.in_flight) == 2)
    assert indices(client.get_samples(4)) == [0, 1, 2, 5]
    client.complete(mine)
    dead = next(w for w in client.stats()["workers"] if not w["is_alive"])
    assert (dead["num_requeued"], dead["num_in_flight"]) == (3, 0)
    assert dead["why_left"] == f"the process {dead['host']}:{dead['pid']} died"


def test_an_actor_that_is_killed_goes_on_where_it_was(
    make: Callable[..., SharedDataSource],
) -> None:
    client = make(worker="here")
    first = client.get_samples(3)
    first[2][0].response = "half"
    client.add_samples(first[2:])
    client.complete(first[:1])
    client.update_metadata({"a": 1})
    for restarts in (1, 2):
        os.kill(client.stats()["pid"], signal.SIGKILL)
        assert client.stats()["num_restarts"] == restarts
    assert client.metadata == {"a": 1}
    assert client.in_flight.num_completed == 1
    again = client.get_samples(2)
    assert again[0] == first[2]
    assert indices(again) == [2, 3]
    client.complete([first[1], *again])


def test_a_lifeline_that_alone_is_killed_costs_the_groups_and_nothing_else(
    make: Callable[..., SharedDataSource],
) -> None:
    import ray

    from rolloutds.integrations.ray.lifelines import lifeline

    client = make(worker="here")
    groups = client.get_samples(2)
    ray.kill(ray.get_actor(lifeline("rolloutds"), namespace="rolloutds"))
    until(lambda: client.stats()["num_waiting"] == 2)
    with pytest.raises(GroupError, match="died"):
        client.complete(groups)
    again = client.get_samples(2)
    assert again == groups
    client.complete(again)


def test_an_actor_that_finds_no_journal_does_not_begin_again(
    make: Callable[..., SharedDataSource], tmp_path: Path
) -> None:
    client = make()
    client.complete(client.get_samples(3))
    pid = client.stats()["pid"]
    for path in (tmp_path / "run" / "shared").iterdir():
        path.unlink()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(CheckpointError, match=r"run/shared: the journal .* is gone"):
        client.get_samples(1)


def test_a_client_that_is_closed_or_collected_gives_its_groups_back(
    make: Callable[..., SharedDataSource],
) -> None:
    client = make(worker="here")
    with make() as other:
        assert indices(other.get_samples(2)) == [0, 1]
    with pytest.raises(SharedSourceError, match="closed"):
        other.get_samples(1)
    assert client.stats()["num_waiting"] == 2
    third = SharedDataSource(client.args, name=client.name)
    assert indices(third.get_samples(3)) == [0, 1, 2]
    del third
    gc.collect()
    until(lambda: client.stats()["num_waiting"] == 3)


def test_a_draw_waits_for_room_and_gives_up_in_time(
    make: Callable[..., SharedDataSource],
) -> None:
    one = make(worker="one", max_in_flight=3, timeout=0.05)
    two = make(worker="two", max_in_flight=3)
    groups = one.get_samples(3)
    with pytest.raises(CapacityError, match="'one' holds 3"):
        one.get_samples(1)
    drawn: list[Any] = []
    thread = threading.Thread(target=lambda: drawn.extend(two.get_samples(2)))
    thread.start()
    until(lambda: any(w["num_waiting_draws"] for w in one.stats()["workers"]))
    one.complete(groups)
    thread.join(WAIT)
    assert indices(drawn) == [3, 4]
    with pytest.raises(ConfigError, match="4 groups asked for"):
        two.get_samples(4)


def test_warnings_and_errors_come_out_where_the_call_came_from(
    make: Callable[..., SharedDataSource], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = make()
    with pytest.raises(GroupError, match="settled twice, or never handed out"):
        client.complete([make_group(5, 2)])
    with pytest.raises(ConfigError, match="-1"):
        client.get_samples(-1)
    with pytest.raises(AttributeError, match="buffer_filter_path"):
        client.buffer_filter  # noqa: B018
    with pytest.raises(SharedSourceError) as caught:
        make(n_samples_per_prompt=4, slow_after=3)
    assert "n_samples_per_prompt: there 2, here 4" in str(caught.value)
    assert "slow_after: there 600.0, here 3" in str(caught.value)
    with pytest.raises(SharedSourceError, match=r"state_folder: there .*shared.*, here .*other"):
        make(state_folder=tmp_path / "other")
    groups = client.get_samples(1)
    assert indices(groups) == [0]
    client.add_samples(groups)
    client.load_state_dict(client.state_dict())
    assert "1 groups in the buffer are dropped" in caplog.text


def test_data_that_cannot_be_opened_leaves_no_actor_in_the_way(
    make: Callable[..., SharedDataSource], tmp_path: Path
) -> None:
    with pytest.raises(DataNotFoundError):
        make(prompt_data=str(tmp_path / "none.jsonl"))
    until(lambda: _is_free(make))


def _is_free(make: Callable[..., SharedDataSource]) -> bool:
    try:
        return indices(make().get_samples(1)) == [0]
    except (DataNotFoundError, SharedSourceError):
        return False  # the old one is still on its way out


def test_a_name_belongs_to_the_client_that_joined_last(
    make: Callable[..., SharedDataSource],
) -> None:
    old = make(worker="w")
    groups = old.get_samples(2)
    new = pickle.loads(pickle.dumps(old))
    assert indices(new.get_samples(2)) == [0, 1]
    with pytest.raises(GroupError, match="took over the name 'w'"):
        old.complete(groups)
    with pytest.raises(SharedSourceError, match="draws under this name now"):
        old.get_samples(1)
    copies = [pickle.loads(pickle.dumps(make())) for _ in range(2)]
    assert len({copy.worker for copy in copies}) == 2


class Derived(SharedDataSource):
    def __init__(self, args: Any) -> None:
        super().__init__(args, name=args.name, worker="derived")


def test_a_class_that_takes_settings_only_travels_too(
    make: Callable[..., SharedDataSource],
) -> None:
    first = make()
    derived = Derived(SimpleNamespace(**vars(first.args), name=first.name))
    again = pickle.loads(pickle.dumps(derived))
    assert (type(again), again.worker) == (Derived, "derived")
    assert indices(again.get_samples(1)) == [0]


def test_an_interrupted_draw_waits_no_more(make: Callable[..., SharedDataSource]) -> None:
    client, other = make(worker="one", max_in_flight=2), make(worker="two", max_in_flight=2)
    held = other.get_samples(2)
    client.get_samples(0)  # it has joined

    def interrupt() -> None:
        until(lambda: any(w["num_waiting_draws"] for w in other.stats()["workers"]))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        client.get_samples(1)
    thread.join(WAIT)
    assert not any(w["num_waiting_draws"] for w in other.stats()["workers"])
    other.complete(held)
    assert other.stats()["num_in_flight"] == 0


def test_any_name_will_do_and_an_actor_of_another_kind_is_no_source(
    make: Callable[..., SharedDataSource],
) -> None:
    from rolloutds.integrations.ray.lifelines import lifeline

    client = make()
    with pytest.raises(SharedSourceError, match="an actor of another kind has this name"):
        SharedDataSource(client.args, name=lifeline("rolloutds"))
    odd = SharedDataSource(client.args, name=f"../{client.name}/a b")
    assert Path(odd.stats()["journal"]).name.startswith(f".._{client.name}_a_b-")
    other = pickle.loads(pickle.dumps(odd))
    odd.shut_down()
    odd.shut_down()
    other.close()


def test_a_folder_for_the_journal_is_asked_for(make: Callable[..., SharedDataSource]) -> None:
    with pytest.raises(ConfigError, match="state_folder"):
        make(save=None)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"rolloutds\[ray\]"):
        SharedDataSource(SimpleNamespace(), state_folder=tmp_path)


def test_the_package_loads_without_ray() -> None:
    code = "import sys, rolloutds.integrations.ray; sys.exit('ray' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
