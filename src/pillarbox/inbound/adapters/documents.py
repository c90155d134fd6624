"""Reading what a platform sent: JSON that may hold anything, and a caller who goes on whatever it holds."""

from __future__ import annotations

import hmac
import json
from typing import Any

import msgspec

_LONGEST_NUMBER = 300


class NotJson(Exception):
    """The bytes are no JSON document that can be read."""


def read_document(body: bytes) -> Any:
    """The JSON in these bytes; text that is not UTF-8 is read with U+FFFD in its place, unpaired surrogates are kept."""
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        pass
    try:
        text = body.decode("utf-8", "replace")
        return json.loads(text, parse_int=_whole, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        raise NotJson from None


def _whole(digits: str) -> int | float:
    """Python refuses to read numbers of thousands of digits."""
    return int(digits) if len(digits) <= _LONGEST_NUMBER else float("inf")


def at(value: Any, *steps: str | int) -> Any:
    """What stands at the end of these steps, or None."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(value, list):
            value = value[index] if (index := _index(step)) is not None and index < len(value) else None
        else:
            return None
    return value


def text_at(value: Any, *steps: str | int) -> str:
    """The text there, or none at all."""
    found = at(value, *steps)
    return found if isinstance(found, str) else ""


def number_at(value: Any, *steps: str | int) -> int | None:
    """The whole number there, if there is one that can be stored."""
    found = at(value, *steps)
    whole = isinstance(found, int) and not isinstance(found, bool)
    return found if whole and -(2**63) <= found < 2**63 else None


def items_at(value: Any, *steps: str | int) -> list[Any]:
    """The list there, or an empty one."""
    found = at(value, *steps)
    return found if isinstance(found, list) else []


def without_gaps(**fields: Any) -> dict[str, Any]:
    """These fields but for those that say nothing."""
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def same(given: str | None, expected: str) -> bool:
    """Whether somebody has given the right secret, compared in constant time."""
    return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _index(step: str | int) -> int | None:
    if isinstance(step, int):
        return step
    return int(step) if step.isascii() and step.isdigit() and len(step) <= 9 else None
