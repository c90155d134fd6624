"""A process that was stopped right after it had looked at the time."""

from __future__ import annotations

from datetime import datetime, timedelta

from pillarbox.clock import Clock


class AsleepClock(Clock):
    """Tells a time long past once, and the time as it is from then on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looks = 0

    @property
    def woke(self) -> bool:
        return self._looks > 1

    def now(self) -> datetime:
        self._looks += 1
        return self._clock.now() - timedelta(days=1) * (self._looks == 1)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def shown(self, instant: datetime) -> datetime:
        return self._clock.shown(instant)

    def stored(self, instant: datetime) -> datetime:
        return self._clock.stored(instant)
