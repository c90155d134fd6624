"""Messages as Python code writes them, a class for each channel."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import msgspec

from pillarbox.errors import InvalidInput
from pillarbox.outbound.model import Category, Channel, NewAttachment, NewMessage


def attached(filename: str, content: bytes, *, content_type: str | None = None) -> NewAttachment:
    """An attachment of bytes at hand."""
    return NewAttachment(filename=filename, content_type=content_type, content=base64.b64encode(content).decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """An email; without `from_` the tenant's sender is used."""

    to: str
    subject: str | None = None
    text: str | None = None
    html: str | None = None
    from_: str | None = None
    cc: Sequence[str] = ()
    bcc: Sequence[str] = ()
    reply_to: str | None = None
    attachments: Sequence[NewAttachment] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    priority: int = 100
    send_at: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    category: Category = "transactional"
    tags: Sequence[str] = ()

    def new_message(self) -> NewMessage:
        return _new_message(
            "email",
            self,
            to=self.to,
            subject=self.subject,
            text=self.text,
            html=self.html,
            **{"from": self.from_},
            cc=self.cc,
            bcc=self.bcc,
            reply_to=self.reply_to,
            attachments=self.attachments,
            headers=self.headers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sms:
    """A text message; without `from_` the tenant's sender is used."""

    to: str
    text: str
    from_: str | None = None
    priority: int = 100
    send_at: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    category: Category = "transactional"
    tags: Sequence[str] = ()

    def new_message(self) -> NewMessage:
        return _new_message("sms", self, to=self.to, text=self.text, **{"from": self.from_})


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """A push notification to one device; `subject` is its title."""

    to: str
    subject: str | None = None
    text: str | None = None
    data: Mapping[str, Any] | None = None
    platform: Literal["ios", "android", "web"] | None = None
    priority: int = 100
    send_at: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    category: Category = "transactional"
    tags: Sequence[str] = ()

    def new_message(self) -> NewMessage:
        return _new_message(
            "push", self, to=self.to, subject=self.subject, text=self.text, data=self.data, platform=self.platform
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A request to a URL with a JSON value as its body; the values of its headers are kept sealed."""

    url: str
    body: Any = None
    method: Literal["POST", "PUT", "PATCH", "GET", "DELETE"] = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    priority: int = 100
    send_at: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    category: Category = "transactional"
    tags: Sequence[str] = ()

    def new_message(self) -> NewMessage:
        return _new_message("webhook", self, to=self.url, body=self.body, method=self.method, headers=self.headers)


def _new_message(channel: Channel, message: Email | Sms | Push | Webhook, **own: Any) -> NewMessage:
    """The message as the API would have read it, so that a value of a wrong kind is refused by name here too."""
    fields = {
        **own,
        "channel": channel,
        "priority": message.priority,
        "send_at": message.send_at,
        "expires_at": message.expires_at,
        "max_attempts": message.max_attempts,
        "category": message.category,
        "tags": message.tags,
    }
    try:
        return msgspec.convert(fields, NewMessage)
    except msgspec.ValidationError as error:
        raise InvalidInput(*_fault(error)) from None


def _fault(error: msgspec.ValidationError) -> tuple[str, str]:
    """The field at fault and what was expected of it; an unexpected word is not quoted."""
    said, _, where = str(error).partition(" - at `")
    path = re.sub(r"[\[\].]+", ".", where.partition("$")[2].rstrip("`")).strip(".")
    return path, "is not one of the words allowed here." if "enum" in said else said.replace("`", "") + "."


Message = Email | Sms | Push | Webhook
