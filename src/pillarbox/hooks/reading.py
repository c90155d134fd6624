"""Looking at the hook outbox without changing it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

import msgspec

from pillarbox.errors import NotFound
from pillarbox.hooks.agent_state import state_from
from pillarbox.hooks.model import AgentState, HookRecord, HooksStatus, Status, record_from
from pillarbox.hooks.strands import queries
from pillarbox.storage import Step
from pillarbox.strands import age_seconds

Shown = Callable[[datetime], datetime]
T = TypeVar("T", bound=msgspec.Struct)
_OPEN = frozenset({"pending", "processing", "failed"})


def get(event_id: int) -> Step[HookRecord]:
    rows = yield queries.get(id=event_id)
    if not rows:
        raise NotFound(f"There is no event {event_id}; check its id, or it ended and its retention is over.")
    return record_from(rows[0])


def page(*, session_id: str | None, status: Status | None, limit: int, after: int) -> Step[list[HookRecord]]:
    if session_id is not None:
        rows = yield queries.list_session(session_id=session_id, status=status or "", after=after, limit=limit)
    elif status in _OPEN:
        rows = yield queries.list_open(status=status, after=after, limit=limit)
    elif status == "dead":
        rows = yield queries.list_dead(after=after, limit=limit)
    else:
        rows = yield queries.list(status=status or "", after=after, limit=limit)
    return [record_from(row) for row in rows]


def status(now: datetime) -> Step[HooksStatus]:
    ((waiting, processing, failed),) = yield queries.all_counts()
    ((dead,),) = yield queries.count_dead()
    ((oldest,),) = yield queries.oldest()
    return HooksStatus(
        pending=int(waiting) - int(processing) - int(failed),
        processing=int(processing),
        failed=int(failed),
        dead=dead,
        oldest_age_seconds=age_seconds(oldest, now),
    )


def agent_state(session_id: str) -> Step[AgentState | None]:
    rows = yield queries.agent_state(session_id=session_id)
    return state_from(rows[0]) if rows else None


def shown(record: HookRecord, as_shown: Shown) -> HookRecord:
    """The event with its instants as the wall clock tells them."""
    return _shown(record, ("created_at", "next_attempt_at", "locked_at", "delivered_at"), as_shown)


def shown_agent(state: AgentState, as_shown: Shown) -> AgentState:
    return _shown(state, ("last_activity", "last_user_input_at", "last_turn_completed_at"), as_shown)


def _shown(value: T, fields: tuple[str, ...], as_shown: Shown) -> T:
    instants = {name: as_shown(at) for name in fields if (at := getattr(value, name)) is not None}
    return msgspec.structs.replace(value, **instants)
