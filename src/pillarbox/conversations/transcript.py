"""What an agent said to its user, in one line of a transcript: Claude Code's and Codex's JSON lines."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
LONGEST_SAYING = 200_000


class Said(NamedTuple):
    """One utterance; `at` is an instant that compares as text, empty where the transcript tells none."""

    text: str
    at: str


def said_in(line: bytes) -> Said | None:
    """The words for the user in a line, or None: thoughts, tools, helpers and what people say are passed over."""
    # Most of a transcript is what tools answered, which may be large: it is not worth reading.
    if b'"assistant"' not in line:
        return None
    try:
        entry = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    text = _claude(entry) if entry.get("type") == "assistant" else _codex(entry)
    return Said(text[:LONGEST_SAYING], instant_of(entry.get("timestamp"))) if text else None


def instant_of(value: object) -> str:
    """An ISO instant in one form; empty for anything else."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return ""
    if found is None:
        return ""
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="microseconds")


def _claude(entry: dict[str, Any]) -> str:
    """`{"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": ...}]}}`"""
    message = entry.get("message")
    if entry.get("isSidechain") is True or entry.get("isMeta") is True or not isinstance(message, dict):
        return ""
    return _texts(message.get("content"), "text")


def _codex(entry: dict[str, Any]) -> str:
    """`{"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": [{"type": "output_text"}]}}`"""
    payload = entry.get("payload")
    if entry.get("type") != "response_item" or not isinstance(payload, dict):
        return ""
    if payload.get("type") != "message" or payload.get("role") != "assistant":
        return ""
    return _texts(payload.get("content"), "output_text")


def _texts(content: object, kind: str) -> str:
    if isinstance(content, str):
        parts = [content]
    elif isinstance(content, list):
        found = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == kind)
        parts = [part for part in found if isinstance(part, str)]
    else:
        return ""
    return _UNSTORABLE.sub("\ufffd", "\n\n".join(part.strip() for part in parts if part.strip()))
