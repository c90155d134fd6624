"""What a new event must look like before it comes near the database."""

from __future__ import annotations

import json
from datetime import datetime

from pillarbox.errors import InvalidInput
from pillarbox.hooks.listeners import LONGEST_TYPE
from pillarbox.hooks.model import NewEvent
from pillarbox.hooks.strands import Checked
from pillarbox.sessions.registry import LONGEST_ID
from pillarbox.telemetry.traces import current_trace
from pillarbox.text import check_json, check_name

LARGEST_PAYLOAD = 1024 * 1024
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def check_new_event(new: NewEvent, now: datetime) -> Checked:
    """Refuse what cannot be stored alike everywhere."""
    check_name("session_id", new.session_id, most=LONGEST_ID)
    check_name("event_type", new.event_type, most=LONGEST_TYPE)
    if not isinstance(new.payload, dict):
        raise InvalidInput("payload", "must be a JSON object.")
    check_json("payload", new.payload)
    try:
        text = _ENCODER.encode(new.payload)
    except (TypeError, ValueError) as error:
        raise InvalidInput("payload", "must be a JSON object.") from error
    if len(text.encode()) > LARGEST_PAYLOAD:
        raise InvalidInput("payload", f"must have at most {LARGEST_PAYLOAD} bytes.")
    return Checked(new.session_id, new.event_type, text, now, trace=current_trace())
