"""Looking at messages without changing them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from pillarbox.errors import NotFound
from pillarbox.outbound.model import Attempt, Event, MessageItem, OptOut, OutboundMessage, OutboundStatus, Status
from pillarbox.storage import Row, Step, instant, legible, legible_or_none, load_queries
from pillarbox.storage.ids import AFTER_ALL, earliest_id
from pillarbox.text import printable

MESSAGE = """h.message_id, h.tenant_id, h.channel, h.to_address, h.subject,
    CASE WHEN q.state = 'sending' THEN 'processing' ELSE h.status END,
    CASE WHEN q.state = 'sending' THEN q.attempt_count ELSE h.attempt_count END,
    h.max_attempts, h.priority, CASE WHEN q.state = 'sending' THEN NULL ELSE h.next_attempt_at END,
    CASE WHEN q.state = 'sending' THEN q.claimed_at ELSE h.last_attempt_at END,
    h.sent_at, h.delivered_at, h.failed_at, h.error_message, h.provider, h.provider_msg_id, h.category, h.tags,
    h.created_at, h.updated_at"""
# A message as it is read: an attempt that runs is known to the queue alone.
queries = load_queries("pillarbox.outbound", "reading.sql", message=MESSAGE)

Shown = Callable[[datetime], datetime]

_QUEUED = frozenset({"pending", "processing", "retrying"})
_TROUBLE = frozenset({"failed", "bounced", "canceled", "expired"})
_MOST_COUNTED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which messages to list; what is empty is not asked for."""

    tenant_id: str = ""
    status: Status | None = None
    channel: str = ""
    contact: str = ""
    since: datetime | None = None
    until: datetime | None = None
    tag: str = ""


def get(tenant_id: str, message_id: str, shown: Shown) -> Step[OutboundMessage]:
    """A message with its attempts, the running one included, and its events."""
    rows = yield queries.get(message_id=message_id, tenant_id=tenant_id)
    if not rows:
        raise unknown_message(message_id)
    row = rows[0]
    attempts = [_attempt(each, shown) for each in (yield queries.attempts(message_id=message_id))]
    events = yield queries.events(message_id=message_id)
    item = _columns(row, shown)
    if item["status"] == "processing":
        attempts.append(_running(item))
    return OutboundMessage(
        **item,
        body_text=row[21],
        body_html=row[22],
        attempts=tuple(attempts),
        events=(
            Event(type="queued", at=item["created_at"]),
            *(Event(type=kind, at=shown(instant(at))) for kind, at, _ in events),
        ),
    )


def tenant_of(message_id: str) -> Step[str | None]:
    """Whose message it is; None where there is none."""
    rows = yield queries.tenant_of(message_id=message_id)
    return rows[0][0] if rows else None


def page(wanted: Filter, *, limit: int, before: str, shown: Shown) -> Step[list[MessageItem]]:
    """Messages, the newest first."""
    if wanted.status in _QUEUED:
        look = queries.list_queued
    elif not wanted.tenant_id:
        look = queries.list_all
    else:
        look = queries.list_trouble if wanted.status in _TROUBLE else queries.list_messages
    rows = yield look(
        tenant_id=wanted.tenant_id,
        status=wanted.status or "",
        channel=wanted.channel,
        contact=wanted.contact,
        since="" if wanted.since is None else earliest_id(wanted.since),
        until="" if wanted.until is None else earliest_id(wanted.until),
        tag=json.dumps(wanted.tag, ensure_ascii=False) if wanted.tag else "",
        before=before or AFTER_ALL,
        limit=limit,
    )
    return [item_from(row, shown) for row in rows]


def status(now: datetime) -> Step[OutboundStatus]:
    counts = dict((yield queries.counts()))
    ((failed,),) = yield queries.count_failed()
    ((unsent,),) = yield queries.count_unsent(most=_MOST_COUNTED)
    oldest = yield from _oldest(now)
    return OutboundStatus(
        pending=counts.get("ready", 0) + counts.get("scheduled", 0) - failed,
        processing=counts.get("sending", 0),
        failed=failed,
        oldest_age_seconds=None if oldest is None else max(0.0, (now - oldest).total_seconds()),
        failed_for_good=unsent,
    )


def _oldest(now: datetime) -> Step[datetime | None]:
    ((is_any, first),) = yield queries.oldest_unsent()
    if not is_any:
        return None
    if (at := legible_or_none(first)) is not None and at <= now:
        return at
    arrivals = [legible(at) for (at,) in (yield queries.oldest_few_unsent())]
    return next((at for at in arrivals if at <= now), arrivals[0] if arrivals else None)


def item_from(row: Row, shown: Shown) -> MessageItem:
    """A message in a list, from the columns of `MESSAGE`."""
    return MessageItem(**_columns(row, shown))


def opt_out_from(row: Row, shown: Shown) -> OptOut:
    return OptOut(id=row[0], contact=row[1], channel=row[2], reason=row[3], created_at=shown(instant(row[4])))


def unknown_message(message_id: str) -> NotFound:
    return NotFound(
        f"There is no message {printable(message_id)}; check its id and tenant, or it ended and its retention is over."
    )


def _columns(row: Row, shown: Shown) -> dict[str, Any]:
    def when(value: Any) -> datetime | None:
        at = legible_or_none(value)
        return None if at is None else shown(at)

    return {
        "message_id": row[0],
        "tenant_id": row[1],
        "channel": row[2],
        "to_address": row[3],
        "subject": row[4],
        "status": row[5],
        "attempt_count": row[6],
        "max_attempts": row[7],
        "priority": row[8],
        "next_attempt_at": when(row[9]),
        "last_attempt_at": when(row[10]),
        "sent_at": when(row[11]),
        "delivered_at": when(row[12]),
        "failed_at": when(row[13]),
        "error_message": row[14],
        "provider": row[15],
        "provider_msg_id": row[16],
        "category": row[17],
        "tags": _tags(row[18]),
        "created_at": when(row[19]),
        "updated_at": when(row[20]),
    }


def _tags(stored: str) -> tuple[str, ...]:
    """None where they were damaged on disk."""
    try:
        return tuple(msgspec.json.decode(stored, type=list[str]))
    except ValueError:
        return ()


def _attempt(row: Row, shown: Shown) -> Attempt:
    return Attempt(
        attempt=row[0],
        started_at=shown(instant(row[1])),
        finished_at=shown(instant(row[2])),
        outcome=row[3],
        status_code=row[4],
        error=row[5],
        provider=row[6],
        request=row[7],
        response=row[8],
    )


def _running(item: dict[str, Any]) -> Attempt:
    return Attempt(
        attempt=item["attempt_count"],
        started_at=item["last_attempt_at"],
        finished_at=None,
        outcome=None,
        status_code=None,
        error=None,
        provider=None,
    )
