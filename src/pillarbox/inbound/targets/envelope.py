"""A message as its target sees it: one JSON document, and the marks by which a target can tell attempts apart."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from standardwebhooks import Webhook

from pillarbox.inbound.model import InboundMessage, MessageType
from pillarbox.text import printable


class Actor(msgspec.Struct, frozen=True):
    """Who wrote the message, as far as the platform told."""

    id: str | None
    name: str | None
    avatar_url: str | None


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What a target is told of a message."""

    message_id: int
    session_id: str
    seq: int
    attempt: int
    token: int
    node: str
    origin: str
    message_type: MessageType
    content: str
    payload: msgspec.Raw | None
    actor: Actor
    created_at: datetime


_encoder = msgspec.json.Encoder()


def document(message: InboundMessage, *, node: str) -> bytes:
    """The message as JSON on one line; its payload goes in as it was stored."""
    payload = message.payload_json
    return _encoder.encode(
        Document(
            message_id=message.id,
            session_id=message.session_id,
            seq=message.seq,
            attempt=message.attempt_count,
            token=message.token,
            node=node,
            origin=message.origin,
            message_type=message.message_type,
            content=message.content,
            payload=None if payload is None else msgspec.Raw(payload.encode()),
            actor=Actor(message.actor_id, message.actor_name, message.actor_avatar_url),
            created_at=message.created_at.astimezone(UTC),
        )
    )


def identity_headers(message: InboundMessage, *, node: str) -> dict[str, str]:
    """Which message this is, and whose attempt."""
    return {
        "Pillarbox-Message-Id": str(message.id),
        "Pillarbox-Attempt": str(message.attempt_count),
        "Pillarbox-Token": str(message.token),
        "Pillarbox-Node": printable(node),
    }


def identity_variables(message: InboundMessage) -> dict[str, str]:
    """The same for a program's environment."""
    return {
        "PILLARBOX_MESSAGE_ID": str(message.id),
        "PILLARBOX_SESSION": message.session_id,
        "PILLARBOX_SEQ": str(message.seq),
        "PILLARBOX_ATTEMPT": str(message.attempt_count),
        "PILLARBOX_TOKEN": str(message.token),
        "PILLARBOX_ORIGIN": message.origin,
    }


def signature_headers(message: InboundMessage, body: bytes, *, secret: str, at: datetime) -> dict[str, str]:
    """Standard Webhooks over these very bytes; the id is the same on every attempt, the time is this attempt's."""
    webhook_id, at = f"in_{message.id}", at.astimezone(UTC)
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(webhook_id, at, body.decode()),
    }
