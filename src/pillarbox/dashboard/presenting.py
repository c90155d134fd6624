"""A message's content as each channel has it: segments of a text message, a webhook as a command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pillarbox.outbound.contents import Content
from pillarbox.outbound.model import OutboundMessage
from pillarbox.outbound.segments import segments


@dataclass(frozen=True, slots=True)
class Segments:
    """How a text message is cut."""

    encoding: str
    number: int
    characters: int


@dataclass(frozen=True, slots=True)
class Call:
    """A webhook as `curl` would send it, and what its signature is made over."""

    command: str
    signed: str


def segments_of(message: OutboundMessage) -> Segments | None:
    if message.channel not in ("sms", "whatsapp") or message.body_text is None:
        return None
    encoding, number = segments(message.body_text)
    return Segments(encoding.upper(), number, len(message.body_text))


def call_of(message: OutboundMessage, content: Content) -> Call | None:
    """The last attempt's request; values of headers that are secret are left to be filled in."""
    if message.channel != "webhook" or message.to_address is None:
        return None
    at = message.last_attempt_at or message.created_at
    body = message.body_text or ""
    headers = {**_fillable(content.headers), **_ours(message, at)}
    if body and "content-type" not in {name.lower() for name in headers}:
        headers["content-type"] = "application/json"
    lines = [f"curl -X {content.method or 'POST'} {shlex.quote(message.to_address)}"]
    lines += [f"  -H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()]
    if body:
        lines.append(f"  --data-raw {shlex.quote(body)}")
    return Call(" \\\n".join(lines), f"{message.message_id}.{int(at.timestamp())}.{body}")


def _ours(message: OutboundMessage, at: datetime) -> Mapping[str, str]:
    return {
        "webhook-id": message.message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": "v1,…",
    }


def _fillable(headers: Mapping[str, str]) -> dict[str, str]:
    return dict.fromkeys(headers, "…")
