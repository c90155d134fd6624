"""One process of the world: the real drain, on a store and with targets that misbehave by the seed."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

from pillarbox.engine import (
    Backoff,
    Bell,
    Delivered,
    Drain,
    Lease,
    Outcome,
    Pace,
    Policy,
    Retry,
    Room,
    Settlement,
    Skipped,
    Strand,
    Turn,
)
from pillarbox.errors import Unavailable
from pillarbox.storage.standing import Standing
from tests.simulation.ledger import Delivery, Ledger
from tests.simulation.loop import LoopClock, VirtualLoop, owned
from tests.simulation.process import Process, Rates, Surroundings
from tests.simulation.stands import Stands
from tests.simulation.table import Parcel, Table

T = TypeVar("T")


@dataclass(slots=True)
class World:
    """What all nodes share."""

    loop: VirtualLoop
    random: Random
    table: Table
    ledger: Ledger
    rates: Rates
    latency: float
    lease: float
    pace: Pace
    backoff: Backoff
    longest_delivery: float
    drain: type[Drain[Parcel]]
    apart: bool = False
    ring_all: Callable[[], None] = lambda: None

    def pause(self) -> float:
        return self.random.uniform(0, self.latency)


class OddError(Exception):
    """An exception that cannot even be shown."""

    def __str__(self) -> str:
        raise ValueError("no words")


class StoreLane:
    """The way of one node to the store: slow, at times cut, and at times only on the way back."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self.calls = 0
        self.stands = Stands(self._call)

    def apart(self, settlements: Sequence[Settlement[Parcel]]) -> bool:
        return self._world.apart

    async def claim(self, lease: Lease, *, room: Room, now: datetime) -> Sequence[Strand[Parcel]]:
        return (await self.turn((), lease, room=room, now=now)).claimed

    async def settle(self, settlements: Sequence[Settlement[Parcel]], *, now: datetime) -> Sequence[Settlement[Parcel]]:
        lost = await self._call(lambda: self._world.table.settle(settlements, now=now))
        self._world.ring_all()
        return lost

    async def turn(
        self, settlements: Sequence[Settlement[Parcel]], lease: Lease, *, room: Room, now: datetime
    ) -> Turn[Parcel]:
        return await self._call(lambda: self._world.table.turn(settlements, lease, room=room, now=now))

    def stand_by(self, lease: Lease, *, room: Room, ready: Callable[[], None]) -> Standing[Turn[Parcel]]:
        world = self._world

        def claim() -> Any:
            clock = LoopClock(world.loop)
            turn = world.table.turn((), lease, room=room, now=clock.now())
            return Turn(turn.claimed, turn.lost, clock.monotonic())

        return self.stands.put(Standing(claim, ready=ready))

    def held(self, strands: Sequence[Strand[Parcel]]) -> Sequence[Strand[Parcel]]:
        raise AssertionError("the simulation only renews")

    def renew(self, strands: Sequence[Strand[Parcel]], lease: Lease, *, now: datetime) -> Sequence[Strand[Parcel]]:
        self._fail_by("store", self._world.rates.store, Unavailable("cut before"))
        kept = self._world.table.renew(strands, lease, now=now)
        self._fail_by("store", self._world.rates.store, Unavailable("cut after"))
        return kept

    async def held_by(self, lease: Lease) -> Sequence[Strand[Parcel]]:
        return await self._call(lambda: self._world.table.strands_of(lease.holder))

    async def release(self, strands: Sequence[Strand[Parcel]], *, now: datetime) -> None:
        await self._call(lambda: self._world.table.release(strands, now=now))
        self._world.ring_all()

    async def retire(self, lease: Lease) -> Sequence[Strand[Parcel]]:
        return ()

    async def next_due(self, *, now: datetime) -> datetime | None:
        return await self._call(self._world.table.next_due)

    async def prune(self, *, before: datetime, limit: int) -> int:
        raise AssertionError("the drain does not prune")

    async def _call(self, verb: Callable[[], T]) -> T:
        """Send, let the store work whether or not the sender lives on, and receive."""
        world, loop = self._world, self._world.loop
        self.calls += 1
        await asyncio.sleep(world.pause())
        self._fail_by("store", world.rates.store, Unavailable("cut before"))
        self._fail_by("odd", world.rates.odd, RuntimeError("a statement that cannot run"))
        answer: asyncio.Future[T] = loop.create_future()
        loop.call_later(world.pause(), _answer, answer, verb, context=owned("store"))
        result = await answer
        await asyncio.sleep(world.pause())
        self._fail_by("store", world.rates.store, Unavailable("cut after"))
        return result

    def _fail_by(self, kind: str, rate: float, error: Exception) -> None:
        if self._world.random.random() < rate:
            self._world.ledger.fault(self._name, kind)
            raise error


def _answer(answer: asyncio.Future[T], verb: Callable[[], T]) -> None:
    result = verb()
    if not answer.done():
        answer.set_result(result)


class Node(Process[Parcel]):
    """A process that drains the table of the world."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.lane = StoreLane(world, name)
        bell = Bell()
        drain = world.drain(
            self.lane,
            self._deliver,
            policy=Policy(world.backoff),
            lease=Lease(name, timedelta(seconds=world.lease)),
            pace=world.pace,
            clock=LoopClock(world.loop),
            bell=bell,
            random=world.random,
        )
        around = Surroundings(world.loop, world.random, world.ledger, world.lease, world.latency)
        super().__init__(around, name, drain=drain, bell=bell, still_holds=world.table.held_by, stands=self.lane.stands)

    async def _deliver(self, parcel: Parcel) -> Outcome:
        delivery = self._world.ledger.began(self.name, parcel)
        try:
            return await self._go(delivery)
        finally:
            self._world.ledger.ended(delivery)

    async def _go(self, delivery: Delivery) -> Outcome:
        world, random = self._world, self._world.random
        if random.random() < world.rates.wedge:
            self.wedge(random.uniform(0, 2 * (world.pace.timeout + world.lease)))
        await asyncio.sleep(random.uniform(0, world.longest_delivery))
        if random.random() >= world.rates.target:
            delivery.done = True
            return Delivered()
        if random.random() < 0.2:
            world.ledger.fault(self.name, f"{delivery.parcel.id} is done and that is not said")
            delivery.done = True
        return await self._fail(random)

    async def _fail(self, random: Random) -> Outcome:
        match random.choice(["refuse", "late", "cancel", "group", "odd", "hang", "skip", "retry"]):
            case "refuse":
                raise ConnectionError("refused")
            case "late":
                raise TimeoutError("its own")
            case "cancel":
                raise asyncio.CancelledError
            case "group":
                raise BaseExceptionGroup("odd", [asyncio.CancelledError()])
            case "odd":
                raise OddError
            case "hang":
                await asyncio.sleep(10 * self._world.pace.timeout)
            case "skip":
                return Skipped("not now")
        return Retry("later")
