"""Any program that posts JSON: three ways to prove who it is, and a mapping from its document to a message."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pillarbox.inbound.adapter import Received
from pillarbox.inbound.adapters.documents import at, same

WEBHOOK_ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
TOLERANCE_SECONDS = 300

Header = Callable[[str], str | None]
"""Gives the value of a header by its name in small letters, if it came exactly once."""

_HEADERS = {"hmac": "x-hub-signature-256", "token": "authorization"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where in a document the parts of a message are; a path is dotted."""

    origin: str
    channel_id: str
    session: str | None = None
    session_path: str | None = None
    channel_path: str | None = None
    content_path: str | None = None
    id_path: str | None = None
    id_header: str | None = None
    actor_id_path: str | None = None
    actor_name_path: str | None = None


def is_proven(
    body: bytes,
    header: Header,
    *,
    proof: Literal["standard", "hmac", "token"],
    name: str | None,
    secret: str,
    now: float,
) -> bool:
    """Whether the sender knows the secret; `name` is the header that proves it, where it is not the usual one."""
    if proof == "standard":
        return _is_standard(body, header, secret, now)
    given = header((name or _HEADERS[proof]).lower())
    if given is None:
        return False
    if proof == "token":
        scheme, _, token = given.partition(" ")
        return same(token.strip() if scheme.lower() == "bearer" else given, secret)
    digest = hmac.new(secret.encode(), body, hashlib.sha256)
    given = given.removeprefix("sha256=").strip()
    return same(given.lower(), digest.hexdigest()) or same(given, b64encode(digest.digest()).decode())


def message_in(document: Any, header: Header, places: Places) -> Received | None:
    """The message at these places, or None when there is no text where it should be."""
    content = _text(document if places.content_path is None else _follow(document, places.content_path))
    if content is None:
        return None
    channel = _found(document, places.channel_path)
    return Received(
        origin=places.origin,
        channel_id=channel or places.channel_id,
        session_id=places.session or _found(document, places.session_path),
        source_message_id=_id(document, header, places),
        content=content,
        payload=None if places.content_path is None else document,
        actor_id=_found(document, places.actor_id_path),
        actor_name=_found(document, places.actor_name_path),
    )


def _is_standard(body: bytes, header: Header, secret: str, now: float) -> bool:
    """Standard Webhooks 1.0: one of the signatures is that of id, time and body, and the time is close to ours."""
    message_id, timestamp, signatures = header(WEBHOOK_ID), header(TIMESTAMP), header(SIGNATURE)
    if not message_id or not timestamp or not signatures or len(timestamp) > 12:
        return False
    if not timestamp.isascii() or not timestamp.isdigit() or abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    signed = b"%s.%s.%s" % (message_id.encode("utf-8", "replace"), timestamp.encode(), body)
    expected = "v1," + b64encode(hmac.new(_key(secret), signed, hashlib.sha256).digest()).decode()
    return any(same(signature, expected) for signature in signatures.split(" "))


def _key(secret: str) -> bytes:
    encoded = secret.removeprefix("whsec_").rstrip("=")
    return b64decode(encoded + "=" * (-len(encoded) % 4))


def _id(document: Any, header: Header, places: Places) -> str | None:
    found = _found(document, places.id_path)
    return found if found or places.id_header is None else header(places.id_header.lower()) or None


def _follow(document: Any, path: str) -> Any:
    return at(document, *path.split("."))


def _found(document: Any, path: str | None) -> str | None:
    """The text or number at a path, as text."""
    found = None if path is None else _follow(document, path)
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return None
    return str(found) or None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return None
