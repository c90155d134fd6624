"""What is said, to whom: a short form of it that whoever sends and whoever gets it can write down and compare."""

from __future__ import annotations

from base64 import b64encode
from hashlib import blake2b
from typing import Any

import msgspec

ORIGIN = "torture"
SIGNING_KEY = b"what nodes sign their calls with"
SIGNING_SECRET = "whsec_" + b64encode(SIGNING_KEY).decode()


def inbound_said(session: str, origin: str, content: str, payload: Any) -> str:
    return _digest(session, origin, content, payload)


def hook_said(session: str, event_type: str, payload: Any) -> str:
    return _digest(session, event_type, payload)


def outbound_said(place: str, body: Any) -> str:
    return _digest(place, body)


def order_body(place: str) -> dict[str, str]:
    """What a program says within its own transaction: its order alone tells, as it may die before it writes it down."""
    return {"order": place}


def _digest(*said: object) -> str:
    return blake2b(msgspec.json.encode(said, order="sorted"), digest_size=8).hexdigest()
