"""What a new message must look like before it comes near the database."""

from __future__ import annotations

import json

from pillarbox.errors import InvalidInput
from pillarbox.inbound.model import MESSAGE_TYPES, NewMessage
from pillarbox.sessions.registry import LONGEST_ID
from pillarbox.text import check_json, check_name, check_text

LONGEST_ORIGIN = 64
LONGEST_SOURCE_ID = 512
LARGEST_CONTENT = 16 * 1024 * 1024


def check_new_message(new: NewMessage) -> str | None:
    """Refuse what cannot be stored alike everywhere; answers the payload as JSON text."""
    check_name("session_id", new.session_id, most=LONGEST_ID)
    check_name("origin", new.origin, most=LONGEST_ORIGIN)
    if new.message_type not in MESSAGE_TYPES:
        raise InvalidInput("message_type", f"must be one of {', '.join(MESSAGE_TYPES)}.")
    check_text("content", new.content, most=LARGEST_CONTENT)
    if new.source_message_id is not None:
        check_name("source_message_id", new.source_message_id, most=LONGEST_SOURCE_ID)
    if new.source_channel_id is not None:
        check_text("source_channel_id", new.source_channel_id, most=LONGEST_SOURCE_ID)
    if new.actor_id is not None:
        check_text("actor_id", new.actor_id, most=LONGEST_SOURCE_ID)
    if new.actor_name is not None:
        check_text("actor_name", new.actor_name, most=1000)
    if new.actor_avatar_url is not None:
        check_text("actor_avatar_url", new.actor_avatar_url, most=4000)
    return _payload_json(new.payload)


def _payload_json(payload: object) -> str | None:
    if payload is None:
        return None
    check_json("payload", payload)
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput("payload", "must be a JSON value.") from error
    if len(text) > LARGEST_CONTENT:
        raise InvalidInput("payload", f"must have at most {LARGEST_CONTENT} characters.")
    return text
