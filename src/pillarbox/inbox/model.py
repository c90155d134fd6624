"""What the inbox answers, as Python sees it and, with the names in camelCase, as it goes over the wire."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from pillarbox.errors import InvalidInput
from pillarbox.text import check_json

LARGEST_RESULT = 64 * 1024
LEAST_RETENTION, MOST_RETENTION = timedelta(days=7), timedelta(days=30)

BeginStatus = Literal["Acquired", "Processed", "Busy", "Mismatch"]
LeaseStatus = Literal["Extended", "Processed", "Released", "LeaseLost"]
KeyStatus = Literal["Leased", "Free", "Processed", "Unknown"]

BEGIN_STATUSES: tuple[BeginStatus, ...] = ("Acquired", "Processed", "Busy", "Mismatch")


class Begun(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer to try-begin; a lease comes with `Acquired`, what the first handler kept with `Processed`."""

    status: BeginStatus
    lease_id: str | None = None
    expires_at: datetime | None = None
    result: Any = None


class LeaseAnswer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What became of a lease; `LeaseLost` means that it is not the caller's, and that nothing was changed."""

    status: LeaseStatus
    expires_at: datetime | None = None


class Sighting(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is known of a key; an `Unknown` one was never seen, or so long ago that it is forgotten."""

    status: KeyStatus
    attempts: int
    first_seen: datetime | None
    last_seen: datetime | None
    lease_until: datetime | None = None


class InboxStatus(msgspec.Struct, frozen=True):
    """How many keys are leased now, free after a failure, and remembered as processed."""

    leased: int
    free: int
    processed: int


BUSY = Begun("Busy")
MISMATCH = Begun("Mismatch")
LEASE_LOST = LeaseAnswer("LeaseLost")
RELEASED = LeaseAnswer("Released")
MARKED = LeaseAnswer("Processed")
UNKNOWN = Sighting("Unknown", 0, None, None)


def digest_of(key: str) -> str:
    """A name of fixed length for a key of any length."""
    return hashlib.sha256(key.encode()).hexdigest()


def check_retention(retention: timedelta) -> timedelta:
    """7 to 30 days: long enough for whoever repeats himself, and far longer than any lease."""
    if not LEAST_RETENTION <= retention <= MOST_RETENTION:
        raise InvalidInput("retention", f"must be {LEAST_RETENTION.days} to {MOST_RETENTION.days} days.")
    return retention


def differ(one: str | None, other: str | None) -> bool:
    """Whether two fingerprints tell two requests apart; one that was not given is not compared."""
    return one is not None and other is not None and one != other


def result_text(result: Any) -> str | None:
    """A result as JSON, or None for none; refused when it is no JSON or too large to keep."""
    if result is None:
        return None
    check_json("result", result)
    try:
        text = msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("result", "must be a JSON value.") from None
    if len(text) > LARGEST_RESULT:
        raise InvalidInput("result", f"must have at most {LARGEST_RESULT} bytes as JSON.")
    return text.decode()


def result_value(text: str | bytes | None) -> Any:
    """A kept result, as it was."""
    return None if text is None else msgspec.json.decode(text)
