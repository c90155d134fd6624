"""How much flows, by pipe and channel: the totals of every process, looked at again and again."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from pillarbox.errors import PillarboxError
from pillarbox.telemetry import brief, logger

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox

_log = logger(__name__)
SECONDS_BETWEEN = 2.0
_POINTS_KEPT = 150
_SILENT_SECONDS = 20.0
_MOST_SERIES = 12

Totals = Mapping[str, list[float]]


class Rate(msgspec.Struct, frozen=True, array_like=True):
    """What flows in a second: ended well, failed, and how many milliseconds an attempt took."""

    well: float
    badly: float
    milliseconds: float | None


class Point(msgspec.Struct, frozen=True):
    """All series at one instant."""

    at: float
    series: dict[str, Rate]


@dataclass(slots=True)
class _Source:
    """One process, as it was last heard of."""

    seen: float
    totals: Totals
    arrived: float
    flows: dict[str, list[float]] = field(default_factory=dict)

    def hear(self, seen: float, totals: Totals, arrived: float) -> None:
        elapsed = seen - self.seen
        if elapsed <= 0:
            return
        self.flows = {
            name: [max(0.0, now - before) / elapsed for now, before in zip(numbers, self._before(name), strict=True)]
            for name, numbers in totals.items()
        }
        self.seen, self.totals, self.arrived = seen, totals, arrived

    def _before(self, name: str) -> list[float]:
        return self.totals.get(name, [0.0] * 4)


class Pulse:
    """Keeps the last minutes of what every process does."""

    def __init__(self, box: Pillarbox) -> None:
        self._box = box
        self._sources: dict[str, _Source] = {}
        self._points: deque[Point] = deque(maxlen=_POINTS_KEPT)

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(self._points)

    async def run(self) -> None:
        """Look every other second, until cancelled."""
        while True:
            try:
                await self.look()
            except PillarboxError as error:
                _log.debug("the flow of messages could not be looked at", error=brief(error))
            await asyncio.sleep(SECONDS_BETWEEN)

    async def look(self) -> Point:
        """Take one look, and keep it."""
        now, own = time.time(), self._box.nodes.holder
        self._hear(own, now, self._box.metrics.totals())
        for holder, (seen, totals) in (await self._box.nodes.totals()).items():
            if holder != own:
                self._hear(holder, seen.timestamp(), totals, arrived=now)
        self._sources = {
            name: source for name, source in self._sources.items() if now - source.arrived < _SILENT_SECONDS
        }
        point = Point(round(now, 1), _rates([source.flows for source in self._sources.values()]))
        self._points.append(point)
        return point

    def _hear(self, holder: str, seen: float, totals: Totals, *, arrived: float | None = None) -> None:
        source = self._sources.get(holder)
        if source is None:
            self._sources[holder] = _Source(seen, totals, arrived or seen)
        else:
            source.hear(seen, totals, arrived or seen)


def _rates(flows: list[dict[str, list[float]]]) -> dict[str, Rate]:
    """The sum over all processes."""
    summed: dict[str, list[float]] = {}
    for each in flows:
        for name, numbers in each.items():
            summed[name] = [one + other for one, other in zip(summed.get(name, [0.0] * 4), numbers, strict=True)]
    busiest = sorted(summed, key=lambda name: -summed[name][0] - summed[name][1])[:_MOST_SERIES]
    return {name: _rate(*summed[name]) for name in sorted(busiest)}


def _rate(well: float, badly: float, seconds: float, timed: float) -> Rate:
    return Rate(round(well, 2), round(badly, 2), round(seconds / timed * 1000, 1) if timed else None)
