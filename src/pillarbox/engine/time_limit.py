"""One timer for all deliveries."""

from __future__ import annotations

import asyncio
import math
from typing import Generic

from pillarbox.engine.flight import Flight
from pillarbox.engine.lease import RowT


class TimeLimit(Generic[RowT]):
    """Ends deliveries that take too long; all may take equally long, so the first that began is the first to be late."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._under_way: dict[Flight[RowT], float] = {}
        self._looks_at = -math.inf

    def begin(self, flight: Flight[RowT]) -> None:
        now = flight.loop.time()
        self._under_way[flight] = now + self._seconds
        # A look that is overdue was to come from a loop that has ended.
        if self._looks_at < now:
            self._look_at(now + self._seconds)

    def end(self, flight: Flight[RowT]) -> bool:
        """Whether it took too long."""
        self._under_way.pop(flight, None)
        return flight.was_late()

    def _look_at(self, moment: float) -> None:
        self._looks_at = moment
        asyncio.get_running_loop().call_at(moment, self._look)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        self._looks_at = -math.inf
        for flight, ends in list(self._under_way.items()):
            if ends > now:
                self._look_at(ends)
                return
            del self._under_way[flight]
            flight.be_late()
