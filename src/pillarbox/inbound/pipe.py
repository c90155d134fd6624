"""The door of the inbound pipe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, TypeVar

import msgspec

from pillarbox.audit import Act, Audit
from pillarbox.engine import Batch, Bell, Chore, Delivered, Drain, Lease, Outcome, Pace, Policy, Retry, WatchedLane
from pillarbox.engine.judgement import not_begun
from pillarbox.inbound import acting, reading, strands
from pillarbox.inbound.confirmation import confirm
from pillarbox.inbound.edge import check_new_message
from pillarbox.inbound.lane import InboundLane, Rescue
from pillarbox.inbound.model import (
    Enqueued,
    InboundMessage,
    InboundStatus,
    MessageType,
    NewMessage,
    Parcel,
    QueueState,
    Status,
)
from pillarbox.inbound.policy import InboundPolicy
from pillarbox.inbound.positions import Position
from pillarbox.inbound.strands import Checked
from pillarbox.inbound.targets import Targets, place
from pillarbox.inbound.targets.function import Deliver
from pillarbox.inbound.targets.targets import IsWorking
from pillarbox.inbound.upkeep import Pruned
from pillarbox.process import is_dead
from pillarbox.seldom import Seldom
from pillarbox.sessions import Session, Sessions
from pillarbox.storage import DAMAGED, Database, News, Step
from pillarbox.telemetry import Metrics, logger
from pillarbox.telemetry.traces import current_trace, somebody_traces, traced
from pillarbox.text import printable

log = logger(__name__)

DeliverT = TypeVar("DeliverT", bound=Deliver)
Attempting = Callable[[InboundMessage, Awaitable[Outcome]], Awaitable[Outcome]]
"""Whoever wants to be around each delivery; it answers the delivery's own outcome."""
Prepare = Callable[[InboundMessage], Awaitable[InboundMessage | Outcome]]
"""Whoever makes a voice message or a file ready for its target, or tells why that has to wait."""

_MOST_TOGETHER = 256
_PRUNE_EVERY = 60.0
_STRAIGHTEN_EVERY = 30.0
_BURY_EVERY = 1.0
_DAMAGED = f"{DAMAGED} Or let go of it with `pillarbox inbound expire`, and the next of its session goes."


