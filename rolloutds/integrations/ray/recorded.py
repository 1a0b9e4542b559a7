"""A machine whose every change is written to a journal, and that goes on from one.

What the changes are is the business of the class that derives from it: each is a method
``_apply_NAME`` of a record with plain values, called alike when it happens and when it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rolloutds.errors import CheckpointError, RolloutDSError
from rolloutds.filters import pop_first
from rolloutds.in_flight import InFlightLedger
from rolloutds.integrations.ray import wire
from rolloutds.integrations.ray.journal import Journal, Record, encoded
from rolloutds.integrations.ray.waiting_draws import WaitingDraws
from rolloutds.integrations.ray.workers import Client, Request, Ticket, Worker
from rolloutds.source import RolloutDataSourceWithBuffer

Reply = dict[str, Any]
# A whole state is written again when reading the records since the last one costs as much as
# drawing this many groups, or several times those that the state holds.
_GROUPS_REPLAYED: Final = 20_000
_JOURNAL_BYTES: Final = 64 << 20


class Recorded:
    """A source and its workers, written down.

    Args:
        source: where the groups come from.
        journal: where what happens is written down; None: nowhere.
        clock: the time (Unix time, s).

    Attributes:
        num_restarts: how often a journal was resumed from.
        is_lost: whether a change could neither be written down nor taken back; what this one
            holds is worth nothing then.
    """

    def __init__(
        self,
        source: RolloutDataSourceWithBuffer,
        journal: Journal | None,
        clock: Callable[[], float],
    ) -> None:
        self.num_restarts = 0
        self.is_lost = False
        self._source = source
        self._journal = journal
        self._clock = clock
        self._forget()

    def _forget(self) -> None:
        self._clients: dict[str, Client] = {}
        self._workers: dict[str, Worker] = {}
        self._holders: dict[int, str] = {}  # serial number of a group: name of the worker
        self._waiting = WaitingDraws()
        self._outcomes: dict[Ticket, Reply | Exception] = {}
        self._replay_cost = 0

    @property
    def _ledger(self) -> InFlightLedger:
        return self._source.in_flight

    def _do(self, request: Request, op: str, **arguments: Any) -> Any:
        """Makes one change and writes it down, or neither."""
        record: Record = {"op": op, "client": request.client, "number": request.number}
        record |= {"time": self._clock(), **arguments}
        line = self._line(record)
        can_be_replayed = op != "draw" or self._draws_are_replayable()
        reply = self._apply(record)
        if self._journal is None:
            return reply
        self._replay_cost += 1 + record.get("num_groups", len(record.get("groups", ())))
        if not can_be_replayed or self._is_state_due():
            self._write_state()
        else:
            self._guarded(lambda: self._journal.write(line))  # type: ignore[union-attr]
        return reply

    def _line(self, record: Record) -> bytes:
        if self._journal is None:
            return b""
        return encoded({name: v for name, v in record.items() if not name.startswith("_")})

    def _apply(self, record: Record) -> Any:
        reply = getattr(self, f"_apply_{record['op']}")(record)
        client = self._clients.get(record["client"])
        if client is not None and record["number"] >= 0:
            client.replies[record["number"]] = reply
        return reply

    def _draws_are_replayable(self) -> bool:
        source = self._source
        return not source.buffer or source.buffer_filter is pop_first

    def _is_state_due(self) -> bool:
        assert self._journal is not None
        num_kept = len(self._source.buffer) + len(self._ledger) + len(self._ledger.waiting)
        return self._replay_cost > max(
            _GROUPS_REPLAYED, 4 * num_kept
        ) or self._journal.num_bytes > max(_JOURNAL_BYTES, 64_000 * num_kept)

    def _write_state(self) -> None:
        if self._journal is not None:
            self._guarded(lambda: self._journal.restart(self._state()))  # type: ignore[union-attr]
            self._replay_cost = 0

    def _guarded(self, write: Callable[[], None]) -> None:
        """A change that cannot be written down is taken back."""
        try:
            write()
        except Exception:
            waiting, outcomes = self._waiting, self._outcomes
            self._forget()
            self._outcomes = outcomes
            try:
                self._require_journal(was_there=self._read_journal())
            except Exception as error:
                self.is_lost = True
                outcomes.update((asked.request.ticket, error) for asked in waiting)
                raise
            self._waiting = waiting
            raise

    def _state(self) -> Record:
        source, ledger = self._source, self._ledger
        return {
            "num_restarts": self.num_restarts,
            "source": source.state_dict(),
            "serials": ledger.serials,
            "num_recorded": ledger.num_recorded,
            "snapshots": source._snapshots.state_dict(),
            "num_removed_not_returned": source.num_removed_not_returned,
            "num_by_policy": dict(source.num_by_policy),
            "workers": [worker.state_dict() for worker in self._workers.values()],
            "clients": [
                {"client": client.state_dict(), "replies": self._plain_replies(client)}
                for client in self._clients.values()
            ],
        }

    def _plain_replies(self, client: Client) -> list[Any]:
        return [
            [number, reply and reply | {"groups": wire.plain(reply["groups"], self._source)}]
            for number, reply in client.replies.items()
        ]

    def _resume(self, *, is_restart: bool) -> None:
        if self._journal is not None:
            was_there = self._read_journal()
            if is_restart:
                self._require_journal(was_there=was_there)
            self.num_restarts += was_there
            self._journal.restart(self._state())

    def _require_journal(self, *, was_there: bool) -> None:
        """Starting from nothing again would serve what is trained already."""
        if not was_there:
            assert self._journal is not None
            raise CheckpointError(
                "the journal of the shared source is gone",
                where=str(self._journal.folder),
                expected="the journal that it left",
                hint="name a state_folder that every machine sees; if the files are lost, shut "
                "the source down, make a new one and load the last checkpoint",
            )

    def _read_journal(self) -> bool:
        """Takes over what the journal holds; False when there is none."""
        assert self._journal is not None
        records = self._journal.read()
        state = next(records, None)
        if state is None:
            return False
        try:
            self._take_over(state)
            for record in records:
                self._apply(record)
        except RolloutDSError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"its records do not fit together ({type(error).__name__}: {error})",
                where=str(self._journal.path),
                expected="the journal of this source",
            ) from error
        return True

    def _take_over(self, state: Record) -> None:
        source = self._source
        source.load_state_dict(state["source"])
        source._snapshots.load_state_dict(state["snapshots"])
        source.num_removed_not_returned = state["num_removed_not_returned"]
        source.num_by_policy.clear()
        source.num_by_policy.update(state["num_by_policy"])
        self._ledger.resume(state["serials"], state["num_recorded"])
        self.num_restarts = state["num_restarts"]
        self._workers = {w["name"]: Worker.from_state(w) for w in state["workers"]}
        self._holders = {s: w.name for w in self._workers.values() for s in w.held}
        for entry in state["clients"]:
            client = Client.from_state(entry["client"])
            client.replies = {
                number: reply and reply | {"groups": wire.travelling(reply["groups"], source)}
                for number, reply in entry["replies"]
            }
            self._clients[client.key] = client

    def close(self) -> None:
        """Closes the journal."""
        if self._journal is not None:
            self._journal.close()
