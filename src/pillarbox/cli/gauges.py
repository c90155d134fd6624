"""What `pillarbox top` shows: read from the database, so that it tells of every process on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox
    from pillarbox.operators.nodes import Node

Beat = tuple[datetime, Mapping[str, list[float]]]
_WELL, _BADLY, _SECONDS, _TIMED = range(4)


@dataclass(frozen=True, slots=True)
class Pace:
    """What was done in a second, of one pipe or channel: well, badly, and how long one took."""

    done: float
    failed: float
    took_seconds: float | None


@dataclass(frozen=True, slots=True)
class Gauges:
    """One look at everything; without a pace where no process has told of its work twice yet."""

    pipes: Mapping[str, Mapping[str, Any]]
    paces: Mapping[str, Pace]
    nodes: list[Node]


class Gauge:
    """Looks again and again, and makes paces of what processes say they have done since they started."""

    def __init__(self, box: Pillarbox) -> None:
        self._box = box
        self._beats: dict[str, Beat] = {}
        self._steps: dict[str, dict[str, list[float]]] = {}

    async def look(self) -> Gauges:
        from msgspec import to_builtins

        box = self._box
        pipes = {
            "inbound": to_builtins(await box.inbound.status()),
            "hooks": to_builtins(await box.hooks.status()),
            "outbound": to_builtins(await box.outbound.status()),
            "inbox": to_builtins(await box.inbox_status()),
        }
        self._heed(await box.nodes.totals())
        return Gauges(pipes, self._paces(), await box.nodes.list())

    def _heed(self, beats: Mapping[str, Beat]) -> None:
        for holder, (at, totals) in beats.items():
            before = self._beats.get(holder)
            if before is not None and at > before[0]:
                seconds = (at - before[0]).total_seconds()
                self._steps[holder] = {
                    name: [(new - old) / seconds for new, old in zip(values, _values(before[1], name), strict=True)]
                    for name, values in totals.items()
                }
        self._beats = dict(beats)
        self._steps = {holder: steps for holder, steps in self._steps.items() if holder in beats}

    def _paces(self) -> dict[str, Pace]:
        sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * 4)
        for steps in self._steps.values():
            for name, values in steps.items():
                # What was done for a channel was done for its pipe.
                for place in {name, name.partition(".")[0]}:
                    sums[place] = [one + other for one, other in zip(sums[place], values, strict=True)]
        return {name: _pace(values) for name, values in sorted(sums.items())}


def _values(totals: Mapping[str, list[float]], name: str) -> list[float]:
    return totals.get(name, [0.0] * 4)


def _pace(values: list[float]) -> Pace:
    took = values[_SECONDS] / values[_TIMED] if values[_TIMED] > 0 else None
    return Pace(max(0.0, values[_WELL]), max(0.0, values[_BADLY]), took)
