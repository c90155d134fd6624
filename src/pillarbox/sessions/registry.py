"""Opening, changing and closing sessions, with whatever others keep for each of them in the same transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol

import msgspec
import uuid_utils
from msgspec import UNSET

from pillarbox.audit import Act, Audit
from pillarbox.clock import Clock
from pillarbox.errors import InvalidInput, NotFound, SessionClosed, SessionExists
from pillarbox.sessions.model import LIFECYCLES, Channel, Lifecycle, Session, SessionChange
from pillarbox.storage import Database, Row, Step, instant, instant_or_none, load_queries
from pillarbox.text import check_json, check_name, check_text, printable

_queries = load_queries("pillarbox.sessions")

LONGEST_ID = 200
MOST_CHANNELS = 100


class Follower(Protocol):
    """Whoever keeps something for each session; every step runs inside the session's own transaction."""

    def opened(self, session: Session, now: datetime) -> Step[None]: ...

    def changed(self, before: Session, session: Session, now: datetime) -> Step[None]: ...

    def closed(self, session_id: str, now: datetime, reason: str | None) -> Step[int]:
        """Answers how many messages it ended."""

    def after_close(self, session_id: str, ended: int) -> None:
        """Called once the close is on disk, with how many messages all followers ended."""

    def after_change(self, session_id: str) -> None:
        """Called once an opening or a change is on disk."""


class Sessions:
    """The sessions of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._clock: Clock = database.clock
        self._audit = Audit(database)
        self._followers: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        """Let someone keep something for each session, in the session's own transactions."""
        self._followers.append(follower)

    async def open(
        self,
        *,
        target: dict[str, Any],
        session_id: str | None = None,
        title: str | None = None,
        lifecycle_status: Lifecycle = "active",
        node: str | None = None,
        agent: str | None = None,
        native_session_id: str | None = None,
        channels: Iterable[Channel] = (),
    ) -> Session:
        """Make a session, ready for messages when this returns."""
        now = self._clock.now()
        session = Session(
            session_id=session_id if session_id is not None else str(uuid_utils.uuid7()),
            title=title,
            lifecycle_status=lifecycle_status,
            target=target,
            node=node,
            agent=agent,
            native_session_id=native_session_id,
            created_at=now,
            updated_at=now,
            closed_at=None,
            channels=tuple(channels),
        )
        check_session(session)
        if lifecycle_status == "closed":
            raise InvalidInput("lifecycle_status", "a new session cannot be closed already.")
        act = Act("open", "session", session.session_id)
        await self._audit.write(act, lambda: self._open(session, now), is_new=True)
        for follower in self._followers:
            follower.after_change(session.session_id)
        return self._shown(session)

    async def get(self, session_id: str) -> Session:
        return self._shown(await self._database.read(lambda: self._get(session_id)))

    async def list(
        self, *, lifecycle_status: Lifecycle | None = None, limit: int = 100, after: str = ""
    ) -> list[Session]:
        """Sessions in the order of their ids, from the one after `after`."""

        def work() -> Step[list[Session]]:
            rows = yield _queries.list(after=after, lifecycle_status=lifecycle_status or "", limit=limit)
            ids = [row[0] for row in rows]
            channels = (yield _queries.channels(session_ids=ids)) if ids else []
            return [_session(row, [channel for channel in channels if channel[0] == row[0]]) for row in rows]

        return [self._shown(session) for session in await self._database.read(work)]

    async def change(self, session_id: str, change: SessionChange) -> Session:
        """Change what is set; `lifecycle_status: closed` closes."""
        if change.lifecycle_status == "closed":
            if change != SessionChange(lifecycle_status="closed"):
                raise InvalidInput("lifecycle_status", "closing a session takes no other change; make that one first.")
            await self.close(session_id)
            return await self.get(session_id)
        now = self._clock.now()
        act = Act("change", "session", session_id)
        changed = await self._audit.write(act, lambda: self._change(session_id, change, now))
        for follower in self._followers:
            follower.after_change(session_id)
        return self._shown(changed)

    async def close(self, session_id: str) -> int:
        """End a session: nothing more is delivered to it. Answers how many waiting messages expired."""
        now = self._clock.now()
        act = Act("close", "session", session_id)
        ended = await self._audit.write(act, lambda: self.closing(session_id, now))
        self.announce_close(session_id, ended)
        return ended

    def announce_close(self, session_id: str, ended: int) -> None:
        """Let everybody know of a close that is on disk."""
        for follower in self._followers:
            follower.after_close(session_id, ended)

    def opening(self, session: Session, now: datetime) -> Step[None]:
        """The opening as a step of a transaction."""
        yield from self._open(session, now)

    def finding_native(self, native_session_id: str) -> Step[str | None]:
        """The session of an agent's own session: the newest one that is open, else the newest."""
        rows = yield _queries.by_native_id(native_session_id=native_session_id)
        return rows[0][0] if rows else None

    def anchoring(
        self, session_id: str, *, agent: str | None, native_session_id: str | None, now: datetime
    ) -> Step[None]:
        """An agent has started: the session takes its identity and is no longer initializing."""
        rows = yield _queries.get(session_id=session_id)
        if not rows:
            return
        before = _session(rows[0], ())
        told = {"agent": agent, "native_session_id": native_session_id}
        change: dict[str, Any] = {
            name: value for name, value in told.items() if value is not None and value != getattr(before, name)
        }
        if before.lifecycle_status == "initializing":
            change["lifecycle_status"] = "active"
        if change and before.lifecycle_status != "closed":
            yield from self._change(session_id, SessionChange(**change), now)

    async def find_by_channel(self, origin: str, channel_id: str) -> str | None:
        """The session that an outside conversation belongs to."""

        def work() -> Step[str | None]:
            rows = yield _queries.by_channel(origin=origin, channel_id=channel_id)
            return rows[0][0] if rows else None

        return await self._database.read(work)

    def locking(self, session_id: str) -> Step[None]:
        """Hold a session's row until the transaction ends."""
        if not (yield _queries.lock(session_id=session_id)):
            raise unknown_session(session_id)

    def closing(self, session_id: str, now: datetime, *, reason: str | None = None) -> Step[int]:
        """The close as a step of a transaction; closing again ends nothing more."""
        yield from self.locking(session_id)
        yield _queries.close(session_id=session_id, now=now)
        ended = 0
        for follower in self._followers:
            ended += yield from follower.closed(session_id, now, reason)
        return ended

    def _open(self, session: Session, now: datetime) -> Step[None]:
        values = _columns(session)
        if not (yield _queries.insert(**values, now=now)):
            raise SessionExists(f"Session {printable(session.session_id)} exists already; choose another id.")
        yield from self._set_channels(session)
        for follower in self._followers:
            yield from follower.opened(session, now)

    def _get(self, session_id: str) -> Step[Session]:
        rows = yield _queries.get(session_id=session_id)
        if not rows:
            raise unknown_session(session_id)
        return _session(rows[0], (yield _queries.channels(session_ids=[session_id])))

    def _change(self, session_id: str, change: SessionChange, now: datetime) -> Step[Session]:
        rows = yield _queries.lock(session_id=session_id)
        if not rows:
            raise unknown_session(session_id)
        before = _session(rows[0], (yield _queries.channels(session_ids=[session_id])))
        if before.lifecycle_status == "closed":
            raise closed_session(session_id)
        given = {name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not UNSET}
        session = msgspec.structs.replace(before, **given, updated_at=now)
        check_session(session)
        yield _queries.update(**_columns(session), now=now)
        if change.channels is not UNSET:
            yield _queries.clear_channels(session_id=session_id)
            yield from self._set_channels(session)
        for follower in self._followers:
            yield from follower.changed(before, session, now)
        return session

    def _set_channels(self, session: Session) -> Step[None]:
        if session.channels:
            rows = [(channel.origin, channel.channel_id, session.session_id) for channel in session.channels]
            yield _queries.add_channels(rows=rows)

    def _shown(self, session: Session) -> Session:
        shown = self._clock.shown
        return msgspec.structs.replace(
            session,
            created_at=shown(session.created_at),
            updated_at=shown(session.updated_at),
            closed_at=shown(session.closed_at) if session.closed_at else None,
        )


