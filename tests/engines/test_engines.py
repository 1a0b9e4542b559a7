"""Both engines: order, a bounded window, errors, processes that die, and buckets."""

from __future__ import annotations

import pytest

from rolloutds.engines import open_engine
from rolloutds.errors import ConfigError, DataError, EngineError

pytest_plugins = ("tests.ray_cluster",)


@pytest.fixture(params=["in process", "processes", "ray"])
def engine(request, work):
    """Each engine; of Ray the cluster of the session."""
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
        opened = open_engine("ray", 2)
    else:
        opened = open_engine("local", 1 if request.param == "in process" else 2)
    with opened:
        yield opened


@pytest.fixture(params=["processes", "ray"])
def other_processes(request, work):
    """The engines whose tasks run in other processes."""
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
    with open_engine("ray" if request.param == "ray" else "local", 2) as opened:
        yield opened


def test_results_come_in_the_order_of_the_items(engine, work):
    assert list(engine.map(work.double, range(20), common=1)) == [1 + 2 * n for n in range(20)]
    assert list(engine.map(work.double, [])) == []
    assert list(engine.map(work.double, [3])) == [6]


def test_a_slow_first_item_holds_back_a_bounded_number(other_processes, work):
    asked: list[int] = []
    done: list[str] = []

    def items():
        for number in range(100):
            asked.append(number)
            yield number

    results = other_processes.map(
        work.slow_first, items(), names=map(str, range(100)), on_done=done.append
    )
    assert next(results) == 0
    assert len(asked) <= 9
    assert done == ["0"]
    assert list(results) == list(range(1, 100))
    assert done == list(map(str, range(100)))


def test_an_error_of_ours_comes_out_as_itself(engine, work):
    results = engine.map(work.refuse, range(9), common=3)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DataError) as caught:
        next(results)
    assert caught.value.headline == "shard-3: a bad row"
    assert caught.value.hint == "look at it"
    # The engine is as good as new.
    assert list(engine.map(work.double, range(3))) == [0, 2, 4]


def test_any_other_error_shows_its_traceback(other_processes, work):
    with pytest.raises(RuntimeError, match="OddError: does not travel") as caught:
        list(other_processes.map(work.raise_odd, [0]))
    assert "in raise_odd" in str(caught.value)


def test_a_result_that_does_not_travel_is_no_dead_process(work):
    with open_engine("local", 2) as engine, pytest.raises(RuntimeError, match="lambda"):
        list(engine.map(work.return_odd, [0, 1]))


def test_a_task_whose_process_dies_once_is_tried_again(other_processes, work, tmp_path):
    results = list(other_processes.map(work.die_once, range(4), common=str(tmp_path)))
    assert results == [0, 1, 2, 3]
    assert (tmp_path / "died-1").exists()


def test_a_task_whose_process_dies_always_names_its_item(other_processes, work, tmp_path):
    names = ["a.jsonl", "b.jsonl", "c.jsonl"]
    with pytest.raises(EngineError) as caught:
        list(other_processes.map(work.die_always, range(3), common=str(tmp_path), names=names))
    assert caught.value.where == "b.jsonl"
    assert "--jobs" in caught.value.hint
    assert (tmp_path / "tries").read_text() == "xxxx"


def test_buckets_are_gathered_in_the_order_of_the_items(engine, work):
    with engine.partitions(3) as partitions:
        items = [list(range(n)) for n in range(6)]
        assert list(partitions.map(work.split, items)) == [0, 1, 2, 3, 4, 5]
        gathered = list(partitions.reduce(work.gather, common="said", name="numbers"))
    expected = [[[n for n in item if n % 3 == bucket] for item in items] for bucket in range(3)]
    assert gathered == [("said", pieces) for pieces in expected]


def test_an_error_in_a_task_that_splits_comes_out_as_itself(engine, work):
    with engine.partitions(3) as partitions, pytest.raises(DataError, match="a bad row"):
        list(partitions.map(work.split_or_refuse, range(4), common=2))


def test_buckets_of_a_task_that_was_tried_again_are_there_once(other_processes, work, tmp_path):
    with other_processes.partitions(3) as partitions:
        assert list(partitions.map(work.split_and_die_once, range(3), common=str(tmp_path))) == [
            0,
            1,
            2,
        ]
        gathered = list(partitions.reduce(work.gather, name="numbers"))
    assert gathered == [(None, [[0], [1], [2]])] * 3


def test_a_bucket_whose_process_dies_is_named(work):
    with open_engine("local", 2) as engine, engine.partitions(3) as partitions:
        list(partitions.map(work.split, [[0]]))
        with pytest.raises(EngineError) as caught:
            list(partitions.reduce(work.gather_and_die, name="duplicates"))
    assert caught.value.where == "duplicates, bucket 1 of 3"


def test_engines_are_known_by_name(monkeypatch):
    with pytest.raises(ConfigError, match="expected one of local, ray"):
        open_engine("spark")
    with pytest.raises(ConfigError, match="the engine is local"):
        open_engine("local", ray_address="auto")
    assert open_engine("local", 0).num_tasks >= 1
    assert open_engine().is_in_process
