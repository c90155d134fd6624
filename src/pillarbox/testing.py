"""What tests of applications, and ours, need."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock that stands still until it is told how much time has passed."""

    def __init__(self, start: datetime = _START) -> None:
        self._start = start
        self._passed = timedelta(0)

    def now(self) -> datetime:
        return self._start + self._passed

    def monotonic(self) -> float:
        return self._passed.total_seconds()

    def shown(self, instant: datetime) -> datetime:
        return instant

    def stored(self, instant: datetime) -> datetime:
        return instant

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError("Time does not go back; give a number of seconds that is not negative.")
        self._passed += timedelta(seconds=seconds)
