"""Picking up what receivers spooled while the database could not be written."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from pillarbox.errors import InvalidInput, SessionExists, Unavailable
from pillarbox.hooks import pickup, strands
from pillarbox.hooks.listeners import LONGEST_TYPE
from pillarbox.hooks.model import Checked
from pillarbox.hooks.pickup import Batch, Record
from pillarbox.hooks.spool import VERSION
from pillarbox.hooks.store import headless_id
from pillarbox.sessions import Session, Sessions
from pillarbox.sessions.registry import check_session
from pillarbox.storage import Database, Step
from pillarbox.telemetry import logger
from pillarbox.text import check_json, check_name

log = logger(__name__)

_LATEST = datetime(9000, 1, 1, tzinfo=UTC)


class Spooled(msgspec.Struct, frozen=True):
    """What the spool holds: sessions with events, how long the oldest waits, and files of what nobody can store."""

    files: int = 0
    oldest_age_seconds: float | None = None
    broken: int = 0


class SpooledEvent(msgspec.Struct, frozen=True):
    """One record of the spool."""

    key: Annotated[str, Meta(min_length=1, max_length=64)]
    event_type: str
    payload: dict[str, Any]
    at: Annotated[float, Meta(ge=0, le=_LATEST.timestamp())]
    session_id: str | None = None
    native_session_id: Annotated[str, Meta(min_length=1)] | None = None
    agent: str | None = None


class Intake:
    """Brings spooled events to the database, in order, each once."""

    def __init__(self, database: Database, sessions: Sessions, folder: Path | None) -> None:
        self._database = database
        self._sessions = sessions
        self._folder = folder
        self._running = asyncio.Lock()

    async def step(self) -> int:
        """Take what the spool holds now; answers how many events were stored."""
        if self._folder is None or not self._folder.is_dir():
            return 0
        async with self._running:
            return await asyncio.to_thread(self._take_all, self._folder)

    async def waiting(self) -> Spooled:
        """What the spool holds now; of a very large one, as much as is seen at a glance."""
        if self._folder is None:
            return Spooled()
        return Spooled(*await asyncio.to_thread(pickup.waiting, str(self._folder)))

    async def close(self) -> None:
        """Wait for a step that is under way."""
        async with self._running:
            return

    def _take_all(self, folder: Path) -> int:
        stored = 0
        away: Unavailable | None = None
        for batch in pickup.take(str(folder)):
            try:
                stored += self._store(batch)
                away = None
            except Unavailable as error:
                # Once may be this session's trouble; twice running it is the database's.
                if away is not None:
                    raise
                away = error
        if away is not None:
            raise away
        return stored

    def _store(self, batch: Batch) -> int:
        """Store what can be stored and refuse the rest; answers how many events were stored."""
        events: list[SpooledEvent] = []
        refused: list[Record] = []
        for record in batch.records:
            if (event := _read(record)) is not None:
                events.append(event)
            else:
                refused.append(record)
        try:
            self._write(events)
        except Unavailable:
            raise
        except Exception:
            refused += self._store_singly(events)
        if refused:
            log.warning("spooled events could not be stored and were set aside", events=len(refused))
        batch.done(refused)
        return len(batch.records) - len(refused)

    def _store_singly(self, events: Sequence[SpooledEvent]) -> list[Record]:
        """One after the other; answers those that the database does not take, although it would take another."""
        refused = []
        for event in events:
            try:
                self._write([event])
            except Unavailable:
                raise
            except Exception:
                if not self._takes_events():
                    raise
                refused.append({"v": VERSION, **msgspec.to_builtins(event)})
        return refused

    def _write(self, events: Sequence[SpooledEvent]) -> None:
        self._database.write_blocking(lambda: self._absorb(events))

    def _takes_events(self) -> bool:
        """Whether the database takes an event at all; nothing of this one stays."""
        name = f"probe-{uuid.uuid4().hex}"
        event = SpooledEvent(key=name[:64], event_type="error", payload={}, at=0.0, session_id=name)

        def attempt() -> Step[None]:
            yield from self._absorb([event])
            raise _Undo

        try:
            self._database.write_blocking(attempt)
        except _Undo:
            return True
        except Exception:
            return False
        return False

    def _absorb(self, events: Sequence[SpooledEvent]) -> Step[None]:
        clock = self._database.clock
        now = clock.now()
        found: dict[str, str] = {}
        items = []
        for event in events:
            session_id = yield from self._session_of(event, found, now)
            at = min(now, clock.stored(datetime.fromtimestamp(event.at, UTC)))
            text = json.dumps(event.payload, ensure_ascii=False)
            items.append(Checked(session_id, event.event_type, text, at, event.key))
        if items:
            yield from strands.enqueue(items, now=now)

    def _session_of(self, event: SpooledEvent, found: dict[str, str], now: datetime) -> Step[str]:
        """The session that a record names, else the one of its native id; one that does not exist yet is opened headless."""
        name = event.session_id or headless_id(_native(event))
        if name not in found:
            found[name] = name
            native = None if event.session_id else (yield from self._sessions.finding_native(_native(event)))
            if native is not None:
                found[name] = native
            elif not (yield strands.queries.known_sessions(session_ids=[name])):
                yield from self._open(_headless(event, now), now)
        return found[name]

    def _open(self, session: Session, now: datetime) -> Step[None]:
        try:
            yield from self._sessions.opening(session, now)
        except SessionExists:
            # A receiver or another node has just opened it, under the same id.
            return


class _Undo(Exception):
    """Ends a transaction of which nothing is to stay."""


def _read(record: Record) -> SpooledEvent | None:
    """A record as an event; None if it is none, or none that every database can store."""
    try:
        event = msgspec.convert(record, SpooledEvent)
        check_session(_headless(event, _LATEST))
        check_name("event_type", event.event_type, most=LONGEST_TYPE)
        check_json("payload", event.payload)
    except (msgspec.ValidationError, InvalidInput):
        return None
    return event


def _native(event: SpooledEvent) -> str:
    if event.native_session_id is None:
        raise InvalidInput("session_id", "must be given, or the agent's own.")
    return event.native_session_id


def _headless(event: SpooledEvent, now: datetime) -> Session:
    return Session(
        session_id=event.session_id or headless_id(_native(event)),
        title=None,
        lifecycle_status="headless",
        target={"kind": "none"},
        node=None,
        agent=event.agent,
        native_session_id=event.native_session_id,
        created_at=now,
        updated_at=now,
        closed_at=None,
    )
