"""Sessions: a lane for each, with the message it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.api.paging import page, text_after
from pillarbox.box import Pillarbox
from pillarbox.dashboard.forms import Form, acting, back_to, done
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.pages import render, signed_in
from pillarbox.dashboard.words import count, segment
from pillarbox.errors import NotFound
from pillarbox.filters.model import words
from pillarbox.inbound.model import QueueState
from pillarbox.inbound.targets.placement import public_target
from pillarbox.sessions import LIFECYCLES, Session
from pillarbox.sessions.model import Lifecycle

_AT_ONCE = 30
_MOST_BEADS = 12


class SessionsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which sessions to show."""

    lifecycle_status: Lifecycle | None = None
    blocked: bool = False
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """A session, what waits for it, and since when its head does."""

    session: Session
    queue: QueueState
    since: datetime | None

    @property
    def beads(self) -> list[str]:
        """A bead for each message that waits, the head first and in its colour."""
        waiting = self.queue.pending + self.queue.failed + self.queue.processing
        first = "warn" if self.queue.failed else "busy" if self.queue.processing else ""
        return [first, *[""] * (min(waiting, _MOST_BEADS) - 1)] if waiting else []

    @property
    def waiting(self) -> int:
        return self.queue.pending + self.queue.failed + self.queue.processing


def address_of(call: Call) -> str:
    return f"/sessions/{segment(call.path['session_id'])}"


@signed_in
async def index(call: Call, login: Login) -> Answer:
    query: SessionsQuery = call.query
    box = call.box
    sessions, following = await (_blocked if query.blocked else _listed)(box, query)
    lanes = await asyncio.gather(*(_lane(box, session) for session in sessions))
    chosen = {"lifecycle_status": query.lifecycle_status, "blocked": "true" if query.blocked else None}
    choice = urlencode({name: value for name, value in chosen.items() if value})
    return render(
        call,
        login,
        "sessions.html",
        active="sessions",
        lanes=[lane for lane in lanes if lane is not None],
        lifecycles=LIFECYCLES,
        chosen="blocked" if query.blocked else query.lifecycle_status,
        here=f"/sessions?{choice}" if choice else "/sessions",
        following=f"/sessions?{urlencode({'cursor': following})}{'&' if choice else ''}{choice}" if following else "",
        is_first=not query.cursor,
    )


@signed_in
async def show(call: Call, login: Login) -> Answer:
    box, session_id = call.box, call.path["session_id"]
    session = await box.sessions.get(session_id)
    lane = await _lane(box, session)
    agent = await box.hooks.agent_state(session_id)
    recent = await box.log.page(words("session", session_id), limit=_AT_ONCE)
    return render(
        call,
        login,
        "session.html",
        active="sessions",
        session=session,
        target=public_target(session.target),
        lane=lane,
        agent=agent,
        items=recent.items,
        is_closed=session.lifecycle_status == "closed",
    )


@acting(back=address_of)
async def close(call: Call, login: Login, form: Form) -> Answer:
    expired = await call.box.sessions.close(call.path["session_id"])
    said = f"Closed; {count(expired)} waiting message{'' if expired == 1 else 's'} expired."
    return done(login, said, back_to(form, address_of(call)))


async def _listed(box: Pillarbox, query: SessionsQuery) -> tuple[Sequence[Session], str | None]:
    found = await box.sessions.list(
        lifecycle_status=query.lifecycle_status, limit=_AT_ONCE + 1, after=text_after(query.cursor, "session")
    )
    listed = page(found, limit=_AT_ONCE, kind="session", position=lambda session: session.session_id)
    return listed.items, listed.next_cursor


async def _blocked(box: Pillarbox, query: SessionsQuery) -> tuple[Sequence[Session], str | None]:
    """The sessions whose head waits for its retry."""
    heads = await box.log.page(
        words("pipe", "inbound") & words("status", "failed"), cursor=query.cursor, limit=_AT_ONCE
    )
    ids = dict.fromkeys(head.session_id for head in heads.items if head.session_id)
    return await asyncio.gather(*(box.sessions.get(session_id) for session_id in ids)), heads.next_cursor


async def _lane(box: Pillarbox, session: Session) -> Lane | None:
    try:
        queue = await box.inbound.queue(session.session_id)
        head = None if queue.head is None else await box.inbound.get(queue.head.id)
    except NotFound:
        return None
    return Lane(session, queue, None if head is None else head.created_at)
