"""How long the oldest has waited."""

from __future__ import annotations

from datetime import datetime

from pillarbox.storage import UNREADABLE, legible_or_none


def age_seconds(since: str | datetime | None, now: datetime) -> float | None:
    """None where nothing waits, or where the time was damaged on disk."""
    at = legible_or_none(since)
    return None if at is None or at is UNREADABLE else max(0.0, (now - at).total_seconds())