class Inbound:
    """Takes messages in, brings them to their sessions, and lets operators look and act."""

    def __init__(
        self,
        database: Database,
        *,
        policy: InboundPolicy,
        node: str,
        holder: str,
        metrics: Metrics,
        random: Random,
        sessions: Sessions,
    ) -> None:
        self._database = database
        self._clock = database.clock
        self._audit = Audit(database)
        self.glance = Seldom(self.status)
        self._policy = policy
        self._metrics = metrics.inbound
        self._batch: Batch[Checked, Enqueued] = Batch(self._enqueue_set, most=_MOST_TOGETHER, at_once=2)
        self._targets = Targets(node=node, clock=database.clock, adopted=partial(acting.adopt, sessions))
        self.bell = Bell()
        self.lane = InboundLane(
            database,
            serves=self._targets.serves,
            rescue=Rescue(policy.deaths, timedelta(seconds=policy.backoff.longest)),
            gate=policy.startup_gate,
            sessions=sessions,
        )
        self.drain: Drain[Parcel] = Drain(
            WatchedLane(self.lane, metrics.works.lanes["inbound"]),
            self._deliver,
            policy=Policy(policy.backoff),
            lease=Lease(holder, policy.lease),
            pace=Pace(policy.concurrency, policy.timeout, policy.poll),
            clock=database.clock,
            bell=self.bell,
            random=random,
            observe=self._observe,
        )
        self._metrics.inflight.set_function(lambda: self.drain.in_flight)
        self.attempting: Attempting = _unwatched
        self.prepare: Prepare | None = None
        sessions.follow(self)

    async def enqueue(
        self,
        *,
        session_id: str,
        origin: str,
        content: str = "",
        message_type: MessageType = "text",
        payload: Any = None,
        actor_id: str | None = None,
        actor_name: str | None = None,
        actor_avatar_url: str | None = None,
        source_message_id: str | None = None,
        source_channel_id: str | None = None,
    ) -> Enqueued:
        """Store one message; when this returns it is on disk, and a source id that was used before made no second one."""
        new = NewMessage(
            session_id=session_id,
            origin=origin,
            content=content,
            message_type=message_type,
            payload=payload,
            actor_id=actor_id,
            actor_name=actor_name,
            actor_avatar_url=actor_avatar_url,
            source_message_id=source_message_id,
            source_channel_id=source_channel_id,
        )
        return await self.put(new)

    async def put(self, new: NewMessage, *, position: Position | None = None) -> Enqueued:
        """Store one message; concurrent callers share a transaction, and an adapter's position moves in it."""
        answer = await self._batch.add(Checked(new, check_new_message(new), position, current_trace()))
        if answer.duplicate:
            self._metrics.duplicates.inc()
        else:
            self._metrics.enqueued.inc()
            self.bell.ring()
        return answer

    async def get(self, message_id: int) -> InboundMessage:
        return self._shown(await self._database.read(partial(reading.get, message_id)))

    async def list(
        self, *, session_id: str | None = None, status: Status | None = None, limit: int = 100, after: int = 0
    ) -> list[InboundMessage]:
        """Messages by id, or by seq within one session, from the one after `after`."""
        work = partial(reading.page, session_id=session_id, status=status, limit=limit, after=after)
        return [self._shown(message) for message in await self._database.read(work)]

    async def queue(self, session_id: str) -> QueueState:
        """What waits for one session, and what it waits for."""
        return reading.shown_queue(await self._database.read(partial(reading.queue, session_id)), self._clock.shown)

    async def status(self) -> InboundStatus:
        """What waits in all."""
        status = await self._database.read(partial(reading.status, self._clock.now()))
        self._metrics.queue_length.set(status.pending + status.failed)
        self._metrics.oldest_age_seconds.set(status.oldest_age_seconds or 0)
        return status

    async def retry(self, message_id: int) -> InboundMessage:
        """Try a waiting message now; one in flight is left alone, one behind others keeps its place."""
        now = self._clock.now()
        act = Act("retry", "inbound", str(message_id))
        message = await self._audit.write(act, lambda: acting.hasten(message_id, now))
        self._wake()
        return self._shown(message)

    async def expire(self, message_id: int) -> InboundMessage:
        """Give a message up, so that the next of its session can go."""
        now = self._clock.now()
        act = Act("expire", "inbound", str(message_id))
        message = await self._audit.write(act, lambda: self.expiring(message_id, now))
        self.after_acting([message])
        return self._shown(message)

    def expiring(self, message_id: int, now: datetime) -> Step[InboundMessage]:
        """The giving up as a step of a transaction."""
        return (yield from acting.expire(message_id, now, self._policy.startup_gate))

    def after_acting(self, messages: Sequence[InboundMessage]) -> None:
        """Messages were hastened or given up, and that is on disk."""
        for message in messages:
            if message.status == "expired":
                self.drain.drop(message.session_id, row_id=message.id)
                self._metrics.expired.inc()
        self._wake()

    def target(self, name: str) -> Callable[[DeliverT], DeliverT]:
        """Decorate a callable to make it the target `{"kind": "python", "name": name}`; one that is not async gets a thread."""

        def register(deliver: DeliverT) -> DeliverT:
            self._targets.register(name, deliver)
            self.bell.ring()
            return deliver

        return register

    async def prune(self) -> Pruned:
        """Delete messages whose retention is over, a bounded number of them; answers how many and whether there may be more."""
        now = self._clock.now()
        return await self.lane.prune_by_origin(
            lambda origin: now - self._policy.retention(origin), latest=now - self._policy.shortest_retention
        )

    def chores(self) -> Sequence[Chore]:
        return [
            Chore("inbound.prune", _PRUNE_EVERY, self._prune),
            Chore("inbound.straighten", _STRAIGHTEN_EVERY, self._straighten),
            Chore("inbound.bury", _BURY_EVERY, self.bury),
        ]

    async def close(self) -> None:
        await self._targets.close()

    def opened(self, session: Session, now: datetime) -> Step[None]:
        placement = place(session.target, session.node, here=self._targets.node)
        state = "starting" if session.lifecycle_status == "initializing" else "open"
        yield strands.queries.open_strand(
            session_id=session.session_id,
            destination=placement.destination,
            served_by=placement.served_by,
            state=state,
        )

    def changed(self, before: Session, session: Session, now: datetime) -> Step[None]:
        """A new target or a session that is ready may well take what the old one did not: its head is due now."""
        state = "starting" if session.lifecycle_status == "initializing" else "open"
        locked = (yield from strands.lock({session.session_id}))[session.session_id]
        if (before.target, before.node) == (session.target, session.node):
            # Where it is served stays as it is, whichever node makes this change.
            yield strands.queries.change_state(session_id=session.session_id, state=state)
        else:
            placement = place(session.target, session.node, here=self._targets.node)
            yield strands.queries.change_strand(
                session_id=session.session_id,
                destination=placement.destination,
                served_by=placement.served_by,
                state=state,
            )
        if locked.head_seq is None:
            return
        if state == "starting" and locked.state == "open":
            yield strands.queries.postpone(session_id=session.session_id, due_at=now + self._policy.startup_gate)
        elif state == "open" and _elsewhere(before, session):
            yield from strands.hasten(session.session_id, locked.head_seq, now)

    def closed(self, session_id: str, now: datetime, reason: str | None) -> Step[int]:
        return (yield from strands.close(session_id, now=now, reason=reason))

    def confirming(self, prompts: Sequence[tuple[str, str]], now: datetime) -> Step[None]:
        """Agents say that they were given these prompts: the messages they carry are confirmed."""
        yield from confirm(prompts, now)

    def after_change(self, session_id: str) -> None:
        self._wake()

    def after_close(self, session_id: str, ended: int) -> None:
        self._metrics.expired.inc(ended)
        self.drain.drop(session_id)
        self._database.ring()

    def heard(self, news: News) -> None:
        """Another process committed something: there may be work, or a hold of ours may have been taken away."""
        if news.has_work_for("inbound"):
            self.bell.ring_from_thread()
        if not news.only_work:
            self.drain.renewal.poke()

    def _wake(self) -> None:
        self.bell.ring()
        self._database.ring()

    async def _enqueue_set(self, items: Sequence[Checked]) -> Sequence[Enqueued | Exception]:
        work = partial(strands.enqueue, items, now=self._clock.now(), gate=self._policy.startup_gate)
        return await self._database.write_new(work, pipe="inbound")

    async def _deliver(self, parcel: Parcel) -> Outcome:
        if not parcel.intact:
            return Retry(_DAMAGED)
        if parcel.starting:
            seconds = self._policy.startup_gate.total_seconds()
            return Retry(f"The session is still initializing after {seconds:g} s.", counts=False)
        work = self.attempting(parcel.message, self._prepared(parcel))
        if not somebody_traces():
            return await work
        return await traced("inbound", work, parent=parcel.trace, row_id=parcel.id, attempt=parcel.attempt_count)

    async def _prepared(self, parcel: Parcel) -> Outcome:
        if self.prepare is not None and parcel.message.message_type != "text":
            with not_begun():
                prepared = await self.prepare(parcel.message)
            if not isinstance(prepared, InboundMessage):
                return prepared
            parcel = msgspec.structs.replace(parcel, message=prepared)
        return await self._targets.deliver(parcel)

    def ask_whether_working(self, is_working: IsWorking) -> None:
        """Let targets know whether the agent of a session is at work on something."""
        self._targets.is_working = is_working

    def _observe(self, parcel: Parcel, outcome: Outcome, seconds: float) -> None:
        self._metrics.observe_delivery(self._targets.kind(parcel), seconds)
        match outcome:
            case Delivered():
                self._metrics.delivered.inc()
            case Retry():
                self._metrics.failed_attempts.inc()
                log.warning(
                    "a message was not delivered; it will be tried again",
                    id=parcel.id,
                    session_id=parcel.message.session_id,
                    attempt=parcel.attempt_count,
                    cause=printable(outcome.error, 200),
                )

    async def bury(self) -> bool:
        """Take over at once from processes of this machine that have died."""
        if await self.lane.bury(is_dead, now=self._clock.now()):
            self.bell.ring()
        return False

    async def _prune(self) -> bool:
        return (await self.prune()).more

    async def _straighten(self) -> bool:
        policy = self._policy
        longest = timedelta(seconds=policy.backoff.longest) + policy.startup_gate
        await self.lane.straighten(clock=self._clock, longest_wait=longest, lease=policy.lease)
        return False

    def _shown(self, message: InboundMessage) -> InboundMessage:
        return reading.shown(message, self._clock.shown)


def _elsewhere(before: Session, after: Session) -> bool:
    """Whether messages end somewhere else now, or a session that was not ready is."""
    return (before.target, before.node, before.lifecycle_status) != (after.target, after.node, after.lifecycle_status)


async def _unwatched(_: InboundMessage, delivery: Awaitable[Outcome]) -> Outcome:
    return await delivery
