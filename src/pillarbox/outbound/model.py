"""Messages on their way out."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, get_args

import msgspec

Channel = Literal["email", "sms", "push", "webhook", "voice", "whatsapp", "telegram", "discord", "slack", "inapp"]
CHANNELS: tuple[Channel, ...] = get_args(Channel)
Category = Literal["transactional", "marketing"]
Status = Literal["pending", "processing", "retrying", "sent", "delivered", "bounced", "failed", "canceled", "expired"]
STATUSES: tuple[Status, ...] = (
    "pending",
    "processing",
    "retrying",
    "sent",
    "delivered",
    "bounced",
    "failed",
    "canceled",
    "expired",
)


class NewAttachment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file to send along: its bytes in base64, or a path or a URL to read it from at each attempt."""

    filename: str
    content_type: str | None = None
    content: str | None = None
    path: str | None = None
    url: str | None = None


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message as it is handed in."""

    channel: Channel
    to: str
    subject: str | None = None
    text: str | None = None
    html: str | None = None
    body: Any = None
    from_: str | None = msgspec.field(name="from", default=None)
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    reply_to: str | None = None
    attachments: tuple[NewAttachment, ...] = ()
    headers: dict[str, str] = {}
    method: Literal["POST", "PUT", "PATCH", "GET", "DELETE"] | None = None
    platform: str | None = None
    data: dict[str, Any] | None = None
    template: str | None = None
    locale: str | None = None
    variables: dict[str, Any] | None = None
    priority: int = 100
    send_at: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    category: Category = "transactional"
    tags: tuple[str, ...] = ()


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A message that passed the edge: canonical, complete, every limit kept; ready to be stored.

    `contacts` are all recipients in canonical form, `to` first. `options` is what only its channel knows, without secrets;
    `secret_headers` are a webhook's header values, to be sealed. `body` is a webhook's as it will be sent.
    """

    channel: Channel
    to: str
    contacts: tuple[str, ...]
    subject: str | None = None
    text: str | None = None
    html: str | None = None
    body: str | None = None
    options: dict[str, Any] = {}
    secret_headers: dict[str, str] = {}
    attachments: tuple[NewAttachment, ...] = ()
    priority: int = 100
    send_at: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    category: Category = "transactional"
    tags: tuple[str, ...] = ()


class Queued(msgspec.Struct, frozen=True):
    """The answer to a message that was handed in: it is on disk, now or since an earlier call with the same key."""

    message_id: str
    status: Status
    replayed: bool = False


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt; while it runs it has neither an end nor an outcome.

    `request` and `response` are what was asked and answered in short, without secrets, addresses and what may quote the
    message, of an attempt that was not accepted; only operators are shown them.
    """

    attempt: int
    started_at: datetime
    finished_at: datetime | None
    outcome: Literal["accepted", "rejected", "transient", "unknown"] | None
    status_code: int | None
    error: str | None
    provider: str | None
    request: str | None = None
    response: str | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a message beside its attempts."""

    type: str
    at: datetime


class MessageItem(msgspec.Struct, frozen=True, kw_only=True):
    """A message in a list."""

    message_id: str
    tenant_id: str
    channel: Channel
    to_address: str | None
    subject: str | None
    status: Status
    attempt_count: int
    max_attempts: int
    priority: int
    next_attempt_at: datetime | None
    last_attempt_at: datetime | None
    sent_at: datetime | None
    delivered_at: datetime | None
    failed_at: datetime | None
    error_message: str | None
    provider: str | None
    provider_msg_id: str | None
    category: Category
    tags: tuple[str, ...]
    created_at: datetime
    updated_at: datetime


class OutboundMessage(MessageItem, frozen=True, kw_only=True):
    """A message with what it says and all that happened to it."""

    body_text: str | None
    body_html: str | None
    attempts: tuple[Attempt, ...]
    events: tuple[Event, ...]


class OptOut(msgspec.Struct, frozen=True, kw_only=True):
    """A contact that must not be written to; of a forgotten one only a keyed hash is kept."""

    id: str
    contact: str | None
    channel: str
    reason: str | None
    created_at: datetime


class OutboundStatus(msgspec.Struct, frozen=True):
    """The whole queue: due or scheduled, being sent, waiting for a retry (`failed`); and what is kept as failed for good."""

    pending: int
    processing: int
    failed: int
    oldest_age_seconds: float | None
    failed_for_good: int = 0


class TenantSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a tenant may have otherwise than the rest."""

    rate_per_minute: int | None = None
    max_attempts: int | None = None
    trusted_destinations: tuple[str, ...] = ()
    database: str | None = None


class NewTenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant as it is handed in."""

    name: str | None = None
    providers: dict[str, dict[str, Any]] = {}
    settings: TenantSettings = TenantSettings()


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's cap, and when it may send the next message if it has to wait for that."""

    per_minute: int
    waits_until: datetime | None


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """One customer of the product, and how its messages are sent."""

    tenant_id: str
    name: str | None
    providers: dict[str, dict[str, Any]]
    settings: TenantSettings
    rate: Rate | None
    created_at: datetime
    updated_at: datetime
