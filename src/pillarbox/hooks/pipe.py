"""The door of the hooks pipe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from random import Random
from typing import Any, TypeVar

import msgspec

from pillarbox.audit import Act, Audit
from pillarbox.engine import Batch, Bell, Chore, Delivered, Drain, Failed, Lease, Outcome, Pace, Policy, Retry
from pillarbox.engine.watched import WatchedLane
from pillarbox.errors import TooMany
from pillarbox.hooks import acting, agent_state, lone, reading, strands
from pillarbox.hooks.edge import check_new_event
from pillarbox.hooks.intake import Intake, Spooled
from pillarbox.hooks.lane import HookLane, Rescue
from pillarbox.hooks.listeners import Listen, Listeners, judge
from pillarbox.hooks.model import (
    AgentState,
    Checked,
    HookEvent,
    HookRecord,
    HookRow,
    HooksStatus,
    NewEvent,
    Status,
    Stored,
)
from pillarbox.hooks.offers import hands_over
from pillarbox.hooks.policy import HooksPolicy
from pillarbox.hooks.tail import Tail
from pillarbox.hooks.transcripts import codex_transcript
from pillarbox.process import is_dead
from pillarbox.seldom import Seldom
from pillarbox.sessions import Sessions
from pillarbox.storage import DAMAGED, Database, News, Step
from pillarbox.telemetry import Metrics, logger
from pillarbox.telemetry.traces import somebody_traces, traced
from pillarbox.text import printable

log = logger(__name__)

ListenT = TypeVar("ListenT", bound=Listen)
Confirm = Callable[[Sequence[tuple[str, str]], datetime], Step[None]]

_MOST_TOGETHER = 256
_MOST_FOLLOWERS = 64
_PRUNE_EVERY = 60.0
_STRAIGHTEN_EVERY = 30.0
_BURY_EVERY = 1.0
_LONGEST_NATIVE_ID = 255


class Hooks:
    """Takes events in, lets them take effect on their sessions in order, and tells whoever listens."""

    def __init__(
        self,
        database: Database,
        *,
        policy: HooksPolicy,
        holder: str,
        metrics: Metrics,
        random: Random,
        sessions: Sessions,
        confirm: Confirm,
    ) -> None:
        self._database = database
        self._clock = database.clock
        self._audit = Audit(database)
        self.glance = Seldom(self.status)
        self._policy = policy
        self._metrics = metrics.hooks
        self._sessions = sessions
        self._confirm = confirm
        self._listeners = Listeners(policy.forward_url)
        self._batch: Batch[Checked, Stored] = Batch(self._enqueue_set, most=_MOST_TOGETHER, at_once=2)
        self._store_one = partial(lone.hand_over, clock=self._clock) if hands_over(database) else lone.append
        self._tails: set[Tail] = set()
        self._intake = Intake(database, sessions, policy.spool_dir)
        self.bell = Bell()
        self.lane = HookLane(
            database,
            rescue=Rescue(policy.deaths, timedelta(seconds=policy.backoff.longest)),
            limit=policy.strand_limit,
            take_effect=self._take_effect,
            superseded=self._metrics.superseded.inc,
            settled=self._ring_tails,
        )
        self.drain: Drain[HookRow] = Drain(
            WatchedLane(self.lane, metrics.works.lanes["hooks"]),
            self._deliver,
            policy=Policy(policy.backoff, judge),
            lease=Lease(holder, policy.lease),
            pace=Pace(policy.concurrency, policy.timeout, policy.poll),
            clock=database.clock,
            bell=self.bell,
            random=random,
            observe=self._observe,
        )
        self._metrics.inflight.set_function(lambda: self.drain.in_flight)

    async def post(self, session_id: str, event_type: str, payload: dict[str, Any] | None = None) -> Stored:
        """Store one event; when this returns it is on disk."""
        return await self.put(NewEvent(session_id=session_id, event_type=event_type, payload=payload or {}))

    async def put(self, new: NewEvent) -> Stored:
        """The same, of an event as it came in."""
        stored = await self._batch.add(check_new_event(new, self._clock.now()))
        self._metrics.stored.inc()
        self.bell.ring()
        return stored

    def on(self, *event_types: str) -> Callable[[ListenT], ListenT]:
        """Decorate a callable to be given every event of these types, or of all; it may be given an event twice.

        What it raises makes the event be tried again, and its session's later events wait; `PermanentError` closes the event.
        """

        def register(listen: ListenT) -> ListenT:
            self._listeners.add(event_types, listen)
            return listen

        return register

    @asynccontextmanager
    async def follow(self, last_id: int | None = None) -> AsyncIterator[AsyncIterator[HookEvent | None]]:
        """Delivered events as they come, from now on or behind one seen before; None now and then while there is none."""
        if len(self._tails) >= _MOST_FOLLOWERS:
            raise TooMany(f"{_MOST_FOLLOWERS} others follow the events of this process already; try again later.")
        tail = Tail(self._database)
        self._tails.add(tail)
        try:
            await tail.begin(last_id)
            async with aclosing(tail.events()) as events:
                yield events
        finally:
            self._tails.discard(tail)

    async def get(self, event_id: int) -> HookRecord:
        return self._shown(await self._database.read(lambda: reading.get(event_id)))

    async def list(
        self, *, session_id: str | None = None, status: Status | None = None, limit: int = 100, after: int = 0
    ) -> list[HookRecord]:
        """Events in the order they came, from the one after `after`: an id, or a `seq` within one session."""
        work = partial(reading.page, session_id=session_id, status=status, limit=limit, after=after)
        return [self._shown(record) for record in await self._database.read(work)]

    async def status(self) -> HooksStatus:
        now = self._clock.now()
        found = await self._database.read(lambda: reading.status(now))
        spool = await self.spooled()
        found = msgspec.structs.replace(
            found, spooled=spool.files, spool_age_seconds=spool.oldest_age_seconds, broken=spool.broken
        )
        self._metrics.spooled.set(spool.files)
        self._metrics.queue_length.set(found.pending + found.processing + found.failed)
        self._metrics.oldest_age_seconds.set(found.oldest_age_seconds or 0)
        self._metrics.dead_length.set(found.dead)
        return found

    async def spooled(self) -> Spooled:
        """What receivers of this machine could not store yet."""
        return await self._intake.waiting()

    async def agent_state(self, session_id: str) -> AgentState | None:
        """What the session's events have told about its agent."""
        state = await self._database.read(lambda: reading.agent_state(session_id))
        return reading.shown_agent(state, self._clock.shown) if state else None

    async def retry(self, event_id: int) -> HookRecord:
        """Try a waiting event now; a dead one goes again, behind what its session has waiting."""
        now = self._clock.now()
        act = Act("retry", "event", str(event_id))
        record = await self._audit.write(act, lambda: acting.retry(event_id, now))
        self.after_acting()
        return self._shown(record)

    def after_acting(self) -> None:
        """Events were hastened or go again, and that is on disk."""
        self._wake()

    async def prune(self) -> tuple[int, bool]:
        """Delete a bounded number of events whose retention is over; how many, and whether there may be more."""
        return await self.lane.prune_stretch(before=self._clock.now() - self._policy.retention)

    async def pick_up(self) -> bool:
        """Store what receivers left in the spool; answers whether there may be more at once."""
        stored = await self._intake.step()
        if stored:
            self._metrics.stored.inc(stored)
            self._metrics.picked_up.inc(stored)
            self._wake(by_new=True)
        return bool(stored)

    def chores(self) -> Sequence[Chore]:
        return [
            Chore("hooks.spool", self._policy.poll, self.pick_up),
            Chore("hooks.prune", _PRUNE_EVERY, self._prune),
            Chore("hooks.straighten", _STRAIGHTEN_EVERY, self._straighten),
            Chore("hooks.bury", _BURY_EVERY, self.bury),
        ]

    async def close(self) -> None:
        await self._intake.close()
        await self._listeners.close()

    def heard(self, news: News) -> None:
        """Another process committed something: there may be work, or a hold of ours may have been taken away."""
        if news.has_work_for("hooks"):
            self.bell.ring_from_thread()
        if news.has_work_for("hooks") or not news.only_work:
            # Whoever delivers says nothing of that: where more comes, some may have been delivered.
            self._ring_tails()
        if not news.only_work:
            self.drain.renewal.poke()

    async def bury(self) -> bool:
        """Take over at once from processes of this machine that have died."""
        if await self.lane.bury(is_dead, now=self._clock.now()):
            self.bell.ring()
        return False

    def _ring_tails(self) -> None:
        for tail in tuple(self._tails):
            tail.ring()

    def _wake(self, *, by_new: bool = False) -> None:
        self.bell.ring()
        self._database.ring("hooks" if by_new else "")

    async def _enqueue_set(self, items: Sequence[Checked]) -> Sequence[Stored | Exception]:
        work = partial(strands.enqueue_alone, items, now=self._clock.now(), store_one=self._store_one)
        return await self._database.write_new(work, pipe="hooks")

    async def _deliver(self, row: HookRow) -> Outcome:
        if row.payload is None:
            return Failed("The payload is not a JSON object." if row.intact else DAMAGED)
        if row.event_type == "agent_stop" and row.payload.get("agent") == "codex":
            await _complete_transcript(row.payload)
        event = HookEvent(row.id, row.session_id, row.event_type, row.payload, row.attempt_count)
        told = self._listeners.tell(event)
        if not somebody_traces():
            return await told
        return await traced("hooks", told, parent=row.trace, row_id=row.id, attempt=row.attempt_count)

    def _take_effect(self, rows: Sequence[HookRow], now: datetime) -> Step[None]:
        """What ended changes its session, in the transaction that closes it: once, whatever crashes."""
        yield strands.queries.advance_agents(rows=agent_state.merged(rows))
        for group in _locked_together(rows):
            yield from self._anchor(group, now)
            prompts = [
                (row.session_id, prompt)
                for row in group
                if row.event_type == "user_prompt_submit"
                and isinstance(prompt := (row.payload or {}).get("prompt"), str)
            ]
            if prompts:
                yield from self._confirm(prompts, now)

    def _anchor(self, rows: Sequence[HookRow], now: datetime) -> Step[None]:
        for row in rows:
            if row.event_type == "session_start":
                payload = row.payload or {}
                yield from self._sessions.anchoring(
                    row.session_id,
                    agent=_name_of(payload, "agent", most=100),
                    native_session_id=_name_of(payload, "native_session_id", most=_LONGEST_NATIVE_ID),
                    now=now,
                )

    def _observe(self, row: HookRow, outcome: Outcome, seconds: float) -> None:
        self._metrics.took.observe(seconds)
        match outcome:
            case Delivered():
                self._metrics.delivered.inc()
            case Failed():
                self._metrics.dead.inc()
                log.error(
                    "an event was closed with an error",
                    id=row.id,
                    session_id=row.session_id,
                    cause=printable(outcome.error, 200),
                )
            case Retry():
                self._metrics.failed_attempts.inc()
                log.warning(
                    "an event was not taken; it will be tried again",
                    id=row.id,
                    session_id=row.session_id,
                    attempt=row.attempt_count,
                    cause=printable(outcome.error, 200),
                )

    async def _prune(self) -> bool:
        return (await self.prune())[1]

    async def _straighten(self) -> bool:
        longest = timedelta(seconds=self._policy.backoff.longest)
        await self.lane.straighten(clock=self._clock, longest_wait=longest, lease=self._policy.lease)
        return False

    def _shown(self, record: HookRecord) -> HookRecord:
        return reading.shown(record, self._clock.shown)


def _locked_together(rows: Sequence[HookRow]) -> list[Sequence[HookRow]]:
    """Rows whose sessions may be touched at once; where one starts, each session by itself, in the order all lock them in."""
    if not any(row.event_type == "session_start" for row in rows):
        return [rows]
    return [list(of_one) for _, of_one in groupby(rows, key=lambda row: row.session_id)]


async def _complete_transcript(payload: dict[str, Any]) -> None:
    """Codex may not say where it writes: its file is found by its own session id."""
    native_id = _name_of(payload, "native_session_id", most=_LONGEST_NATIVE_ID)
    if native_id and not payload.get("transcript_path"):
        found = await asyncio.to_thread(codex_transcript, native_id)
        if found:
            payload["transcript_path"] = found


def _name_of(payload: dict[str, Any], field: str, *, most: int) -> str | None:
    value = agent_state.text_of(payload, field, most=most)
    return value if value is not None and value.isprintable() else None
