"""Time, as everything here reads it.

`now()` is the timeline that is stored: due times, leases and ages are compared on it, so it never goes back and does not jump
when the wall clock is set. `shown()` turns a stored instant into what the wall clock would call it today.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SKEW_SECONDS = 0.2


class Clock(Protocol):
    """Where instants come from; safe to read from any thread."""

    def now(self) -> datetime:
        """The present on the stored timeline; never before an earlier answer."""

    def monotonic(self) -> float:
        """Seconds that only measure waits."""

    def shown(self, instant: datetime) -> datetime:
        """A stored instant as the wall clock tells it."""

    def stored(self, instant: datetime) -> datetime:
        """The reverse of `shown`, for instants that people give."""


def wall() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(UTC)


class OffsetClock:
    """A steady counter plus an offset; small corrections never make it go back."""

    def __init__(
        self, *, counter: Callable[[], float], offset: float, wall: Callable[[], datetime] | None = None
    ) -> None:
        self._counter = counter
        self._offset = offset
        self._wall = wall or self.now
        self._latest = EPOCH
        self._skew_found = timedelta(0)
        self._skew_measured = float("-inf")
        self._guard = threading.Lock()

    def now(self) -> datetime:
        present = datetime.fromtimestamp(self._counter() + self._offset, UTC)
        with self._guard:
            if present > self._latest:
                self._latest = present
            return self._latest

    def monotonic(self) -> float:
        return time.monotonic()

    def shown(self, instant: datetime) -> datetime:
        return instant + self._skew()

    def stored(self, instant: datetime) -> datetime:
        return instant - self._skew()

    def _skew(self) -> timedelta:
        """How far the wall clock was set away from the timeline; drift below a second is not worth showing.

        Measured a few times a second at most: every delivery asks.
        """
        moment = time.monotonic()
        if moment >= self._skew_measured + _SKEW_SECONDS:
            skew = self._wall() - self.now()
            self._skew_found = skew if abs(skew) >= timedelta(seconds=1) else timedelta(0)
            self._skew_measured = moment
        return self._skew_found

    @property
    def offset(self) -> float:
        return self._offset

    def follow(self, offset: float) -> None:
        """Take a newer measurement of the offset."""
        self._offset = offset
        self._skew_measured = float("-inf")

    def jump(self, offset: float) -> None:
        """Go over to a timeline that others have agreed on, even if it lies behind."""
        with self._guard:
            self._offset = offset
            self._latest = EPOCH
            self._skew_measured = float("-inf")


def uptime() -> float:
    """Seconds that go on while the machine sleeps, and that nobody can set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def system_clock() -> OffsetClock:
    """The wall clock as it stood at this call, carried on by the monotonic clock."""
    return OffsetClock(counter=time.monotonic, offset=time.time() - time.monotonic(), wall=wall)
