"""Events in an agent's life, on their way to whoever listens."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from pillarbox.storage import UNREADABLE, Row, is_intact, legible, legible_or_none

Status = Literal["pending", "processing", "delivered", "failed", "superseded", "dead"]
STATUSES: tuple[Status, ...] = ("pending", "processing", "delivered", "failed", "superseded", "dead")
Turn = Literal["idle", "working", "waiting"]


class NewEvent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event as it is handed in."""

    session_id: str
    event_type: str
    payload: dict[str, Any] = {}


class Stored(msgspec.Struct, frozen=True):
    """The answer to an event that was handed in: it is on disk."""

    id: int


class HookEvent(msgspec.Struct, frozen=True):
    """An event as listeners get it; one that comes twice has the same id, and a higher attempt."""

    id: int
    session_id: str
    event_type: str
    payload: dict[str, Any]
    attempt: int


class Checked(NamedTuple):
    """A new event that passed the edge; one that was spooled has a key, so that it is stored once."""

    session_id: str
    event_type: str
    payload_json: str
    created_at: datetime
    key: str | None = None
    trace: str | None = None


class HookRow(msgspec.Struct, frozen=True, gc=False):
    """A claimed row of `hook_outbox`; the payload is None where it is damaged or not a JSON object.

    One that was dead and is tried again has taken effect before.
    """

    id: int
    session_id: str
    seq: int
    event_type: str
    created_at: datetime
    attempt_count: int
    last_error: str | None
    payload: dict[str, Any] | None
    took_effect: bool = False
    intact: bool = True
    trace: str | None = None


class HookRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `hook_outbox` as operators see it."""

    id: int
    session_id: str
    seq: int
    event_type: str
    status: Status
    created_at: datetime
    next_attempt_at: datetime | None
    locked_at: datetime | None
    delivered_at: datetime | None
    attempt_count: int
    superseded_by: int | None
    superseded_by_type: str | None
    last_error: str | None
    payload: Any


class HooksStatus(msgspec.Struct, frozen=True):
    """All sessions' events together; `dead` ones ended with an error and are kept for a while.

    `spooled` counts the files of events that this machine's receivers could not store yet, `broken` those that nobody can read.
    """

    pending: int
    processing: int
    failed: int
    dead: int
    oldest_age_seconds: float | None
    spooled: int = 0
    spool_age_seconds: float | None = None
    broken: int = 0


class AgentState(msgspec.Struct, frozen=True, kw_only=True):
    """What the events of a session have told about its agent."""

    turn: Turn | None
    last_activity: datetime
    last_user_input: str | None
    last_user_input_at: datetime | None
    last_turn_completed_at: datetime | None
    last_summary: str | None
    last_notification: str | None
    last_error: str | None
    transcript_path: str | None


_payloads = msgspec.json.Decoder(dict[str, Any])


def read_payload(text: str) -> dict[str, Any] | None:
    """The payload as stored, or None where it is not a JSON object."""
    try:
        return _payloads.decode(text)
    except (ValueError, RecursionError):
        return None


def row_from(row: Row) -> HookRow:
    at = legible(row[4])
    intact = at is not UNREADABLE and is_intact(row[9], row[1], row[3], row[7])
    payload = read_payload(row[7]) if intact else None
    return HookRow(row[0], row[1], row[2], row[3], at, row[5], row[6], payload, bool(row[8]), intact, row[10])


def record_from(row: Row) -> HookRecord:
    payload = read_payload(row[13])
    return HookRecord(
        id=row[0],
        session_id=row[1],
        seq=row[2],
        event_type=row[3],
        status=row[4],
        created_at=legible(row[5]),
        next_attempt_at=legible_or_none(row[6]),
        locked_at=legible_or_none(row[7]),
        delivered_at=legible_or_none(row[8]),
        attempt_count=row[9],
        superseded_by=row[10],
        superseded_by_type=row[11],
        last_error=row[12],
        payload=row[13] if payload is None else payload,
    )
