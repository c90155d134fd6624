"""Messages on their way to a session."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from pillarbox.storage import Row, legible, legible_or_none

MessageType = Literal["text", "voice", "file"]
Status = Literal["pending", "processing", "delivered", "failed", "expired"]
MESSAGE_TYPES: tuple[MessageType, ...] = ("text", "voice", "file")
STATUSES: tuple[Status, ...] = ("pending", "processing", "delivered", "failed", "expired")
ENDED: frozenset[str] = frozenset({"delivered", "expired"})


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message as it is handed in."""

    session_id: str
    origin: str
    content: str
    message_type: MessageType = "text"
    payload: Any = None
    actor_id: str | None = None
    actor_name: str | None = None
    actor_avatar_url: str | None = None
    source_message_id: str | None = None
    source_channel_id: str | None = None


class Enqueued(msgspec.Struct, frozen=True):
    """The answer to an enqueue: the row is on disk, now or since an earlier call with the same source id."""

    id: int
    seq: int
    duplicate: bool
    status: Status


class InboundMessage(msgspec.Struct, frozen=True):
    """A row of `inbound_queue`, in the order of its columns."""

    id: int
    session_id: str
    seq: int
    origin: str
    message_type: MessageType
    content: str
    payload_json: str | None
    actor_id: str | None
    actor_name: str | None
    actor_avatar_url: str | None
    status: Status
    created_at: datetime
    processed_at: datetime | None
    attempt_count: int
    death_count: int
    next_retry_at: datetime | None
    last_error: str | None
    locked_at: datetime | None
    source_message_id: str | None
    source_channel_id: str | None
    token: int
    confirmed_at: datetime | None = None


def message_from(row: Row) -> InboundMessage:
    return InboundMessage(
        id=row[0],
        session_id=row[1],
        seq=row[2],
        origin=row[3],
        message_type=row[4],
        content=row[5],
        payload_json=row[6],
        actor_id=row[7],
        actor_name=row[8],
        actor_avatar_url=row[9],
        status=row[10],
        created_at=legible(row[11]),
        processed_at=legible_or_none(row[12]),
        attempt_count=row[13],
        death_count=row[14],
        next_retry_at=legible_or_none(row[15]),
        last_error=row[16],
        locked_at=legible_or_none(row[17]),
        source_message_id=row[18],
        source_channel_id=row[19],
        token=row[20],
        confirmed_at=legible_or_none(row[21]),
    )


class Parcel(msgspec.Struct, frozen=True):
    """A claimed message and where it goes."""

    message: InboundMessage
    target: str
    starting: bool = False
    intact: bool = True
    trace: str | None = None

    @property
    def id(self) -> int:
        return self.message.id

    @property
    def attempt_count(self) -> int:
        return self.message.attempt_count


class QueueHead(msgspec.Struct, frozen=True):
    """The one message that the session is waiting for."""

    id: int
    seq: int
    status: Status
    attempt_count: int
    last_error: str | None
    next_retry_at: datetime | None


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """A session's queue: how much waits, and what it waits for."""

    pending: int
    failed: int
    processing: int
    head: QueueHead | None
    last_message_sent: str | None
    last_input_origin: str | None
    last_activity: datetime | None


class InboundStatus(msgspec.Struct, frozen=True):
    """All queues together."""

    pending: int
    processing: int
    failed: int
    oldest_age_seconds: float | None
