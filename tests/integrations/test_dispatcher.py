"""Draws, returns, deaths and crashes at any byte of the journal: every prompt exactly once."""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rolloutds.errors import CheckpointError, ConfigError, GroupError, UnsavableValueError
from rolloutds.integrations.ray import wire
from rolloutds.integrations.ray.dispatcher import Dispatcher, claim_of
from rolloutds.integrations.ray.errors import CapacityError, LeftError, SharedSourceError
from rolloutds.integrations.ray.journal import Journal
from rolloutds.integrations.ray.options import SharedOptions
from rolloutds.integrations.ray.wire import Served
from rolloutds.integrations.ray.workers import Request

NUM_ROWS = 5
SIZE = 2
SEED = 7
IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "proof"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """A dispatcher whose process can be killed, and clients that call it again."""

    def __init__(self, folder: Path, options: SharedOptions | None = None, **args: Any) -> None:
        self.folder = folder
        self.options = options
        rows = [json.dumps({"input": f"row {i}"}) + "\n" for i in range(NUM_ROWS)]
        (folder / "p.jsonl").write_text("".join(rows))
        self.args = SimpleNamespace(
            prompt_data=str(folder / "p.jsonl"),
            rollout_global_dataset=True,
            rollout_shuffle=True,
            rollout_seed=SEED,
            n_samples_per_prompt=SIZE,
            **({"track_in_flight": True} | args),
        )
        self.buffer_filter: Any = None
        self.clock = Clock()
        self.numbers: dict[str, int] = {}
        self.dispatcher: Any = None
        self.restart()

    @property
    def journals(self) -> Path:
        return self.folder / "shared"

    def restart(self) -> None:
        self.close()
        source = Served(self.args)
        if self.buffer_filter is not None:
            source.buffer_filter = self.buffer_filter
        self.dispatcher = Dispatcher(
            source, Journal(self.journals, "run"), self.options, clock=self.clock
        )

    def close(self) -> None:
        if self.dispatcher is not None:
            self.dispatcher.close()

    def request(self, client: str) -> Request:
        number = self.numbers[client] = self.numbers.get(client, -1) + 1
        return Request(client, number, number)

    def join(self, client: str, worker: str | None = None, **more: Any) -> None:
        facts = {"host": "h", "pid": 1, "node": "", "lifeline": None}
        self.dispatcher.join(self.request(client), worker or client, facts, **more)

    def draw(self, client: str, num_groups: int, request: Request | None = None) -> Any:
        """The groups, or None when the draw waits."""
        request = request or self.request(client)
        self.dispatcher.draw(request, client, num_groups)
        outcome = self.dispatcher.outcomes().get(request[:2])
        if isinstance(outcome, Exception):
            raise outcome
        return None if outcome is None else received(outcome)

    def settle(self, client: str, groups: Any, reason: str | None = None, **more: Any) -> None:
        claims = [claim_of(group) for group in groups]
        self.dispatcher.settle(self.request(client), claims, reason, **more)

    def add(self, client: str, groups: Any) -> None:
        groups = pickle.loads(pickle.dumps(groups))
        self.dispatcher.add(self.request(client), groups, [claim_of(g) for g in groups])


def received(reply: Any) -> Any:
    """The groups of an answer, as they come out at the worker's."""
    return wire.unpacked(pickle.loads(pickle.dumps(reply))["groups"])


def indices(groups: Any) -> list[int]:
    return [group[0].group_index for group in groups]


