"""Caps on how many messages a tenant sends in a minute: pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

_MINUTE = 60_000_000
_FURTHEST = timedelta(minutes=2)
"""What is sent uses a cap for a minute ahead at most, by the clock of whoever sent it, which may differ a little from ours."""


class Cap(NamedTuple):
    """So many in any minute: a small burst, then evenly spaced, so that no window of sixty seconds ever holds more."""

    burst: int
    interval: timedelta

    @classmethod
    def of(cls, per_minute: int) -> Cap:
        burst = max(1, per_minute // 60)
        spaced = per_minute if burst == 1 else per_minute - burst
        # Rounded up: a microsecond too little each time lets one more into a minute.
        return cls(burst, timedelta(microseconds=-(-_MINUTE // spaced)))


def sound(used_until: datetime | None, now: datetime) -> datetime | None:
    """Up to when a cap is used, as it was stored: none where that cannot be, because it was damaged on disk."""
    return None if used_until is None or used_until > now + _FURTHEST else used_until


def allowance(cap: Cap, used_until: datetime | None, now: datetime) -> int:
    """How many may go now, if what went before has used the minute up to then."""
    if used_until is None or used_until <= now:
        return cap.burst
    return max(0, int(cap.burst - (used_until - now) / cap.interval))


def used(cap: Cap, used_until: datetime | None, now: datetime, count: int) -> datetime:
    """Up to when the minute is used once so many more have gone."""
    return max(used_until or now, now) + count * cap.interval


def next_free(cap: Cap, used_until: datetime) -> datetime:
    """When the next one may go."""
    return used_until - (cap.burst - 1) * cap.interval
