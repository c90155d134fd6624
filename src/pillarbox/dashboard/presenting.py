"""A message's content as each channel has it: segments of a text message, a webhook as a command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

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
    """A webhook as `curl` would send it, and what its signature is made over, where it has one."""

    command: str
    signed: str | None


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
    ours = {"webhook-id": message.message_id, "webhook-timestamp": str(int(at.timestamp()))}
    ours |= dict.fromkeys(content.signatures, "…")
    taken = {name.lower() for name in ours}
    headers = {name: "…" for name in content.headers if name.lower() not in taken} | ours
    if body and "content-type" not in {name.lower() for name in headers}:
        headers["content-type"] = "application/json"
    # Brackets and braces of a URL are its own, and no pattern.
    lines = [f"curl --globoff -X {shlex.quote(content.method or 'POST')} {shlex.quote(message.to_address)}"]
    lines += [f"  -H {shlex.quote(f'{name}: {value}')}" for name, value in headers.items()]
    if body:
        lines.append(f"  --data-raw {shlex.quote(body)}")
    signed = f"{message.message_id}.{int(at.timestamp())}.{body}" if content.signatures else None
    return Call(" \\\n".join(lines), signed)
