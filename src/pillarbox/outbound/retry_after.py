"""How long a provider asks us to wait."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_SECONDS = 366 * 86400.0

_DIGITS = re.compile(r"[0-9]+")
_LONGEST_NUMBER = 15
_LONGEST_DATE = 64


def seconds_to_wait(value: str | None, *, now: datetime | None) -> float | None:
    """A `Retry-After`, in seconds or as a date, as a wait of more than nothing; None for what says nothing or is past."""
    text = (value or "").strip()
    if _DIGITS.fullmatch(text):
        return _wait(_number(text))
    until = http_date(text)
    return None if until is None or now is None else _wait((until - now).total_seconds())


def seconds_until_epoch(value: str | None, *, now: datetime | None) -> float | None:
    """A reset that is given as a Unix time, as a wait of more than nothing; None for what says nothing or is past."""
    text = (value or "").strip()
    if now is None or not _DIGITS.fullmatch(text):
        return None
    return _wait(_number(text) - now.timestamp())


def http_date(text: str) -> datetime | None:
    """An instant in any of HTTP's three forms, or None."""
    if not text or len(text) > _LONGEST_DATE:
        return None
    try:
        instant = parsedate_to_datetime(text)
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _number(digits: str) -> float:
    return float(digits) if len(digits) <= _LONGEST_NUMBER else float("inf")


def _wait(seconds: float) -> float | None:
    return min(seconds, LONGEST_SECONDS) if seconds > 0 else None
