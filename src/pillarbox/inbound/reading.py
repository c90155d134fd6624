"""Looking at the inbound queue without changing it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from pillarbox.errors import NotFound
from pillarbox.inbound.model import ENDED, InboundMessage, InboundStatus, QueueHead, QueueState, Status, message_from
from pillarbox.inbound.strands import queries
from pillarbox.sessions.registry import unknown_session
from pillarbox.storage import Row, Step, instant_or_none
from pillarbox.strands import age_seconds

Shown = Callable[[datetime], datetime]


def get(message_id: int) -> Step[InboundMessage]:
    rows = yield queries.get(id=message_id)
    if not rows:
        raise NotFound(f"There is no message {message_id}; check its id, or it ended and its retention is over.")
    return message_from(rows[0])


def page(*, session_id: str | None, status: Status | None, limit: int, after: int) -> Step[list[InboundMessage]]:
    if session_id is None and status is not None and status not in ENDED:
        look = queries.list_open if status == "pending" else queries.list_heads
        rows = yield look(status=status, after=after, limit=limit)
    elif session_id is None:
        rows = yield queries.list(status=status or "", after=after, limit=limit)
    else:
        rows = yield queries.list_session(session_id=session_id, status=status or "", after=after, limit=limit)
    return [message_from(row) for row in rows]


def queue(session_id: str) -> Step[QueueState]:
    strand = yield queries.strand(session_id=session_id)
    if not strand:
        raise unknown_session(session_id)
    head_seq, open_count, failing, in_flight, sent, origin, active_at = strand[0]
    head = (yield queries.head(session_id=session_id, seq=head_seq)) if head_seq is not None else []
    failed = failing if not in_flight else 0
    return QueueState(
        pending=open_count - in_flight - failed,
        failed=failed,
        processing=in_flight,
        head=_head(head[0]) if head else None,
        last_message_sent=sent,
        last_input_origin=origin,
        last_activity=instant_or_none(active_at),
    )


def _head(row: Row) -> QueueHead:
    return QueueHead(row[0], row[1], row[2], row[3], row[4], instant_or_none(row[5]))


def status(now: datetime) -> Step[InboundStatus]:
    ((waiting, processing, failed),) = yield queries.all_counts()
    ((oldest,),) = yield queries.oldest()
    return InboundStatus(
        pending=int(waiting) - processing - int(failed),
        processing=processing,
        failed=int(failed),
        oldest_age_seconds=age_seconds(oldest, now),
    )


def shown(message: InboundMessage, as_shown: Shown) -> InboundMessage:
    """The message with its instants as the wall clock tells them."""
    fields = ("created_at", "processed_at", "next_retry_at", "locked_at", "confirmed_at")
    instants = {name: as_shown(value) for name in fields if (value := getattr(message, name)) is not None}
    return msgspec.structs.replace(message, **instants)


def shown_queue(state: QueueState, as_shown: Shown) -> QueueState:
    head, active = state.head, state.last_activity
    if head is not None and head.next_retry_at is not None:
        head = msgspec.structs.replace(head, next_retry_at=as_shown(head.next_retry_at))
    return msgspec.structs.replace(state, head=head, last_activity=as_shown(active) if active else None)
