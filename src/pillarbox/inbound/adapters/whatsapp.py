"""WhatsApp's Cloud API: Meta's signature, its verification challenge, and batches of entries, changes and messages."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from typing import Any

from pillarbox.inbound.adapter import Received
from pillarbox.inbound.adapters.documents import at, items_at, same, text_at, without_gaps

ORIGIN = "whatsapp"
SIGNATURE = "x-hub-signature-256"

_FILES = ("audio", "document", "image", "sticker", "video")
_SHOWN_BY_NAME = ("contacts", "location", "order")


def is_signed(body: bytes, signature: str | None, app_secret: str) -> bool:
    """Whether Meta signed exactly these bytes."""
    expected = hmac.new(app_secret.encode(), body, hashlib.sha256).hexdigest()
    return same(signature, f"sha256={expected}")


def messages_in(document: Any) -> Iterator[Received]:
    """The messages of people; statuses, reactions, edits and what has no id are passed over."""
    for entry in items_at(document, "entry"):
        for change in items_at(entry, "changes"):
            value = at(change, "value")
            messages = list(items_at(value, "messages"))
            names = _names(list(items_at(value, "contacts")), {_sender(message) for message in messages})
            for message in messages:
                received = _received(message, names, text_at(value, "metadata", "phone_number_id"))
                if received is not None:
                    yield received


def _received(message: Any, names: dict[str, str], phone_number_id: str) -> Received | None:
    sender, wamid = _sender(message), text_at(message, "id")
    said = _said(message, text_at(message, "type"))
    if not sender or not wamid or said is None:
        return None
    message_type, content, payload = said
    name = names.get(sender) or names.get(text_at(message, "from_user_id")) or ""
    return Received(
        origin=ORIGIN,
        channel_id=text_at(message, "group_id") or sender,
        source_message_id=wamid,
        message_type=message_type,
        content=content,
        payload=without_gaps(**payload, phone_number_id=phone_number_id, reply_to=text_at(message, "context", "id")),
        actor_id=sender,
        actor_name=name or None,
        title=name or None,
    )


def _said(message: Any, kind: str) -> tuple[Any, str, dict[str, Any]] | None:
    """Type, text and payload of a message, or None when it is none of a person's."""
    if kind == "text":
        body = text_at(message, "text", "body")
        return ("text", body, {}) if body else None
    if kind == "button":
        button = text_at(message, "button", "text")
        return "text", button or "[button]", {"button": text_at(message, "button", "payload")}
    if kind == "interactive":
        answer = at(message, "interactive", text_at(message, "interactive", "type"))
        shown = text_at(answer, "title") or text_at(answer, "body")
        return "text", shown or "[interactive]", {"interactive": answer}
    if kind in _SHOWN_BY_NAME:
        return "text", f"[{kind}]", {kind: at(message, kind)}
    if kind in _FILES and (file_id := text_at(message, kind, "id")):
        file = at(message, kind)
        caption = text_at(file, "caption")
        payload = without_gaps(
            file_id=file_id,
            kind=kind,
            mime=text_at(file, "mime_type"),
            sha256=text_at(file, "sha256"),
            name=text_at(file, "filename"),
            caption=caption,
        )
        return "voice" if kind == "audio" and at(file, "voice") is True else "file", caption, payload
    return None


def _sender(message: Any) -> str:
    return text_at(message, "from") or text_at(message, "from_user_id")


def _names(contacts: list[Any], senders: set[str]) -> dict[str, str]:
    """What people call themselves, by number and by id; a contact without either is the sender where there is but one."""
    names: dict[str, str] = {}
    for contact in contacts:
        name = text_at(contact, "profile", "name")
        known = {text_at(contact, "wa_id"), text_at(contact, "user_id")} - {""}
        alone = senders if len(contacts) == len(senders) == 1 else set()
        names |= dict.fromkeys(known or alone, name)
    return names
