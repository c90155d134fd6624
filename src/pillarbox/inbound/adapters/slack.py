"""Slack's Events API: its signature and its messages."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from pillarbox.inbound.adapter import Received
from pillarbox.inbound.adapters.documents import at, items_at, number_at, same, text_at, without_gaps

ORIGIN = "slack"
SIGNATURE, TIMESTAMP = "x-slack-signature", "x-slack-request-timestamp"
TOLERANCE_SECONDS = 300

_SAID_BY_PEOPLE = ("", "file_share", "me_message", "thread_broadcast")


def is_signed(body: bytes, timestamp: str | None, signature: str | None, *, secret: str, now: float) -> bool:
    """Whether Slack signed exactly these bytes, no longer ago than five minutes."""
    if timestamp is None or not timestamp.isascii() or not timestamp.isdigit() or len(timestamp) > 12:
        return False
    if abs(now - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    signed = b"v0:%s:%s" % (timestamp.encode(), body)
    return same(signature, "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest())


def challenge_in(document: Any) -> str | None:
    """What Slack wants to hear back when the address is entered."""
    return text_at(document, "challenge") if at(document, "type") == "url_verification" else None


def message_in(document: Any, *, mentions_only: bool) -> Received | None:
    """The message of a person; edits, deletions, joins, reactions and bots, this one among them, are passed over.

    A mention is told as a message too, under another id: in channels only one of the two is listened to.
    """
    event, event_id = at(document, "event"), text_at(document, "event_id")
    kind, channel = text_at(event, "type"), text_at(event, "channel")
    if at(document, "type") != "event_callback" or not event_id or not channel:
        return None
    direct = text_at(event, "channel_type") == "im"
    if kind != ("app_mention" if mentions_only and not direct else "message"):
        return None
    if text_at(event, "subtype") not in _SAID_BY_PEOPLE or at(event, "bot_id") is not None:
        return None
    content = _unescaped(text_at(event, "text"))
    files = [_file(file, content) for file in items_at(event, "files") if text_at(file, "id")]
    if not content and not files:
        return None
    spoken = text_at(event, "files", 0, "subtype") == "slack_audio"
    return Received(
        origin=ORIGIN,
        channel_id=channel,
        source_message_id=event_id,
        message_type="text" if not files else "voice" if spoken else "file",
        content=content,
        payload=without_gaps(
            **(files[0] if files else {}),
            more_files=files[1:],
            team=text_at(document, "team_id"),
            ts=text_at(event, "ts"),
            thread_ts=text_at(event, "thread_ts"),
        ),
        actor_id=text_at(event, "user") or None,
        actor_name=text_at(event, "user_profile", "display_name")
        or text_at(event, "user_profile", "real_name")
        or None,
    )


def _file(file: Any, caption: str) -> dict[str, Any]:
    return without_gaps(
        file_id=text_at(file, "id"),
        url=text_at(file, "url_private_download") or text_at(file, "url_private"),
        mime=text_at(file, "mimetype"),
        size=number_at(file, "size"),
        name=text_at(file, "name"),
        caption=caption,
    )


def _unescaped(text: str) -> str:
    """Slack writes these three characters as entities, and no others."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
