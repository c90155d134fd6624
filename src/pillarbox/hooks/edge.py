"""What a new event must look like before it comes near the database."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import msgspec

from pillarbox.errors import InvalidInput
from pillarbox.hooks.listeners import LONGEST_TYPE
from pillarbox.hooks.model import Checked, NewEvent
from pillarbox.sessions.registry import LONGEST_ID
from pillarbox.telemetry.traces import current_trace
from pillarbox.text import check_json, check_name

LARGEST_PAYLOAD = 1024 * 1024
# Values that every encoder writes alike; a float may be none that JSON knows.
_PLAIN = {str, bool, type(None)}
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def check_new_event(new: NewEvent, now: datetime) -> Checked:
    """Refuse what cannot be stored alike everywhere."""
    check_name("session_id", new.session_id, most=LONGEST_ID)
    check_name("event_type", new.event_type, most=LONGEST_TYPE)
    if not isinstance(new.payload, dict):
        raise InvalidInput("payload", "must be a JSON object.")
    text = _encoded(new.payload)
    if len(text) > LARGEST_PAYLOAD or len(text.encode()) > LARGEST_PAYLOAD:
        raise InvalidInput("payload", f"must have at most {LARGEST_PAYLOAD} bytes.")
    return Checked(new.session_id, new.event_type, text, now, trace=current_trace())


def _encoded(payload: dict[str, Any]) -> str:
    check_json("payload", payload)
    if _PLAIN.issuperset(map(type, payload.values())) and {str}.issuperset(map(type, payload)):
        return msgspec.json.encode(payload).decode()
    try:
        return _ENCODER.encode(payload)
    except (TypeError, ValueError) as error:
        raise InvalidInput("payload", "must be a JSON object.") from error
