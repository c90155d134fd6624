"""How long to rest: until what the lane says is due next."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Generic

from pillarbox.clock import Clock
from pillarbox.engine.lane import Lane
from pillarbox.engine.lease import RowT
from pillarbox.engine.pace import Pace
from pillarbox.telemetry import brief, logger

log = logger(__name__)

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


class Outlook(Generic[RowT]):
    """Asks the lane; while it cannot say, it is asked ever more seldom, however well all else goes meanwhile."""

    def __init__(self, lane: Lane[RowT], pace: Pace, clock: Clock) -> None:
        self._lane = lane
        self._pace = pace
        self._clock = clock
        self._pause = _FIRST_PAUSE
        self._asks_again = -math.inf

    async def rest(self, *, looked: datetime) -> float:
        """How long, after a look at that time."""
        if (left := self._asks_again - self._clock.monotonic()) > 0:
            return min(self._pace.poll, left)
        try:
            due = await self._lane.next_due(now=self._clock.now())
        except Exception as error:
            return self._without_an_answer(error)
        self._pause = _FIRST_PAUSE
        return self._pace.rest(due, looked=looked, now=self._clock.now())

    def _without_an_answer(self, error: Exception) -> float:
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        self._asks_again = self._clock.monotonic() + pause
        log.warning(
            "the queue cannot say what is due next; it is looked through after a pause",
            error=brief(error),
            pause_seconds=pause,
        )
        return min(self._pace.poll, pause)