@pytest.fixture
def make_desk(tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    """Makes desks with workers; they are closed after the test."""
    made = []

    def make(clients: str = "ab", options: SharedOptions | None = None, **args: Any) -> Desk:
        made.append(Desk(tmp_path, options, **args))
        for client in clients:
            made[-1].join(client)
        return made[-1]

    yield make
    for desk in made:
        desk.close()


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()


def pop_last(args: object, rollout_id: object, buffer: list[Any], num_samples: int) -> list[Any]:
    taken: list[Any] = []
    while buffer and len(taken) < num_samples:
        taken.append(buffer.pop())
    return taken


def prompt_of(group_index: int) -> str:
    epoch, offset = divmod(group_index, NUM_ROWS)
    order = list(range(NUM_ROWS))
    random.Random(SEED + epoch).shuffle(order)
    return f"row {order[offset]}"


# --- draws and deaths -------------------------------------------------------------------------


def test_two_workers_draw_from_one_order(desk: Desk) -> None:
    served = [desk.draw(client, 2) for client in "abab"]
    assert [indices(groups) for groups in served] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [group[0].prompt for groups in served for group in groups] == [
        prompt_of(i) for i in range(8)
    ]
    assert [sample.index for sample in served[1][1]] == [6, 7]


def test_groups_of_a_worker_that_dies_come_back_first_with_their_indices(desk: Desk) -> None:
    lost = desk.draw("a", 3)
    kept = desk.draw("b", 2)
    desk.settle("a", lost[1:2])
    desk.dispatcher.leave("a", "it died")
    with pytest.raises(GroupError, match="group 0: was requeued: it died"):
        desk.settle("b", lost[:1], worker="a")  # a trainer that was sent it before
    again = desk.draw("b", 3)
    assert indices(again) == [0, 2, 5]
    assert [s.index for s in again[1]] == [4, 5]
    assert again[1] == lost[2]
    desk.settle("b", [*kept, *again])
    with pytest.raises(LeftError, match="it died"):
        desk.draw("a", 1)


def test_groups_of_several_deaths_come_in_the_order_of_their_indices(desk: Desk) -> None:
    desk.join("c")
    for client in ("a", "b", "a", "c"):
        desk.draw(client, 1)
    for client in ("b", "c", "a"):
        desk.dispatcher.leave(client, "it died")
    desk.join("d")
    assert indices(desk.draw("d", 5)) == [0, 1, 2, 3, 4]


def test_a_worker_settles_what_it_holds_and_nothing_else(desk: Desk) -> None:
    groups = desk.draw("a", 2)
    with pytest.raises(GroupError, match=r"group 0: is in flight with worker 'a'"):
        desk.settle("b", groups[:1])
    with pytest.raises(GroupError, match=r"group 1: is in flight with worker 'a'"):
        desk.add("b", groups[1:])
    desk.settle("b", groups[:1], worker="a")  # a trainer, for the worker that generated it
    desk.settle("a", groups[1:], "too long")
    stats = desk.dispatcher.stats()
    assert (stats["num_completed"], stats["num_discarded"]) == (1, {"too long": 1})


def test_who_lost_a_group_hears_it_when_it_settles(desk: Desk) -> None:
    groups = desk.draw("a", 2)
    desk.join("a2", "a")  # the worker was started again while the old process still runs
    with pytest.raises(GroupError, match=r"was requeued: h:1 took over the name 'a'"):
        desk.settle("a", groups)
    with pytest.raises(GroupError, match=r"was requeued"):
        desk.add("a", groups)
    with pytest.raises(SharedSourceError, match="h:1 draws under this name now"):
        desk.draw("a", 1)
    again = desk.draw("b", 2)
    assert indices(again) == [0, 1]
    with pytest.raises(GroupError, match=r"was requeued"):
        desk.settle("a", groups[:1])
    desk.settle("b", again)
    with pytest.raises(GroupError, match=r"was requeued"):
        desk.add("a", groups[:1])


def test_a_client_taken_for_dead_joins_again_and_its_old_groups_stay_lost(desk: Desk) -> None:
    groups = desk.draw("a", 1)
    desk.dispatcher.leave("a", "it died")
    desk.join("a2", "a", previous="a")
    assert indices(desk.draw("b", 1)) == [0]
    with pytest.raises(GroupError, match="was requeued: it died"):
        desk.settle("a2", groups)


def test_a_loaded_state_takes_every_group_from_the_others(desk: Desk) -> None:
    state = desk.dispatcher.state_dict()
    groups = desk.draw("a", 2)
    desk.dispatcher.load_state_dict(desk.request("b"), state)
    assert indices(desk.draw("b", 1)) == [0]
    for settle in (desk.settle, desk.add):
        with pytest.raises(GroupError, match="was requeued: h:1 loaded a state"):
            settle("a", groups)
    assert desk.dispatcher.stats()["workers"][0]["num_requeued"] == 2


# --- limits -----------------------------------------------------------------------------------


def test_what_a_worker_remembers_never_fits_another_group_after_a_load(desk: Desk) -> None:
    state = desk.dispatcher.state_dict()
    held = desk.draw("b", 2)
    desk.dispatcher.load_state_dict(desk.request("a"), state)
    request = desk.request("b")
    desk.dispatcher.draw(request, "b", 1)
    again = desk.dispatcher.outcomes()[request[:2]]
    assert again["serials"] == [2]
    with pytest.raises(GroupError, match="loaded a state"):
        desk.dispatcher.settle(desk.request("b"), [claim_of(held[1], 1)])


def test_a_draw_that_is_abandoned_leaves_its_groups_to_others(desk: Desk) -> None:
    request = desk.request("a")
    first = desk.draw("a", 2, request)
    desk.dispatcher.abandon(request)
    desk.dispatcher.abandon(request)  # Ray made the call again
    with pytest.raises(GroupError, match="its draw was interrupted"):
        desk.settle("a", first)
    assert indices(desk.draw("b", 3)) == [0, 1, 2]
    early = desk.request("a")
    desk.dispatcher.abandon(early)  # it overtook the draw
    assert desk.draw("a", 2, early) == []
    desk.dispatcher.abandon(Request("nobody", 0))
    assert desk.dispatcher.stats()["num_in_flight"] == 3


def test_a_draw_that_is_abandoned_waits_no_more(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(options=SharedOptions(max_in_flight=3))
    held = desk.draw("a", 3)
    request = desk.request("b")
    assert desk.draw("b", 2, request) is None
    desk.dispatcher.abandon(request)
    assert desk.dispatcher.outcomes() == {request[:2]: {"groups": [], "serials": []}}
    desk.settle("a", held)
    assert desk.dispatcher.stats()["num_in_flight"] == 0


def test_a_draw_beyond_the_limit_waits_for_a_settlement(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk("ab", SharedOptions(max_in_flight_per_worker=3))
    groups = desk.draw("a", 2)
    waiting = desk.request("a")
    assert desk.draw("a", 2, waiting) is None
    assert indices(desk.draw("b", 3)) == [2, 3, 4]  # another worker's limit is its own
    assert desk.dispatcher.stats()["workers"][0]["num_waiting_draws"] == 1
    desk.settle("a", groups[:1])
    assert indices(received(desk.dispatcher.outcomes()[waiting[:2]])) == [5, 6]
    with pytest.raises(ConfigError, match="4 groups asked for, and a worker may hold 3"):
        desk.draw("a", 4)


def test_nobody_passes_a_draw_that_waits_for_all(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk("abc", SharedOptions(max_in_flight=4))
    groups = desk.draw("a", 3)
    large, small = desk.request("b"), desk.request("c")
    assert desk.draw("b", 4, large) is None
    assert desk.draw("c", 1, small) is None
    desk.settle("a", groups[:2])
    assert desk.dispatcher.outcomes() == {}
    desk.settle("a", groups[2:])
    assert list(desk.dispatcher.outcomes()) == [large[:2]]
    desk.dispatcher.leave("b", "it died")
    assert indices(received(desk.dispatcher.outcomes()[small[:2]])) == [3]


def test_a_draw_that_gives_up_says_who_holds_what(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk("ab", SharedOptions(max_in_flight=2))
    desk.draw("a", 2)
    desk.clock.now += 90
    request = desk.request("b")
    assert desk.draw("b", 1, request) is None
    error = desk.dispatcher.give_up(request, 5.0)
    assert isinstance(error, CapacityError)
    assert isinstance(error, TimeoutError)
    assert str(error).splitlines()[0] == (
        "worker 'b': no room for 1 groups within 5 s: 'a' holds 2 (the oldest for 90 s), "
        "expected max_in_flight 2"
    )
    assert desk.dispatcher.give_up(request, 5.0) is None


def test_the_draw_of_a_client_that_left_is_answered(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk("a", SharedOptions(max_in_flight_per_worker=1))
    desk.draw("a", 1)
    request = desk.request("a")
    desk.draw("a", 1, request)
    desk.dispatcher.leave("a", "it was closed")
    assert isinstance(desk.dispatcher.outcomes()[request[:2]], LeftError)


def test_the_draw_of_a_worker_whose_name_was_taken_over_is_answered(
    make_desk: Callable[..., Desk],
) -> None:
    desk = make_desk("a", SharedOptions(max_in_flight_per_worker=1))
    desk.draw("a", 1)
    request = desk.request("a")
    desk.draw("a", 1, request)
    desk.join("a2", "a")
    outcome = desk.dispatcher.outcomes()[request[:2]]
    assert isinstance(outcome, SharedSourceError)
    assert "draws under this name now" in str(outcome)


def test_a_state_that_cannot_be_written_takes_the_change_back(desk: Desk) -> None:
    def spoil(args: Any, rollout_id: Any, buffer: list[Any], num_samples: int) -> list[Any]:
        buffer[0][0].metadata["bad"] = {1}
        return [buffer.pop(0)]

    desk.add("a", desk.draw("a", 2))
    desk.dispatcher._source.buffer_filter = spoil
    with pytest.raises(UnsavableValueError, match="set"):
        desk.draw("b", 1)
    assert desk.dispatcher.stats()["num_buffered"] == 2
    assert "bad" not in desk.dispatcher._source.buffer[0][0].metadata
    assert desk.dispatcher.stats()["num_in_flight"] == 0


@pytest.mark.parametrize("limit", [0, -1, True, "8", 1.5])
def test_a_limit_is_a_number_from_1(limit: Any) -> None:
    with pytest.raises(ConfigError, match="max_in_flight"):
        SharedOptions(max_in_flight=limit)


def test_a_limit_needs_the_ledger(make_desk: Callable[..., Desk]) -> None:
    with pytest.raises(ConfigError, match="track_in_flight"):
        make_desk("", SharedOptions(max_in_flight=4), track_in_flight=False)


# --- calls made again -------------------------------------------------------------------------


def test_a_call_made_again_changes_nothing_and_is_answered_alike(desk: Desk) -> None:
    request = desk.request("a")
    groups = desk.draw("a", 2, request)
    for _ in range(2):
        assert desk.draw("a", 2, request) == groups
        desk.restart()
    settled = desk.request("a")
    for _ in range(2):
        desk.dispatcher.settle(settled, [claim_of(groups[0])])
    given = desk.request("a")
    groups[1][0].response = "half"
    for _ in range(2):
        desk.dispatcher.add(given, copy.deepcopy(groups[1:]), [claim_of(groups[1])])
        desk.restart()
    stats = desk.dispatcher.stats()
    assert (stats["num_completed"], stats["num_buffered"], stats["num_in_flight"]) == (1, 1, 0)
    assert stats["num_restarts"] == 4
    assert desk.draw("b", 1)[0][0].response == "half"


def test_answers_that_arrived_are_forgotten_and_their_calls_refused(desk: Desk) -> None:
    first = desk.request("a")
    desk.draw("a", 1, first)
    for _ in range(5):
        desk.draw("a", 1)
    assert len(desk.dispatcher._clients["a"].replies) == 1
    with pytest.raises(SharedSourceError, match="answered already"):
        desk.draw("a", 1, first)


# --- the journal ------------------------------------------------------------------------------


def test_a_restart_goes_on_with_holders_buffer_metadata_and_pins(desk: Desk) -> None:
    torch_like = {"numbers": [1, 2.5, None], 3: ("tuple", b"bytes"), "nan": float("nan")}
    desk.dispatcher.update_metadata(desk.request("a"), torch_like)
    groups = desk.draw("a", 3)
    groups[1][0].reward = float("inf")
    desk.add("a", groups[1:2])
    held = desk.draw("b", 1)  # from the buffer, whole
    desk.dispatcher.leave("a", "it died")
    before = desk.dispatcher.stats()
    desk.restart()
    after = desk.dispatcher.stats()
    for name in ("num_restarts", "journal", "journal_bytes"):
        before.pop(name), after.pop(name)
    assert after == before
    assert repr(desk.dispatcher.metadata()) == repr(torch_like)
    desk.settle("b", held)
    assert indices(desk.draw("b", 3)) == [0, 2, 3]


def test_untouched_groups_that_come_back_are_named_by_their_rows(desk: Desk) -> None:
    desk.add("a", desk.draw("a", 3))
    text = desk.dispatcher._journal.path.read_text()
    assert "row_position" in text
    assert "prompt" not in text.splitlines()[-1]
    desk.restart()
    assert [g[0].prompt for g in desk.draw("b", 3)] == [prompt_of(i) for i in range(3)]


def test_a_value_that_is_not_plain_is_refused_and_nothing_is_added(desk: Desk) -> None:
    groups = desk.draw("a", 1)
    groups[0][0].metadata["bad"] = {1, 2}
    with pytest.raises(UnsavableValueError, match=r"metadata.*'bad'.*set"):
        desk.add("a", groups)
    assert desk.dispatcher.stats()["num_buffered"] == 0
    assert desk.dispatcher.stats()["num_in_flight"] == 1


def test_a_whole_state_is_written_again_before_the_replay_gets_long(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rolloutds.integrations.ray.recorded._GROUPS_REPLAYED", 50)
    first = desk.dispatcher._journal.path
    for _ in range(30):
        desk.settle("a", desk.draw("a", 3))
    assert desk.dispatcher._journal.path.name > first.name
    assert [path.name for path in desk.journals.iterdir()] == [desk.dispatcher._journal.path.name]
    desk.restart()
    assert indices(desk.draw("b", 1)) == [90]


def test_a_change_that_cannot_be_written_down_is_taken_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = desk.draw("a", 2)
    before = desk.dispatcher.stats()

    def fail(file: Any, line: bytes) -> None:
        file.write(line[: len(line) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("rolloutds.integrations.ray.journal._write_all", fail)
        with pytest.raises(CheckpointError, match="No space left"):
            desk.draw("b", 3)
        with pytest.raises(CheckpointError, match="No space left"):
            desk.settle("a", held)
    assert desk.dispatcher.stats() == before
    assert indices(desk.draw("b", 1)) == [2]
    desk.settle("a", held)
    desk.restart()
    assert indices(desk.draw("a", 1)) == [3]


@pytest.mark.parametrize("at", [0, 40, 300])
def test_a_flipped_byte_is_refused_with_its_line(desk: Desk, at: int) -> None:
    for _ in range(4):
        desk.draw("a", 1)
    path = desk.dispatcher._journal.path
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"journal:1: the checksum does not fit"):
        desk.restart()


NUM_RECORDS = 6


def written_journal(folder: Path) -> Journal:
    journal = Journal(folder, "run")
    journal.restart({"number": 0})
    for number in range(1, NUM_RECORDS):
        journal.append({"number": number, "text": "é\u2028\n" * number, "bytes": b"\n"})
    journal.close()
    return journal


def numbers_in(folder: Path) -> list[int]:
    return [record["number"] for record in Journal(folder, "run").read()]


@given(data=st.data())
def test_a_journal_cut_at_any_byte_gives_the_records_that_are_whole(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = written_journal(Path(folder)).path
        content = path.read_bytes()
        size = data.draw(st.integers(content.index(b"\n") + 1, len(content)))
        path.write_bytes(content[:size])
        assert numbers_in(Path(folder)) == list(range(content[:size].count(b"\n")))


@given(data=st.data(), bit=st.integers(0, 7))
def test_a_journal_with_any_bit_flipped_is_refused(data: st.DataObject, bit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = written_journal(Path(folder)).path
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= 1 << bit
        path.write_bytes(content)
        if at == len(content) - 1:  # the last line end: as if the record had been cut short
            assert numbers_in(Path(folder)) == list(range(NUM_RECORDS - 1))
            return
        with pytest.raises(CheckpointError, match=r"run\.000001\.journal:\d+: "):
            numbers_in(Path(folder))


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="file"):
        Journal(tmp_path / "file", "run").restart({})
    (tmp_path / "run.000001.journal").mkdir()
    with pytest.raises(CheckpointError, match=r"run\.000001\.journal: cannot be read"):
        list(Journal(tmp_path, "run").read())


def test_a_durable_journal_flushes_every_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    for durable in (False, True):
        journal = Journal(tmp_path, "run", durable=durable)
        journal.restart({})
        journal.append({})
        journal.close()
        assert len(flushed) == 2 * durable


def test_a_journal_of_another_format_is_refused(desk: Desk) -> None:
    journal = Journal(desk.journals, "run")
    list(journal.read())
    line = b'{"format_version":9}'
    import zlib

    journal.path.write_bytes(b"%08x\t%s\n" % (zlib.crc32(line), line))
    with pytest.raises(CheckpointError, match="journal format version 9"):
        desk.restart()


def test_stats_show_who_is_slow(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk("ab", SharedOptions(slow_after=10))
    slow, quick = desk.draw("a", 1), desk.draw("b", 2)
    desk.clock.now += 4
    desk.settle("b", quick)
    desk.clock.now += 8
    one, two = desk.dispatcher.stats()["workers"]
    assert (one["is_slow"], one["oldest_seconds"], one["median_seconds"]) == (True, 12.0, None)
    assert (two["is_slow"], two["oldest_seconds"], two["median_seconds"]) == (False, None, 4.0)
    assert two["last_call_seconds"] == 8.0
    desk.settle("a", slow)
    assert desk.dispatcher.stats()["workers"][0]["is_slow"] is False


def test_a_restart_that_finds_no_journal_is_refused(desk: Desk, tmp_path: Path) -> None:
    desk.close()
    source, journal = Served(desk.args), Journal(tmp_path / "elsewhere", "run")
    with pytest.raises(CheckpointError, match=r"elsewhere: the journal .* is gone"):
        Dispatcher(source, journal, is_restart=True)
    assert not (tmp_path / "elsewhere").exists()


def test_a_change_that_cannot_be_taken_back_either_ends_every_wait(
    make_desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: Any, line: bytes) -> None:
        raise OSError(28, "No space left on device")

    desk = make_desk("abc", SharedOptions(max_in_flight=1, max_in_flight_per_worker=1))
    held = desk.draw("a", 1)
    waiting = {client: desk.request(client) for client in "bc"}
    assert [desk.draw(client, 1, request) for client, request in waiting.items()] == [None, None]
    desk.dispatcher._journal.path.unlink()
    monkeypatch.setattr("rolloutds.integrations.ray.journal._write_all", fail)
    with pytest.raises(CheckpointError, match="is gone"):
        desk.settle("a", held)
    assert desk.dispatcher.is_lost
    outcomes = desk.dispatcher.outcomes()
    assert set(outcomes) == {request.ticket for request in waiting.values()}
    assert {type(outcome) for outcome in outcomes.values()} == {CheckpointError}


def test_a_state_that_did_not_fit_leaves_no_file(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    names = sorted(path.name for path in desk.journals.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(CheckpointError, match="No space left"):
            desk.dispatcher._journal.restart({})
    assert sorted(path.name for path in desk.journals.iterdir()) == names


# --- anything, in any order -------------------------------------------------------------------


class SharedMachine(RuleBasedStateMachine):
    """Workers that draw, return and die, and a source that is killed at any byte it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="rolloutds-shared-"))
        self.num_clients = 0
        self.num_drawn = 0
        self.num_edits = 0
        self.waiting: list[int] = []
        self.buffer: list[int] = []
        self.held: dict[str, dict[int, Any]] = {}
        self.responses: dict[int, str] = {}
        self.done: list[int] = []

    def teardown(self) -> None:
        try:
            self._finish()
        finally:
            if hasattr(self, "desk"):
                self.desk.close()
            shutil.rmtree(self.folder)

    @initialize(chosen=st.sampled_from([None, pop_last]))
    def start(self, chosen: Any) -> None:
        self.desk = Desk(self.folder)
        self.desk.buffer_filter = chosen
        self.desk.restart()
        self.join()

    # --- calls that may be cut short ------------------------------------------------------

    def _call(self, data: Any, client: str, make: Callable[[Request], Any]) -> Any:
        request = self.desk.request(client)
        fate = data.draw(st.sampled_from(["fine", "fine", "fine", "unanswered", "cut short"]))
        before = {path.name: path.read_bytes() for path in self.desk.journals.iterdir()}
        answer = make(request)
        if fate == "fine":
            return answer
        if fate == "cut short":
            self._cut(data, before)
        self.desk.restart()
        again = make(request)
        assert again == answer
        return again

    def _cut(self, data: Any, before: dict[str, bytes]) -> None:
        """The folder as it is when the process dies while it writes the record."""
        path = self.desk.dispatcher._journal.path
        written = path.read_bytes()
        if path.name in before:
            whole = len(before[path.name])
            cut = data.draw(st.integers(whole, max(whole, len(written) - 1)))
            path.write_bytes(written[:cut])
            return
        path.unlink()  # it takes its name once it is whole
        path.with_suffix(".new").write_bytes(written[: len(written) // 2])
        for name, content in before.items():
            (self.desk.journals / name).write_bytes(content)

    # --- what happens ---------------------------------------------------------------------

    @precondition(lambda self: len(self.held) < 4)
    @rule()
    def join(self) -> None:
        name = f"w{self.num_clients}"
        self.num_clients += 1
        self.desk.join(name)
        self.held[name] = {}

    @precondition(lambda self: self.held)
    @rule(data=st.data(), num_groups=st.integers(0, NUM_ROWS + 2))
    def draw(self, data: Any, num_groups: int) -> None:
        client = data.draw(st.sampled_from(sorted(self.held)))
        groups = self._call(
            data, client, lambda request: self.desk.draw(client, num_groups, request)
        )
        assert indices(groups) == self._expected(num_groups)
        for group in groups:
            index = group[0].group_index
            assert [sample.prompt for sample in group] == [prompt_of(index)] * SIZE
            assert [sample.index for sample in group] == [SIZE * index, SIZE * index + 1]
            assert group[0].response == self.responses.get(index, "")
            self.held[client][index] = group

    @precondition(lambda self: self.held)
    @rule(data=st.data(), num_groups=st.integers(1, NUM_ROWS))
    def interrupt(self, data: Any, num_groups: int) -> None:
        client = data.draw(st.sampled_from(sorted(self.held)))
        request = self.desk.request(client)
        groups = self.desk.draw(client, num_groups, request)
        assert indices(groups) == self._expected(num_groups)
        self._call(data, client, lambda _: self.desk.dispatcher.abandon(request))
        self.waiting = sorted([*self.waiting, *indices(groups)])

    def _expected(self, num_groups: int) -> list[int]:
        taken = [self.waiting.pop(0) for _ in range(min(num_groups, len(self.waiting)))]
        while self.buffer and len(taken) < num_groups:
            taken.append(self.buffer.pop(-1 if self.desk.buffer_filter else 0))
        num_fresh = num_groups - len(taken)
        taken += range(self.num_drawn, self.num_drawn + num_fresh)
        self.num_drawn += num_fresh
        return taken

    def _some(self, data: Any) -> tuple[str, list[Any]]:
        client = data.draw(st.sampled_from(sorted(c for c, held in self.held.items() if held)))
        some = data.draw(
            st.lists(st.sampled_from(sorted(self.held[client])), unique=True, min_size=1)
        )
        return client, [self.held[client].pop(index) for index in some]

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), reason=st.sampled_from([None, None, "too long"]))
    def settle(self, data: Any, reason: str | None) -> None:
        client, groups = self._some(data)
        claims = [claim_of(group) for group in groups]
        self._call(
            data, client, lambda request: self.desk.dispatcher.settle(request, claims, reason)
        )
        self.done += indices(groups)

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), is_edited=st.booleans())
    def give_back(self, data: Any, is_edited: bool) -> None:
        client, groups = self._some(data)
        if is_edited:
            self.num_edits += 1
            groups[0][0].response = f"edit {self.num_edits}"
            self.responses[groups[0][0].group_index] = f"edit {self.num_edits}"
        claims = [claim_of(group) for group in groups]
        self._call(
            data,
            client,
            lambda request: self.desk.dispatcher.add(request, copy.deepcopy(groups), claims),
        )
        self.buffer += indices(groups)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def die(self, data: Any) -> None:
        client = data.draw(st.sampled_from(sorted(self.held)))
        groups = self.held.pop(client)
        self.desk.dispatcher.leave(client, "it died")
        self.waiting = sorted([*self.waiting, *groups])
        for index in groups:
            with pytest.raises(LeftError):
                self.desk.settle(client, [groups[index]])

    @rule()
    def kill_the_source(self) -> None:
        self.desk.restart()

    # --- what must hold -------------------------------------------------------------------

    @invariant()
    def every_group_is_in_one_place(self) -> None:
        held = [index for groups in self.held.values() for index in groups]
        places = [*self.waiting, *self.buffer, *held, *self.done]
        assert sorted(places) == list(range(self.num_drawn))

    @invariant()
    def the_dispatcher_says_so(self) -> None:
        if not hasattr(self, "desk"):
            return
        stats = self.desk.dispatcher.stats()
        assert stats["cursor"]["sample_group_index"] == self.num_drawn
        assert stats["num_waiting"] == len(self.waiting)
        assert stats["num_buffered"] == len(self.buffer)
        assert stats["num_completed"] + sum(stats["num_discarded"].values()) == len(self.done)
        seen = {w["name"]: w["num_in_flight"] for w in stats["workers"] if w["is_alive"]}
        assert seen == {client: len(held) for client, held in self.held.items()}

    def _finish(self) -> None:
        """All workers die, and one that comes completes the epoch: each prompt exactly once."""
        if not hasattr(self, "desk"):
            return
        for client in list(self.held):
            self.desk.dispatcher.leave(client, "it died")
        self.desk.join("last")
        target = -(-max(self.num_drawn, 1) // NUM_ROWS) * NUM_ROWS
        while len(self.done) < target:
            groups = self.desk.draw("last", 1)
            self.desk.settle("last", groups)
            self.done += indices(groups)
        assert sorted(self.done) == list(range(target))


TestSharedMachine = SharedMachine.TestCase
TestSharedMachine.settings = settings(
    settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci")),
    max_examples=400 if IS_LONG else 25,
    stateful_step_count=60 if IS_LONG else 30,
)