def unknown_session(session_id: str) -> NotFound:
    return NotFound(f"There is no session {printable(session_id)}; check its id, or open it first.")


def closed_session(session_id: str) -> SessionClosed:
    return SessionClosed(f"Session {printable(session_id)} is closed; open a new one.")


def check_session(session: Session) -> None:
    """Refuse what could not be stored or shown."""
    check_name("session_id", session.session_id, most=LONGEST_ID)
    if session.node is not None:
        check_name("node", session.node, most=100)
    for field, most in (("title", 1000), ("agent", 100), ("native_session_id", 255)):
        if (value := getattr(session, field)) is not None:
            check_text(field, value, most=most)
    if session.lifecycle_status not in LIFECYCLES:
        raise InvalidInput("lifecycle_status", f"must be one of {', '.join(LIFECYCLES)}.")
    check_json("target", session.target)
    if len(session.channels) > MOST_CHANNELS or len(set(session.channels)) < len(session.channels):
        raise InvalidInput("channels", f"must be at most {MOST_CHANNELS}, each once.")
    for index, channel in enumerate(session.channels):
        check_name(f"channels.{index}.origin", channel.origin, most=64)
        check_name(f"channels.{index}.channel_id", channel.channel_id, most=255)


def _columns(session: Session) -> dict[str, object]:
    return {
        "session_id": session.session_id,
        "title": session.title,
        "lifecycle_status": session.lifecycle_status,
        "target": json.dumps(session.target),
        "node": session.node,
        "agent": session.agent,
        "native_session_id": session.native_session_id,
    }


def _session(row: Row, channels: Iterable[Row]) -> Session:
    return Session(
        session_id=row[0],
        title=row[1],
        lifecycle_status=row[2],
        target=json.loads(row[3]),
        node=row[4],
        agent=row[5],
        native_session_id=row[6],
        created_at=instant(row[7]),
        updated_at=instant(row[8]),
        closed_at=instant_or_none(row[9]),
        channels=tuple(Channel(origin, channel_id) for _, origin, channel_id in channels),
    )
