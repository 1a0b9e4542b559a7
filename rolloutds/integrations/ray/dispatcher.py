"""One source, many workers: who holds which group, and what was said to whom.

Nothing here knows Ray. Every public method is one step of a single-threaded machine: it changes
everything it has to and writes it to the journal, or changes nothing and raises.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from rolloutds import buffer as buffer_rules
from rolloutds.errors import ConfigError, GroupError
from rolloutds.in_flight import DrawnGroup, check_reason, identity_of
from rolloutds.integrations.ray import wire
from rolloutds.integrations.ray.errors import CapacityError, LeftError, SharedSourceError
from rolloutds.integrations.ray.journal import Journal, Record
from rolloutds.integrations.ray.options import SharedOptions
from rolloutds.integrations.ray.recorded import Recorded, Reply
from rolloutds.integrations.ray.waiting_draws import Asked, no_room
from rolloutds.integrations.ray.wire import Claim
from rolloutds.integrations.ray.workers import Client, Request, Ticket, Worker
from rolloutds.sample import SampleGroup
from rolloutds.source import RolloutDataSourceWithBuffer
from rolloutds.state_copy import StateCopier
from rolloutds.torch_file import to_live
from rolloutds.torch_file.pickled import collector_paused

_GONE_KEPT: Final = 100


class Dispatcher(Recorded):
    """Hands groups of one source out to workers, and takes them back.

    Args:
        source: where the groups come from; new, and nobody else's.
        journal: where what happens is written down; None: nowhere. What it holds is resumed from.
        options: limits.
        is_restart: whether there was one before, whose journal must be there.
        clock: the time (Unix time, s).

    Attributes:
        options: limits.

    Raises:
        CheckpointError: the journal is damaged or missing, or does not fit the source.
    """

    def __init__(
        self,
        source: RolloutDataSourceWithBuffer,
        journal: Journal | None = None,
        options: SharedOptions | None = None,
        *,
        is_restart: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(source, journal, clock)
        self.options = options or SharedOptions()
        self._check_options()
        self._resume(is_restart=is_restart)

    def _check_options(self) -> None:
        if self.options.most_at_once is not None and not self.tracks:
            raise ConfigError(
                "a limit on groups in flight, and groups in flight are not tracked",
                hint="set track_in_flight",
            )

    @property
    def tracks(self) -> bool:
        """Whether groups in flight are tracked."""
        return self._source.config.track_in_flight

    # --- who there is ---------------------------------------------------------------------

    def join(
        self, request: Request, worker: str, facts: dict[str, Any], previous: str | None = None
    ) -> None:
        """Takes a worker in; one of another client under that name has lost it, and its groups.

        Args:
            request: the call.
            worker: the name it draws under.
            facts: `host`, `pid`, `node` and `lifeline` of the client.
            previous: key of the client that this one was, before it was taken for dead.

        Raises:
            LeftError: the client left already.
        """
        client = self._clients.get(request.client)
        if client is not None and not client.is_alive:
            raise self._left(request.client)
        if client is None or request.number not in client.replies:
            self._do(request, "join", worker=worker, facts=facts, previous=previous)

    def _apply_join(self, record: Record) -> None:
        client = self._clients.get(record["client"])
        if client is None:
            client = Client(record["client"], **record["facts"])
            self._clients[client.key] = client
        if record["previous"] in self._clients:
            client.lost |= self._clients[record["previous"]].lost
        worker = self._workers.get(record["worker"])
        if worker is None:
            worker = self._workers[record["worker"]] = Worker(record["worker"], client.key)
        elif worker.client != client.key:
            self._take_back([worker], f"{client.place} took over the name {worker.name!r}")
            worker.client = client.key
            self._refuse_waiting(lambda asked: asked.worker == worker.name)
        worker.last_call = record["time"]

    def leave(self, key: str, why: str) -> None:
        """A client is gone: its groups are served again first. Nothing happens when it left.

        Args:
            key: the client.
            why: what became of it: "it died", "it was closed".
        """
        client = self._clients.get(key)
        if client is not None and client.is_alive:
            self._do(Request(key, -1), "leave", why=why)
            self._serve_waiting()

    def _apply_leave(self, record: Record) -> None:
        client = self._clients[record["client"]]
        client.is_alive, client.why_left = False, record["why"]
        client.replies.clear()
        self._refuse_waiting(lambda asked: asked.request.client == client.key)
        own = [worker for worker in self._workers.values() if worker.client == client.key]
        self._take_back(own, record["why"])
        self._forget_old_clients()

    def _refuse_waiting(self, is_refused: Callable[[Asked], bool]) -> None:
        for asked in self._waiting.remove_all(is_refused):
            client = self._clients[asked.request.client]
            self._outcomes[asked.request.ticket] = (
                self._taken_over(asked.worker) if client.is_alive else self._left(client.key)
            )

    def _take_back(self, workers: Iterable[Worker], why: str) -> None:
        """Puts the groups that workers hold back to the front."""
        self._requeue([serial for worker in workers for serial in worker.held], why)

    def _requeue(self, serials: Sequence[int], why: str) -> None:
        for serial in serials:
            worker = self._workers[self._holders.pop(serial)]
            self._clients[worker.client].lost[self._ledger.drawn(serial).identity] = why
            worker.num_requeued += 1
            del worker.held[serial]
        self._ledger.requeue(sorted(serials))

    def _forget_old_clients(self) -> None:
        gone = [client.key for client in self._clients.values() if not client.is_alive]
        for key in gone[:-_GONE_KEPT]:
            del self._clients[key]
            for name in [w.name for w in self._workers.values() if w.client == key]:
                del self._workers[name]

    def clients(self) -> list[Client]:
        """The clients that are alive."""
        return [client for client in self._clients.values() if client.is_alive]

    def _client(self, request: Request) -> Client:
        client = self._clients.get(request.client)
        if client is None or not client.is_alive:
            raise self._left(request.client)
        if request.number < client.answered_below:
            raise SharedSourceError(
                f"call {request.number} was answered already", where=f"worker {client.place}"
            )
        client.forget_replies(request.answered_below)
        return client

    def _left(self, key: str) -> LeftError:
        client = self._clients.get(key)
        return LeftError(
            f"this client is none of the source's any more: {client.why_left}"
            if client is not None and client.why_left
            else "this client is not known to the source",
            where=f"worker {client.place}" if client is not None else None,
            hint="its groups are served to others; draw again",
        )

    def _own_worker(self, client: Client, name: str) -> Worker:
        worker = self._workers.get(name)
        if worker is None or worker.client != client.key:
            raise self._taken_over(name)
        return worker

    def _taken_over(self, name: str) -> SharedSourceError:
        worker = self._workers.get(name)
        owner = self._clients[worker.client].place if worker is not None else None
        return SharedSourceError(
            f"{owner} draws under this name now" if owner else "no such worker",
            where=f"worker {name!r}",
            expected="a name of its own for every worker",
        )

    # --- drawing --------------------------------------------------------------------------

    def draw(
        self, request: Request, worker: str, num_samples: int, rollout_id: int | None = None
    ) -> None:
        """Asks for groups; the answer is among the `outcomes`, at once or when there is room.

        Raises:
            ConfigError: more groups than the limits ever allow, or no number of groups.
            LeftError: the client left.
            SharedSourceError: another client took the worker's name over.
        """
        client = self._client(request)
        if request.number in client.replies:
            self._outcomes[request.ticket] = client.replies[request.number]
            return
        self._own_worker(client, worker)
        number = self._checked_number(num_samples)
        if request.ticket not in self._waiting:
            self._waiting.add(Asked(request, worker, number, _plain_id(rollout_id)))
            self._serve_waiting()

    def _checked_number(self, num_samples: Any) -> int:
        try:
            number = operator.index(num_samples)
        except TypeError as error:
            raise ConfigError(
                f"{num_samples!r:.60} groups asked for", expected="a whole number"
            ) from error
        most = self.options.most_at_once
        if most is not None and number > most:
            raise ConfigError(
                f"{number} groups asked for, and a worker may hold {most}",
                expected=f"at most {most} groups a draw",
                hint="raise max_in_flight_per_worker or max_in_flight",
            )
        return number

    def outcomes(self) -> dict[Ticket, Reply | Exception]:
        """Answers to draws that were not fetched yet, by client and number of the call."""
        taken, self._outcomes = self._outcomes, {}
        return taken

    def give_up(self, request: Request, seconds: float) -> CapacityError | None:
        """Ends the wait of a draw; gives the error that says who holds what, None: it was served.

        Args:
            request: the draw.
            seconds: how long it waited.
        """
        asked = self._waiting.remove(request.ticket)
        if asked is None:
            return None
        return no_room(asked, seconds, self._workers.values(), self.options, self._clock())

    def _serve_waiting(self) -> None:
        for asked in self._waiting.ready(self._has_own_room, self._has_common_room):
            self._outcomes[asked.request.ticket] = self._served(asked)
            if self.is_lost:
                return

    def _has_own_room(self, asked: Asked) -> bool:
        num_held = len(self._workers[asked.worker].held)
        return self.options.has_own_room(num_held + asked.num_groups)

    def _has_common_room(self, asked: Asked) -> bool:
        return self.options.has_common_room(len(self._holders) + asked.num_groups)

    def _served(self, asked: Asked) -> Reply | Exception:
        try:
            reply: Reply = self._do(
                asked.request,
                "draw",
                worker=asked.worker,
                num_groups=asked.num_groups,
                rollout_id=asked.rollout_id,
            )
        except Exception as error:  # the answer to whoever asked, whatever a filter raises
            return error
        return reply

    def _apply_draw(self, record: Record) -> Reply:
        worker, num_groups = self._workers[record["worker"]], record["num_groups"]
        before = self._ledger.num_recorded
        with collector_paused():
            groups = self._source.get_samples(num_groups, record["rollout_id"])
        serials = range(before, self._ledger.num_recorded)
        worker.take(serials, record["time"])
        worker.num_draws += 1
        worker.num_drawn += num_groups
        self._holders.update(dict.fromkeys(serials, worker.name))
        lost = self._clients[worker.client].lost
        if lost:
            for serial in serials:
                lost.pop(self._ledger.drawn(serial).identity, None)
        return {"groups": wire.packed(groups), "serials": list(serials) if self.tracks else None}

    def abandon(self, request: Request) -> None:
        """Ends a draw that nobody waits for any more: its groups are served again first.

        Args:
            request: the draw, whether it was served, waits for room, or has not come yet.
        """
        client = self._clients.get(request.client)
        if client is not None and client.is_alive:
            reply = client.replies.get(request.number)
            drawn = (reply["serials"] or ()) if reply else ()
            held = [serial for serial in drawn if serial in self._holders]
            self._outcomes[request.ticket] = self._do(request, "abandon", serials=held)
            self._waiting.remove(request.ticket)
            self._serve_waiting()

    def _apply_abandon(self, record: Record) -> Reply:
        self._requeue(record["serials"], "its draw was interrupted")
        return {"groups": [], "serials": [] if self.tracks else None}

    # --- groups that come back ------------------------------------------------------------

    def settle(
        self,
        request: Request,
        claims: Sequence[Claim],
        reason: str | None = None,
        worker: str | None = None,
    ) -> None:
        """Takes groups out of the ledger: completed, or discarded for a reason.

        Args:
            request: the call.
            claims: the groups.
            reason: why they are discarded; None: they were completed.
            worker: whose they are; None: the client's own.

        Raises:
            GroupError: one of them is not in flight with that worker; nothing is changed.
            LeftError: the client left.
        """
        client = self._client(request)
        if request.number in client.replies:
            return
        self._source._require_ledger("complete" if reason is None else "discard")
        if reason is not None:
            check_reason(reason)
        serials = self._serials_of(client, claims)
        self._check_holders(client, serials, worker)
        self._do(request, "settle", serials=serials, reason=reason)
        self._serve_waiting()

    def _serials_of(self, client: Client, claims: Sequence[Claim]) -> list[int]:
        serials = [c.serial for c in claims if c.serial is not None and c.serial in self._ledger]
        if len(set(serials)) == len(claims):
            return serials
        groups = [self._recognised(claim, claim.stub()) for claim in claims]
        try:
            found: list[int] = self._ledger.serials_of(groups)
        except GroupError:
            for claim in claims:
                self._check_not_lost(client, claim)
            raise
        return found

    def _recognised(self, claim: Claim, group: SampleGroup) -> SampleGroup:
        if claim.serial is not None and claim.serial in self._ledger:
            self._ledger.recognise(claim.serial, group)
        return group

    def _check_not_lost(self, client: Client, claim: Claim) -> None:
        why = client.lost.get(claim.identity) or self._why_waiting(claim)
        if why is not None:
            raise GroupError(
                f"was requeued: {why}",
                where=f"group {claim.identity.group_index}",
                expected="a group that the worker still holds",
                hint="drop what was generated for it: another draw serves it again",
            )

    def _why_waiting(self, claim: Claim) -> str | None:
        """Why a group is to be served again, where another client than the caller's lost it."""
        if all(drawn.identity != claim.identity for drawn in self._ledger.waiting):
            return None
        lost = (client.lost.get(claim.identity) for client in self._clients.values())
        return next(filter(None, lost), None)

    def _check_holders(self, client: Client, serials: Iterable[int], worker: str | None) -> None:
        for serial in serials:
            holder = self._workers[self._holders[serial]]
            if holder.name == worker or (worker is None and holder.client == client.key):
                continue
            identity = self._ledger.drawn(serial).identity
            self._check_not_lost(client, Claim(identity, serial))
            raise GroupError(
                f"is in flight with worker {holder.name!r}",
                where=f"group {identity.group_index}",
                expected="a group that the caller drew",
                hint=f"worker={holder.name!r} settles what that worker holds",
            )

    def _apply_settle(self, record: Record) -> None:
        self._release(record["serials"], record["time"], record["reason"])
        self._ledger.settle(record["serials"], record["reason"])

    def _release(self, serials: Iterable[int], now: float, reason: str | None) -> None:
        for serial in serials:
            worker = self._workers[self._holders.pop(serial)]
            worker.settle(serial, now)
            if reason is None:
                worker.num_completed += 1
            else:
                worker.num_discarded += 1

    def add(
        self,
        request: Request,
        groups: list[SampleGroup],
        claims: Sequence[Claim],
        worker: str | None = None,
    ) -> None:
        """Puts groups in the buffer, all or none.

        Args:
            request: the call.
            groups: the groups, with their samples.
            claims: which they are, in the same order.
            worker: whose they are; None: the client's own.

        Raises:
            GroupError: as the plain source, and for a group that the worker holds no more.
            UnsavableValueError: a value is not plain data: the journal could not hold it.
            LeftError: the client left.
        """
        client = self._client(request)
        if request.number in client.replies:
            return
        buffer_rules.check_groups(groups, self._source.config.n_samples_per_prompt)
        wire.arrived(groups)
        for claim, group in zip(claims, groups, strict=True):
            self._recognised(claim, group)
        self._check_returning(client, groups, claims, worker)
        described = self._described(groups)
        self._do(
            request,
            "add",
            _groups=groups,
            groups=[group.state_dict() for group in described],
            claims=[[*claim.identity, claim.serial] for claim in claims],
        )
        self._serve_waiting()

    def _check_returning(
        self,
        client: Client,
        groups: Sequence[SampleGroup],
        claims: Sequence[Claim],
        worker: str | None,
    ) -> None:
        for claim, group in zip(claims, groups, strict=True):
            found = self._ledger.returning([group])
            self._check_holders(client, found.serials, worker)
            if not found.serials:
                self._check_not_lost(client, claim)
                if claim.serial is not None and not found.waiting:
                    raise GroupError(
                        "was settled, or given back already",
                        where=f"group {claim.identity.group_index}",
                        expected="each group once after every draw",
                        hint="nothing was added",
                    )

    def _described(self, groups: Sequence[SampleGroup]) -> list[DrawnGroup]:
        """The groups as they stand, those that nobody touched by their rows."""
        source, copier = self._source, StateCopier()
        described = [source._describe(group, copier) for group in groups]
        if source.dataset is None:
            return described
        return source._row_names(source.dataset, source.cursor).shorten(described)

    def _apply_add(self, record: Record) -> None:
        groups = record.get("_groups")
        if groups is None:
            groups = self._source._revive([wire.drawn_of(state) for state in record["groups"]])
            for group, (*_, serial) in zip(groups, record["claims"], strict=True):
                if serial is not None and serial in self._ledger:
                    self._ledger.recognise(serial, group)
        serials = self._ledger.returning(groups).serials
        self._source.add_samples(groups)
        for serial in serials:
            worker = self._workers[self._holders.pop(serial)]
            worker.settle(serial, record["time"])
            worker.num_returned += 1

    # --- metadata and states --------------------------------------------------------------

    def update_metadata(self, request: Request, metadata: dict[str, Any]) -> None:
        """Adds to the free-form values saved with the state.

        Raises:
            UnsavableValueError: a value is not plain data.
        """
        if request.number not in self._client(request).replies:
            self._do(request, "metadata", metadata=metadata)

    def _apply_metadata(self, record: Record) -> None:
        self._source.update_metadata(to_live(record["metadata"]))

    def snapshot(self, request: Request, rollout_id: int) -> None:
        """Pins the state as of that rollout, for a later `save`."""
        if request.number not in self._client(request).replies:
            self._do(request, "snapshot", rollout_id=_plain_id(rollout_id))

    def _apply_snapshot(self, record: Record) -> None:
        self._source.snapshot(record["rollout_id"])

    def save(self, request: Request, rollout_id: int) -> None:
        """Writes the run's checkpoint file of that rollout, as the plain source does."""
        client = self._client(request)
        if request.number not in client.replies:
            self._source.save(rollout_id)
            self._answered(client, request)

    def load(self, request: Request, rollout_id: int | None = None) -> None:
        """Resumes from the checkpoint of that rollout: no worker holds anything any more."""
        client = self._client(request)
        if request.number not in client.replies and self._source.config.load is not None:
            self._replace_state(
                client, request, lambda: self._source.load(rollout_id), f"rollout {rollout_id}"
            )

    def load_state_dict(self, request: Request, state: dict[str, Any]) -> None:
        """Takes over a state: no worker holds anything any more."""
        client = self._client(request)
        if request.number not in client.replies:
            self._replace_state(
                client, request, lambda: self._source.load_state_dict(state), "a state"
            )

    def _replace_state(
        self, client: Client, request: Request, load: Callable[[], None], what: str
    ) -> None:
        before = self._ledger
        held = {
            worker.name: [before.drawn(serial).identity for serial in worker.held]
            for worker in self._workers.values()
        }
        load()
        # What a worker still remembers of a group must never fit another one.
        self._ledger.resume([], before.num_recorded)
        for worker in self._workers.values():
            owner = self._clients[worker.client]
            if owner is not client:  # who loads knows what it does
                why = f"{client.place} loaded {what}"
                owner.lost |= dict.fromkeys(held[worker.name], why)
            worker.num_requeued += len(worker.held)
            worker.held = {}
        client.lost = {}
        self._holders = {}
        self._answered(client, request)
        self._serve_waiting()

    def _answered(self, client: Client, request: Request) -> None:
        """Keeps the whole state, for what is no record."""
        client.replies[request.number] = None
        self._write_state()

    # --- what there is to see -------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The source's state, as the plain source gives it."""
        return self._source.state_dict()

    def metadata(self) -> dict[str, Any]:
        """A copy of the free-form values saved with the state."""
        copied: dict[str, Any] = StateCopier().copy(self._source.get_metadata())
        return copied

    def look(self) -> dict[str, Any]:
        """Counts and numbers that a client shows as its attributes."""
        source = self._source
        return {
            "cursor": source.cursor,
            "num_rows": len(source),
            "num_buffered": source.get_buffer_length(),
            "num_in_flight": len(self._ledger),
            "num_waiting": len(self._ledger.waiting),
            "num_completed": self._ledger.num_completed,
            "num_discarded": dict(self._ledger.num_discarded),
            "num_removed_not_returned": source.num_removed_not_returned,
            "num_by_policy": dict(source.num_by_policy),
        }

    def stats(self) -> dict[str, Any]:
        """What the source and its workers stand at, as plain values; times in seconds."""
        seen = self.look()
        return {
            **seen,
            "cursor": seen["cursor"].state_dict(),
            "max_in_flight_per_worker": self.options.max_in_flight_per_worker,
            "max_in_flight": self.options.max_in_flight,
            "slow_after": self.options.slow_after,
            "num_restarts": self.num_restarts,
            "journal": None if self._journal is None else str(self._journal.path),
            "journal_bytes": 0 if self._journal is None else self._journal.num_bytes,
            "workers": [self._stats_of(worker) for worker in self._workers.values()],
        }

    def _stats_of(self, worker: Worker) -> dict[str, Any]:
        return {
            **worker.stats(self._clock(), self.options.slow_after),
            **self._clients[worker.client].whereabouts(),
            "num_waiting_draws": sum(asked.worker == worker.name for asked in self._waiting),
        }


def _plain_id(rollout_id: Any) -> Any:
    """A number that JSON takes; anything else is left for the source to refuse."""
    try:
        return operator.index(rollout_id)
    except TypeError:
        return rollout_id


def claim_of(group: Any, serial: int | None = None) -> Claim:
    """What a worker says of a group.

    Raises:
        GroupError: it is no group.
    """
    return Claim(identity_of(group), serial)
