"""A lane whose turns are measured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic

from pillarbox.engine.lane import Lane, Standby, Turn
from pillarbox.engine.lease import Lease, RowT, Settlement, Strand
from pillarbox.engine.room import Room

if TYPE_CHECKING:
    from pillarbox.telemetry.works import LaneMetrics


class WatchedLane(Generic[RowT]):
    """Passes every verb on, and notes how long turns take, what they bring, and which holds were lost."""

    def __init__(self, lane: Lane[RowT], metrics: LaneMetrics) -> None:
        self._lane = lane
        self._metrics = metrics

    def apart(self, settlements: Sequence[Settlement[RowT]]) -> bool:
        """Whether these can be settled while more is claimed."""
        return self._lane.apart(settlements)

    async def turn(
        self, settlements: Sequence[Settlement[RowT]], lease: Lease, *, room: Room, now: datetime
    ) -> Turn[RowT]:
        """Settle, then claim, in one transaction."""
        began = perf_counter()
        try:
            turn = await self._lane.turn(settlements, lease, room=room, now=now)
        except Exception:
            self._metrics.turn_failures.inc()
            raise
        self._metrics.turn_seconds.observe(perf_counter() - began)
        self._metrics.claimed.inc(sum(len(strand.rows) for strand in (*turn.claimed, *turn.handed)))
        self._metrics.leases_lost.inc(len(turn.lost))
        return turn

    def stand_by(self, lease: Lease, *, room: Room, ready: Callable[[], None]) -> Standby[RowT] | None:
        standby = self._lane.stand_by(lease, room=room, ready=ready)
        return None if standby is None else _Counted(standby, self._metrics)

    async def settle(self, settlements: Sequence[Settlement[RowT]], *, now: datetime) -> Sequence[Settlement[RowT]]:
        """Record how deliveries ended; answers those whose hold had been lost."""
        lost = await self._lane.settle(settlements, now=now)
        self._metrics.leases_lost.inc(len(lost))
        return lost

    def renew(self, strands: Sequence[Strand[RowT]], lease: Lease, *, now: datetime) -> Sequence[Strand[RowT]]:
        """Hold on for another lease; answers those still held."""
        kept = self._lane.renew(strands, lease, now=now)
        self._metrics.leases_lost.inc(max(0, len(strands) - len(kept)))
        return kept

    async def claim(self, lease: Lease, *, room: Room, now: datetime) -> Sequence[Strand[RowT]]:
        return await self._lane.claim(lease, room=room, now=now)

    def held(self, strands: Sequence[Strand[RowT]]) -> Sequence[Strand[RowT]]:
        return self._lane.held(strands)

    async def held_by(self, lease: Lease) -> Sequence[Strand[RowT]]:
        return await self._lane.held_by(lease)

    async def release(self, strands: Sequence[Strand[RowT]], *, now: datetime) -> None:
        await self._lane.release(strands, now=now)

    async def retire(self, lease: Lease) -> Sequence[Strand[RowT]]:
        return await self._lane.retire(lease)

    async def next_due(self, *, now: datetime) -> datetime | None:
        return await self._lane.next_due(now=now)

    async def prune(self, *, before: datetime, limit: int) -> int:
        return await self._lane.prune(before=before, limit=limit)


@dataclass(frozen=True, slots=True)
class _Counted(Generic[RowT]):
    """A claim that waits for work, and is counted when it was made."""

    standby: Standby[RowT]
    metrics: LaneMetrics

    def withdraw(self) -> Awaitable[Turn[RowT]] | None:
        coming = self.standby.withdraw()
        return None if coming is None else _Coming(coming, self.metrics)


@dataclass(frozen=True, slots=True)
class _Coming(Generic[RowT]):
    """A turn that was taken by itself; counted by whoever takes it on."""

    turn: Awaitable[Turn[RowT]]
    metrics: LaneMetrics

    def __await__(self) -> Generator[Any, None, Turn[RowT]]:
        try:
            turn = yield from self.turn.__await__()
        except Exception:
            self.metrics.turn_failures.inc()
            raise
        self.metrics.claimed.inc(sum(len(strand.rows) for strand in (*turn.claimed, *turn.handed)))
        return turn
