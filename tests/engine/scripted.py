"""A lane that does as it is told, and a drain on it in virtual time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from pillarbox.engine import (
    Backoff,
    Bell,
    Delivered,
    Drain,
    Lease,
    Outcome,
    Pace,
    Policy,
    Room,
    Settlement,
    Strand,
    Turn,
)
from tests.simulation.loop import LoopClock


@dataclass(frozen=True)
class Row:
    id: int
    attempt_count: int = 1


class ScriptedLane:
    """Hands out the strands it was given, each turn in so many seconds, and keeps what is settled."""

    def __init__(self, *strands: Strand[Row], seconds: float = 1) -> None:
        self.waiting = list(strands)
        self.seconds = seconds
        self.renewed = threading.Semaphore(0)
        self.settled: list[Settlement[Row]] = []
        self.lost: list[Settlement[Row]] = []
        self.held_strands: list[Strand[Row]] = []
        self.released: list[Strand[Row]] = []
        self.asked_for_held = 0
        self.due: datetime | None = None
        self.turns: list[float] = []
        self.turn_errors: list[Exception] = []
        self.settle_errors: list[Exception] = []
        self.claim_errors: list[Exception] = []
        self.settle_calls = 0

    def apart(self, settlements: Sequence[Settlement[Row]]) -> bool:
        return False

    async def claim(self, lease: Lease, *, room: Room, now: datetime) -> Sequence[Strand[Row]]:
        return (await self.turn((), lease, room=room, now=now)).claimed

    async def settle(self, settlements: Sequence[Settlement[Row]], *, now: datetime) -> Sequence[Settlement[Row]]:
        _check_now(now)
        self.settle_calls += 1
        if self.settle_errors:
            raise self.settle_errors.pop(0)
        return self._take(settlements)

    async def turn(
        self, settlements: Sequence[Settlement[Row]], lease: Lease, *, room: Room, now: datetime
    ) -> Turn[Row]:
        _check_now(now)
        self.turns.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.seconds)
        if settlements and self.turn_errors:
            raise self.turn_errors.pop(0)
        if self.claim_errors:
            raise self.claim_errors.pop(0)
        lost = self._take(settlements)
        claimed, self.waiting = self.waiting[: max(0, room.slots)], self.waiting[max(0, room.slots) :]
        return Turn(claimed, lost)

    def stand_by(self, lease: Lease, *, room: Room, ready: Callable[[], None]) -> None:
        """Nobody else brings anything."""

    def renew(self, strands: Sequence[Strand[Row]], lease: Lease, *, now: datetime) -> Sequence[Strand[Row]]:
        self.renewed.release()
        return strands

    def held(self, strands: Sequence[Strand[Row]]) -> Sequence[Strand[Row]]:
        return strands

    async def held_by(self, lease: Lease) -> Sequence[Strand[Row]]:
        self.asked_for_held += 1
        return self.held_strands

    async def release(self, strands: Sequence[Strand[Row]], *, now: datetime) -> None:
        _check_now(now)
        self.released += strands

    async def retire(self, lease: Lease) -> Sequence[Strand[Row]]:
        return ()

    async def next_due(self, *, now: datetime) -> datetime | None:
        _check_now(now)
        return self.due

    async def prune(self, *, before: datetime, limit: int) -> int:
        return 0

    def _take(self, settlements: Sequence[Settlement[Row]]) -> list[Settlement[Row]]:
        late = [each for each in settlements if each in self.lost]
        self.settled += [each for each in settlements if each not in late]
        return late

    @property
    def outcomes(self) -> list[type[Outcome]]:
        return [type(settlement.outcome) for settlement in self.settled]


def _check_now(now: datetime) -> None:
    """The time of an act is when it is done, by the drain's own clock."""
    assert now == LoopClock(asyncio.get_running_loop()).now()


def strand(key: str, *ids: int) -> Strand[Row]:
    return Strand(key, "there", 1, tuple(Row(row_id) for row_id in ids))


def drain_of(
    lane: ScriptedLane,
    deliver: Callable[[Row], Awaitable[Outcome]],
    *,
    concurrency: int = 4,
    policy: Policy | None = None,
    observe: Callable[[Row, Outcome, float], None] = lambda row, outcome, seconds: None,
) -> Drain[Row]:
    return Drain(
        lane,
        deliver,
        policy=policy or Policy(Backoff((5,))),
        lease=Lease("me", timedelta(seconds=30)),
        pace=Pace(concurrency, timeout=20, poll=3600),
        clock=LoopClock(asyncio.get_running_loop()),
        bell=Bell(),
        random=Random(0),
        observe=observe,
    )


@asynccontextmanager
async def running(drain: Drain[Row], *, grace: float = 0) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(drain.run(grace=grace, renewing=nullcontext))
    yield task
    drain.stop()
    _, running_on = await asyncio.wait([task], timeout=100_000)
    assert not running_on


async def at_once(row: Row) -> Outcome:
    return Delivered()


async def slowly(row: Row) -> Outcome:
    await asyncio.sleep(10)
    return Delivered()
