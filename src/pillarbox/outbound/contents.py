"""What a message says beside its text, as operators may see it, and the same message once more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from pillarbox.clock import Clock
from pillarbox.errors import InvalidInput, NotRetryable
from pillarbox.outbound.accounts import Accounts
from pillarbox.outbound.model import NewAttachment, NewMessage
from pillarbox.outbound.providers.webhook import signature_headers
from pillarbox.outbound.reading import unknown_message
from pillarbox.secrets.sealing import Sealer
from pillarbox.storage import Database, Row, Step, instant_or_none, load_queries
from pillarbox.telemetry.redact import HIDDEN, scrub

_queries = load_queries("pillarbox.outbound", "contents.sql")
CHANGEABLE = ("to", "subject", "text", "html", "body")


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """A file that goes along, without what is in it; `size` is known of one that was handed in whole."""

    filename: str
    content_type: str | None
    kept: Literal["content", "path", "url"]
    size: int | None


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """How a message is addressed and what goes along; the values of a webhook's headers are never shown.

    `signatures` are the headers that a webhook is signed in: none where its tenant has no signing secret.
    """

    sender: str | None
    cc: Sequence[str]
    bcc: Sequence[str]
    reply_to: str | None
    method: str | None
    headers: Mapping[str, str]
    platform: str | None
    data: Mapping[str, Any] | None
    attachments: Sequence[Attached]
    expires_at: datetime | None
    signatures: Sequence[str] = ()


class Contents:
    """Reads what was handed in, of messages of any age."""

    def __init__(self, database: Database, sealer: Sealer, clock: Clock, accounts: Accounts) -> None:
        self._database = database
        self._sealer = sealer
        self._clock = clock
        self._accounts = accounts

    async def get(self, message_id: str) -> Content:
        row = await self._row(message_id)
        options = json.loads(row[6])
        headers: Mapping[str, str] = {name: scrub(value) for name, value in options.get("headers", {}).items()}
        if row[7] is not None:
            headers = dict.fromkeys(self._opened(row, message_id), HIDDEN)
        expires_at = instant_or_none(row[13])
        return Content(
            sender=options.get("from"),
            cc=options.get("cc", ()),
            bcc=options.get("bcc", ()),
            reply_to=options.get("reply_to"),
            method=options.get("method"),
            headers=headers,
            platform=options.get("platform"),
            data=options.get("data"),
            attachments=[_attached(file) for file in _files(row)],
            expires_at=None if expires_at is None else self._clock.shown(expires_at),
            signatures=self._signatures(row) if row[1] == "webhook" else (),
        )

    def _signatures(self, row: Row) -> Sequence[str]:
        """By how the tenant sends today; of a tenant that is gone nobody knows."""
        return () if row[14] is None else signature_headers(self._accounts.chosen(json.loads(row[14]), "webhook"))

    async def again(self, message_id: str, changes: Mapping[str, str]) -> tuple[str, NewMessage]:
        """The tenant, and a new message that says the same but for the changes; sealed headers and files go along."""
        row = await self._row(message_id)
        if row[2] is None:
            raise NotRetryable(f"Message {message_id} was forgotten; there is nothing left to send.")
        options = json.loads(row[6])
        is_webhook = row[1] == "webhook"
        said = {"to": row[2], "subject": row[3], "text": None if is_webhook else row[4], "html": row[5]}
        said |= {name: changes[name] or None for name in said if name in changes}
        new = NewMessage(
            channel=row[1],
            to=said["to"] or "",
            subject=said["subject"],
            text=said["text"],
            html=said["html"],
            body=_json(changes.get("body", row[4] or "")) if is_webhook else None,
            from_=options.get("from"),
            cc=tuple(options.get("cc", ())),
            bcc=tuple(options.get("bcc", ())),
            reply_to=options.get("reply_to"),
            attachments=_files(row),
            headers=self._opened(row, message_id) if row[7] is not None else options.get("headers", {}),
            method=options.get("method"),
            platform=options.get("platform"),
            data=options.get("data"),
            priority=row[9],
            max_attempts=row[12],
            category=row[10],
            tags=tuple(json.loads(row[11])),
        )
        return row[0], new

    async def _row(self, message_id: str) -> Row:
        def work() -> Step[list[Row]]:
            return (yield _queries.content(message_id=message_id))

        rows = await self._database.read(work)
        if not rows:
            raise unknown_message(message_id)
        return rows[0]

    def _opened(self, row: Row, message_id: str) -> dict[str, str]:
        headers: dict[str, str] = json.loads(self._sealer.open(row[7], bound_to=(row[0], message_id)))
        return headers


def _files(row: Row) -> tuple[NewAttachment, ...]:
    return msgspec.json.decode(row[8] or "[]", type=tuple[NewAttachment, ...])


def _attached(file: NewAttachment) -> Attached:
    kept: Literal["content", "path", "url"] = "content" if file.content is not None else "path" if file.path else "url"
    padding = (file.content or "")[-2:].count("=")
    size = len(file.content) * 3 // 4 - padding if file.content is not None else None
    return Attached(filename=file.filename, content_type=file.content_type, kept=kept, size=size)


def _json(text: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("body", "must be JSON.") from None
