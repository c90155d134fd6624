"""/v1/sessions"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from pillarbox.api.answers import Answer, ok
from pillarbox.api.call import Call
from pillarbox.api.paging import Cursor, Limit, page, text_after
from pillarbox.hooks.model import AgentState
from pillarbox.inbound.model import QueueHead
from pillarbox.inbound.targets.placement import public_target
from pillarbox.sessions import Channel, Session
from pillarbox.sessions.model import Lifecycle


class NewSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session to open; without an id it gets one."""

    target: Annotated[dict[str, Any], Meta(description="Where messages end, as in `{kind: http, url}`.")]
    session_id: str | None = None
    title: str | None = None
    lifecycle_status: Lifecycle = "active"
    node: str | None = None
    agent: str | None = None
    native_session_id: str | None = None
    channels: tuple[Channel, ...] = ()


class SessionItem(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a list."""

    session_id: str
    title: str | None
    lifecycle_status: Lifecycle
    target: dict[str, Any]
    node: str | None
    agent: str | None
    native_session_id: str | None
    created_at: datetime
    updated_at: datetime
    closed_at: datetime | None
    channels: tuple[Channel, ...]


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for a session, and the one message it waits for."""

    pending: int
    failed: int
    processing: int
    head: QueueHead | None


class SessionView(SessionItem, frozen=True, kw_only=True):
    """A session and its queue."""

    last_message_sent: str | None
    last_input_origin: str | None
    last_activity: datetime | None
    agent_state: AgentState | None
    queue: Queue


class SessionFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which sessions to list."""

    limit: Limit = 100
    cursor: Cursor = ""
    lifecycle_status: Lifecycle | None = None


class Closed(msgspec.Struct, frozen=True):
    """How many messages were waiting or in delivery and are now expired."""

    expired: int


async def open_session(call: Call) -> Answer:
    new: NewSession = call.body
    session = await call.box.sessions.open(**msgspec.structs.asdict(new))
    return ok(await _view(call, session), 201)


async def list_sessions(call: Call) -> Answer:
    query: SessionFilter = call.query
    sessions = await call.box.sessions.list(
        lifecycle_status=query.lifecycle_status, limit=query.limit + 1, after=text_after(query.cursor, "session")
    )
    items = [SessionItem(**_columns(session)) for session in sessions]
    return ok(page(items, limit=query.limit, kind="session", position=lambda item: item.session_id))


async def get_session(call: Call) -> Answer:
    return ok(await _view(call, await call.box.sessions.get(call.path["session_id"])))


async def change_session(call: Call) -> Answer:
    return ok(await _view(call, await call.box.sessions.change(call.path["session_id"], call.body)))


async def close_session(call: Call) -> Answer:
    return ok(Closed(await call.box.sessions.close(call.path["session_id"])))


async def _view(call: Call, session: Session) -> SessionView:
    state = await call.box.inbound.queue(session.session_id)
    agent = await call.box.hooks.agent_state(session.session_id)
    instants = (state.last_activity, agent.last_activity if agent else None)
    return SessionView(
        **_columns(session),
        last_message_sent=state.last_message_sent,
        last_input_origin=state.last_input_origin,
        last_activity=max((at for at in instants if at is not None), default=None),
        agent_state=agent,
        queue=Queue(pending=state.pending, failed=state.failed, processing=state.processing, head=state.head),
    )


def _columns(session: Session) -> dict[str, Any]:
    """What may be shown of a session: never its target's secret."""
    return msgspec.structs.asdict(session) | {"target": public_target(session.target)}
