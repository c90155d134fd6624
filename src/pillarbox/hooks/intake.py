"""Picking up what receivers spooled while the database could not be written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import uuid_utils
from msgspec import Meta

from pillarbox.hooks import spool, strands
from pillarbox.hooks.listeners import LONGEST_TYPE
from pillarbox.hooks.strands import Checked
from pillarbox.sessions import Session, Sessions
from pillarbox.sessions.registry import LONGEST_ID
from pillarbox.storage import Database, Step
from pillarbox.telemetry import logger

log = logger(__name__)

_Key = Annotated[str, Meta(min_length=1, max_length=64)]
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)


class Spooled(msgspec.Struct, frozen=True):
    """One record of the spool."""

    key: _Key
    event_type: Annotated[str, Meta(min_length=1, max_length=LONGEST_TYPE)]
    payload: dict[str, Any]
    at: Annotated[float, Meta(ge=0, le=_LATEST.timestamp())]
    session_id: Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)] | None = None
    native_session_id: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    agent: Annotated[str, Meta(max_length=100)] | None = None


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

    async def close(self) -> None:
        """Wait for a step that is under way."""
        async with self._running:
            return

    def _take_all(self, folder: Path) -> int:
        stored = 0
        for batch in spool.take(str(folder)):
            records = [record for each in batch.records if (record := _read(each)) is not None]
            self._database.write_blocking(lambda records=records: self._absorb(records))  # type: ignore[misc]
            batch.done()
            stored += len(records)
        return stored

    def _absorb(self, records: Sequence[Spooled]) -> Step[None]:
        clock = self._database.clock
        now = clock.now()
        found: dict[tuple[str, str], str] = {}
        items = []
        for record in records:
            session_id = yield from self._session_of(record, found, now)
            if session_id is not None:
                at = min(now, clock.stored(datetime.fromtimestamp(record.at, UTC)))
                text = json.dumps(record.payload, ensure_ascii=False)
                items.append(Checked(session_id, record.event_type, text, at, record.key))
        if items:
            yield from strands.enqueue(items, now=now)

    def _session_of(self, record: Spooled, found: dict[tuple[str, str], str], now: datetime) -> Step[str | None]:
        """The session that a record names, else the one of its native id; one that does not exist yet is opened headless."""
        name = ("session", record.session_id) if record.session_id else ("native", record.native_session_id or "")
        if not name[1]:
            return None
        if name not in found:
            if record.session_id:
                known = yield strands.queries.known_sessions(session_ids=[record.session_id])
                session_id = record.session_id if known else None
            else:
                session_id = yield from self._sessions.finding_native(name[1])
            if session_id is None:
                session = _headless(record, now)
                session_id = session.session_id
                yield from self._sessions.opening(session, now)
            found[name] = session_id
        return found[name]


def _read(record: dict[str, Any]) -> Spooled | None:
    try:
        return msgspec.convert(record, Spooled)
    except msgspec.ValidationError:
        log.warning("a spooled event has the wrong form and was left out")
        return None


def _headless(record: Spooled, now: datetime) -> Session:
    return Session(
        session_id=record.session_id or str(uuid_utils.uuid7()),
        title=None,
        lifecycle_status="headless",
        target={"kind": "none"},
        node=None,
        agent=record.agent,
        native_session_id=record.native_session_id,
        created_at=now,
        updated_at=now,
        closed_at=None,
    )
