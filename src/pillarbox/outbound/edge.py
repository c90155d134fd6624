"""What a message must look like before it comes near the database: complete, canonical, within every limit."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from pillarbox.errors import InvalidInput
from pillarbox.outbound import contacts
from pillarbox.outbound.attachment_rules import check_attachments
from pillarbox.outbound.destinations import check_url
from pillarbox.outbound.header_rules import check_email_headers, check_webhook_headers
from pillarbox.outbound.model import CHANNELS, Channel, Checked, NewMessage
from pillarbox.text import check_json, check_name, check_text

LARGEST_TEXT = 1024 * 1024
LARGEST_BODY = 1024 * 1024
LARGEST_DATA = 64 * 1024
LONGEST_SUBJECT = 998
LONGEST_TEXTS: dict[Channel, int] = {"sms": 1600, "telegram": 4096, "whatsapp": 4096, "discord": 2000, "slack": 40_000}
MOST_RECIPIENTS = 100
MOST_TAGS, LONGEST_TAG = 50, 64
LAST_PRIORITY = 1000
MOST_ATTEMPTS = 20

_CATEGORIES = ("transactional", "marketing")
_METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE")
_WITHOUT_BODY = ("GET", "DELETE")
_PLATFORMS = ("ios", "android", "web")
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
_SENDER_ID = re.compile(r"(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9][A-Za-z0-9 &_.-]{0,10}|[0-9]{3,8}|MG[0-9A-Fa-f]{32}")

_FIELDS: dict[Channel, frozenset[str]] = {
    "email": frozenset({"subject", "text", "html", "from", "cc", "bcc", "reply_to", "attachments", "headers"}),
    "sms": frozenset({"text", "from"}),
    "push": frozenset({"subject", "text", "platform", "data"}),
    "webhook": frozenset({"body", "method", "headers"}),
    "voice": frozenset({"text", "from"}),
    "whatsapp": frozenset({"text", "from", "data"}),
    "telegram": frozenset({"text", "data"}),
    "discord": frozenset({"text", "data"}),
    "slack": frozenset({"text", "data"}),
    "inapp": frozenset({"subject", "text", "data"}),
}
"""The fields that each channel knows beside those of every message."""


def check_message(
    new: NewMessage,
    *,
    sender: str | None,
    sender_required: bool,
    trusted: frozenset[str],
    attachment_roots: Sequence[str],
    now: datetime,
) -> Checked:
    """Refuse what cannot be sent, naming the field; `sender` is the tenant's, for messages that name none.

    `now` and the message's instants are the wall clock's.
    """
    if new.channel not in CHANNELS:
        raise InvalidInput("channel", f"must be one of {', '.join(CHANNELS)}.")
    _check_fields(new)
    to, canonical = _recipient(new, trusted)
    copies, options = _addressing(new, canonical)
    from_ = _sender(new, sender, required=sender_required)
    secret_headers = check_webhook_headers(new.headers) if new.channel == "webhook" else {}
    send_at, expires_at = _instants(new, now)
    return Checked(
        channel=new.channel,
        to=to,
        contacts=(canonical, *copies),
        subject=_subject(new.subject),
        text=_text("text", new.text),
        html=_text("html", new.html),
        body=_body(new) if new.channel == "webhook" else None,
        options={**({"from": from_} if from_ else {}), **options, **_extras(new)},
        secret_headers=secret_headers,
        attachments=check_attachments(new.attachments, roots=attachment_roots, trusted=trusted),
        priority=_between("priority", new.priority, 0, LAST_PRIORITY),
        send_at=send_at,
        expires_at=expires_at,
        max_attempts=None if new.max_attempts is None else _between("max_attempts", new.max_attempts, 1, MOST_ATTEMPTS),
        category=new.category,
        tags=_tags(new),
    )


@lru_cache(maxsize=1024)
def check_sender(field: str, channel: Channel, text: str) -> str:
    """A sender as its channel knows it: a mailbox with or without a name, a number, or a name that stands for one."""
    if channel == "email":
        return contacts.mailbox(field, text)[0]
    if _SENDER_ID.fullmatch(text.strip(" ")):
        return text.strip(" ")
    return contacts.phone(field, text)


def _check_fields(new: NewMessage) -> None:
    """Refuse what is not of this channel, then what is missing."""
    for field in ("template", "locale", "variables"):
        if getattr(new, field) is not None:
            raise InvalidInput(field, "is not taken yet: templates come later.")
    given = {
        "subject": new.subject,
        "text": new.text,
        "html": new.html,
        "body": new.body,
        "from": new.from_,
        "cc": new.cc or None,
        "bcc": new.bcc or None,
        "reply_to": new.reply_to,
        "attachments": new.attachments or None,
        "headers": new.headers or None,
        "method": new.method,
        "platform": new.platform,
        "data": new.data,
    }
    for field, value in given.items():
        if value is not None and field not in _FIELDS[new.channel]:
            raise InvalidInput(field, f"is not known to the channel {new.channel}.")
    match new.channel:
        case "email" if not (new.text or new.html):
            raise InvalidInput("text", "is required, or html.")
        case "push" | "inapp" if not (new.text or new.subject or new.data):
            raise InvalidInput("text", "is required, or subject or data.")
        case "sms" | "voice" | "whatsapp" | "telegram" | "discord" | "slack" if not new.text:
            raise InvalidInput("text", "is required.")
    if (most := LONGEST_TEXTS.get(new.channel)) and len(new.text or "") > most:
        raise InvalidInput("text", f"must have at most {most} characters.")
    if new.category not in _CATEGORIES:
        raise InvalidInput("category", f"must be one of {', '.join(_CATEGORIES)}.")


def _recipient(new: NewMessage, trusted: frozenset[str]) -> tuple[str, str]:
    """The address to send to, and its canonical form; only a URL is kept as it was given."""
    match new.channel:
        case "email":
            address = contacts.bare_mailbox("to", new.to)
        case "webhook":
            check_url("to", new.to, trusted=trusted)
            return new.to, contacts.url("to", new.to)
        case _:
            address = contacts.canonical(new.channel, new.to, field="to")
    return address, address


def _addressing(new: NewMessage, to: str) -> tuple[list[str], dict[str, Any]]:
    """Further recipients in canonical form, and how the email shows them; each may be named once."""
    if len(new.cc) + len(new.bcc) >= MOST_RECIPIENTS:
        raise InvalidInput("cc" if new.cc else "bcc", f"must not make more than {MOST_RECIPIENTS} recipients in all.")
    copies: dict[str, None] = {to: None}
    options: dict[str, Any] = {}
    for field, addresses in (("cc", new.cc), ("bcc", new.bcc)):
        shown = []
        for index, text in enumerate(addresses):
            display, canonical = contacts.mailbox(f"{field}.{index}", text)
            if canonical in copies:
                raise InvalidInput(f"{field}.{index}", "is a recipient already.")
            copies[canonical] = None
            shown.append(display)
        if shown:
            options[field] = shown
    if new.reply_to is not None:
        options["reply_to"] = contacts.mailbox("reply_to", new.reply_to)[0]
    return list(copies)[1:], options


def _sender(new: NewMessage, sender: str | None, *, required: bool) -> str | None:
    if "from" not in _FIELDS[new.channel]:
        return None
    if new.from_ is None and sender is None:
        if required and new.channel in ("email", "sms"):
            raise InvalidInput("from", f"is required: the tenant has no sender for the channel {new.channel}.")
        return None
    return check_sender("from", new.channel, new.from_ if new.from_ is not None else sender or "")


def _subject(subject: str | None) -> str | None:
    return check_name("subject", subject, most=LONGEST_SUBJECT) if subject else subject


def _text(field: str, text: str | None) -> str | None:
    if text is not None:
        check_text(field, text, most=LARGEST_TEXT)
        _check_bytes(field, text, most=LARGEST_TEXT)
    return text


def _check_bytes(field: str, text: str, *, most: int) -> None:
    if len(text) * 4 > most and len(text.encode()) > most:
        raise InvalidInput(field, f"must have at most {most} bytes.")


def _body(new: NewMessage) -> str | None:
    """The JSON text to send; a method that needs no body has one only if it was given."""
    if new.body is None and new.method in _WITHOUT_BODY:
        return None
    return _json("body", new.body, most=LARGEST_BODY)


def _json(field: str, value: object, *, most: int) -> str:
    check_json(field, value)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise InvalidInput(field, "must be a JSON value.") from error
    _check_bytes(field, text, most=most)
    return text


def _extras(new: NewMessage) -> dict[str, Any]:
    """What only this channel knows."""
    extras: dict[str, Any] = {}
    if new.channel == "webhook":
        extras["method"] = _one_of("method", new.method or "POST", _METHODS)
    if new.channel == "email" and new.headers:
        extras["headers"] = check_email_headers(new.headers)
    if new.platform is not None:
        extras["platform"] = _one_of("platform", new.platform.lower(), _PLATFORMS)
    if new.data is not None:
        _json("data", new.data, most=LARGEST_DATA)
        extras["data"] = new.data
    return extras


def _one_of(field: str, word: str, words: Sequence[str]) -> str:
    if word not in words:
        raise InvalidInput(field, f"must be one of {', '.join(words)}.")
    return word


def _between(field: str, number: int, least: int, most: int) -> int:
    if isinstance(number, bool) or not least <= number <= most:
        raise InvalidInput(field, f"must be from {least} to {most}.")
    return number


def _tags(new: NewMessage) -> tuple[str, ...]:
    if len(new.tags) > MOST_TAGS:
        raise InvalidInput("tags", f"must be at most {MOST_TAGS}.")
    return tuple(check_name(f"tags.{index}", tag, most=LONGEST_TAG) for index, tag in enumerate(new.tags))


def _instants(new: NewMessage, now: datetime) -> tuple[datetime | None, datetime | None]:
    send_at, expires_at = _instant("send_at", new.send_at), _instant("expires_at", new.expires_at)
    if expires_at is not None:
        if expires_at <= now:
            raise InvalidInput("expires_at", "must be in the future.")
        if send_at is not None and expires_at < send_at:
            raise InvalidInput("expires_at", "must not be before send_at.")
    return send_at, expires_at


def _instant(field: str, instant: datetime | None) -> datetime | None:
    if instant is None:
        return None
    if instant.utcoffset() is None:
        raise InvalidInput(field, "must have an offset, such as 2030-01-31T12:00:00Z.")
    try:
        in_utc = instant.astimezone(UTC)
    except OverflowError:
        in_utc = _LATEST
    if not 1900 < in_utc.year < _LATEST.year:
        raise InvalidInput(field, "must be an instant of this or a later century.")
    return in_utc
