"""The loop: settle what ended, claim what is due, deliver it, and rest until something happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from random import Random
from typing import Generic

from pillarbox.clock import Clock
from pillarbox.engine.attempt import Attempt, Deliver, Observe, nobody
from pillarbox.engine.bell import Bell
from pillarbox.engine.crew import Crew
from pillarbox.engine.flight import Flight
from pillarbox.engine.flights import Flights
from pillarbox.engine.lane import Lane, Turn
from pillarbox.engine.lease import Lease, RowT, Settlement, Strand
from pillarbox.engine.lost import LostStrands
from pillarbox.engine.outcome import Delivered
from pillarbox.engine.outlook import Outlook
from pillarbox.engine.pace import Pace
from pillarbox.engine.policy import Policy
from pillarbox.engine.renewal import Renewal
from pillarbox.engine.room import Room
from pillarbox.engine.singly import settle_singly
from pillarbox.errors import Unavailable
from pillarbox.outlast import outlast
from pillarbox.telemetry import brief, logger

log = logger(__name__)

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
# What lands soon is settled before the stubborn are waited for: the process may not live so long.
_LAST_WAITS = (1.0, 4.0)

Renewing = Callable[[], AbstractContextManager[None]]
# From so many on, settling and claiming at the same time gains more than a second transaction costs.
_MANY = 32


class Drain(Generic[RowT]):
    """Drains one lane on one node, at least once, in order within each strand."""

    def __init__(
        self,
        lane: Lane[RowT],
        deliver: Deliver[RowT],
        *,
        policy: Policy,
        lease: Lease,
        pace: Pace,
        clock: Clock,
        bell: Bell,
        random: Random,
        observe: Observe[RowT] = nobody,
    ) -> None:
        self._lane = lane
        self._attempt: Attempt[RowT] = Attempt(
            deliver, observe=observe, policy=policy, timeout=pace.timeout, clock=clock, random=random
        )
        self._lease = lease
        self._pace = pace
        self._clock = clock
        self._bell = bell
        self._random = random
        self._flights: Flights[RowT] = Flights()
        self._crew: Crew[Flight[RowT]] = Crew(self._fly, size=lambda flight: len(flight.strand.rows))
        self._finished: list[Settlement[RowT]] = []
        self._dropped: list[tuple[str, object]] | None = None
        self._looked = clock.now()
        self._outlook: Outlook[RowT] = Outlook(lane, pace, clock)
        self._stopping = False
        self._hurried = False
        self._unsure = False
        self._lost: LostStrands[RowT] = LostStrands()
        self._pause = _FIRST_PAUSE
        self.renewal: Renewal[RowT] = Renewal(self._renew, lane.held, lease, clock)

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    async def step(self) -> int:
        """Claim what is due, deliver all of it, settle all of it; answers how many rows were settled."""
        await self._exchange((), self._room())
        await self._crew.landed()
        settlements, self._finished = self._finished, []
        await self._settle_alone(settlements)
        return len(settlements)

    async def run(self, *, grace: float, renewing: Renewing | None = None) -> None:
        """Drain until `stop`, then let deliveries end within the grace and give the rest back; if cancelled, at once.

        Leases are kept by a thread for as long as this runs, unless `renewing` is given to keep them otherwise.
        """
        work = asyncio.create_task(self._work(grace, renewing or self.renewal.thread))
        try:
            # Shielded, because a turn that is cut short may have claimed what nobody would then deliver or give back.
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self._hurried = True
            self.stop()
            await outlast(asyncio.wait([work]))
            raise

    async def _work(self, grace: float, renewing: Renewing) -> None:
        retiring: asyncio.Task[None] | None = None
        try:
            with renewing():
                while not self._stopping:
                    self._bell.clear()
                    # Straight on while there is more: what was claimed is delivered while the next is being claimed.
                    if not await self._take_turn():
                        await self._rest()
                retiring = asyncio.create_task(self._retire())
                await self._let_land(grace)
        finally:
            await self._give_back()
            await (self._retire() if retiring is None else retiring)
            # A later run is not stopped by what stopped this one.
            self.begin()

    def begin(self) -> None:
        """Forget a stop that came when nothing ran."""
        self._stopping = self._hurried = False

    def stop(self) -> None:
        """Claim no more; from the loop's own thread."""
        self._stopping = True
        self._bell.ring()

    def drop(self, key: str, *, row_id: object = None) -> None:
        """Stop delivering a strand whose hold has just been taken away; with a row, only if that one is in it."""
        flight = self._flights.get(key)
        if flight and flight.strand.is_of(key, row_id):
            flight.drop()
            self.renewal.remove(flight)
        if self._dropped is not None:
            self._dropped.append((key, row_id))

    def _renew(self, strands: Sequence[Strand[RowT]], lease: Lease, now: datetime) -> Sequence[Strand[RowT]]:
        return self._lane.renew(strands, lease, now=now)

    def _room(self) -> Room:
        slots = 0 if self._stopping else self._pace.concurrency
        return Room.of(slots, self._flights.destinations())

    async def _take_turn(self) -> bool:
        """Settle what ended and claim for the free slots; whether there may be more for what is left.

        In one transaction, or in two at the same time where there is much of both and the database can do that.
        """
        settlements, self._finished = self._finished, []
        room = self._room().at_most(self._pace.at_once)
        if not settlements and room.slots <= 0:
            return False
        if min(len(settlements), room.slots) >= _MANY and self._goes_apart(settlements):
            await asyncio.gather(self._turn(settlements, room.at_most(0)), self._turn([], room))
            # What stood behind the settled fell due while others were claimed, which did not see it.
            return self._room().slots > 0
        return await self._turn(settlements, room)

    def _goes_apart(self, settlements: Sequence[Settlement[RowT]]) -> bool:
        """Whether to settle and claim at once: not long after the last look, when claiming might take back what is settled."""
        recent = (self._clock.now() - self._looked).total_seconds() < self.renewal.interval
        return recent and not self._unsure and self._lane.apart(settlements)

    async def _turn(self, settlements: list[Settlement[RowT]], room: Room) -> bool:
        try:
            if self._unsure:
                # First and by themselves: it may have been the claim that failed, and what was delivered is not held up by it.
                await self._settle_alone(settlements)
                settlements = []
                await self._give_back_orphans()
            turn = await self._exchange(settlements, room)
        except Exception as error:
            self._unsure = True
            await self._recover(settlements, error)
            return False
        except asyncio.CancelledError:
            self._finished[:0] = settlements
            raise
        self._pause = _FIRST_PAUSE
        self._lost.report(turn.lost)
        return len(turn.claimed) + len(turn.handed) == room.slots > 0 and self._room().slots > 0

    async def _exchange(self, settlements: Sequence[Settlement[RowT]], room: Room) -> Turn[RowT]:
        """Settle and claim in one transaction, and begin what was claimed, except what was dropped in the meantime."""
        now, since = self._clock.now(), self._clock.monotonic()
        if self._stopping:
            return Turn((), await self._lane.settle(settlements, now=now))
        if room.slots <= 0:
            return await self._lane.turn(settlements, self._lease, room=room, now=now)
        self._looked, self._dropped = now, []
        try:
            turn = await self._lane.turn(settlements, self._lease, room=room, now=now)
            self._launch_all(turn, since=since)
            return turn
        finally:
            self._dropped = None

    async def _settle_alone(self, settlements: Sequence[Settlement[RowT]]) -> None:
        """Record what ended, without a claim."""
        if settlements:
            self._lost.report(await self._lane.settle(settlements, now=self._clock.now()))

    async def _give_back_orphans(self) -> None:
        """A turn whose answer was lost may have claimed what nobody delivers now: others need not wait for its lease."""
        held = await self._lane.held_by(self._lease)
        known = self._flights.holds() | self._lost.among(held)
        known |= {(each.strand.key, each.strand.token) for each in self._finished}
        if orphans := [strand for strand in held if (strand.key, strand.token) not in known]:
            await self._lane.release(orphans, now=self._clock.now())
        self._unsure = False

    async def _recover(self, settlements: list[Settlement[RowT]], error: Exception) -> None:
        """Keep what is not settled yet and try again after a pause; a settlement that is the trouble is let go."""
        if settlements and not isinstance(error, Unavailable):
            settlements = await settle_singly(self._lane, settlements, lost=self._lost, clock=self._clock)
        self._finished[:0] = settlements
        log.warning(
            "the queue cannot be reached or refuses; trying again", error=brief(error), pause_seconds=self._pause
        )
        await asyncio.sleep(self._pause * self._random.uniform(0.5, 1.0))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        self._bell.ring()

    def _launch_all(self, turn: Turn[RowT], *, since: float) -> None:
        """Begin what was claimed, by us or for us, except what was dropped in the meantime."""
        for strands, began in ((turn.claimed, since), (turn.handed, turn.handed_since)):
            for strand in strands:
                if not any(strand.is_of(key, row_id) for key, row_id in self._dropped or ()):
                    self._launch(strand, since=began)
            if strands:
                self.renewal.begun(since=began)

    def _launch(self, strand: Strand[RowT], *, since: float) -> None:
        flight = Flight(
            strand,
            deadline=self._clock.monotonic() + self._pace.timeout,
            lease_ends=since + self._lease.length.total_seconds(),
        )
        self._flights.begin(flight)
        self.renewal.add(flight)
        self._crew.add(flight)

    async def _fly(self, flight: Flight[RowT]) -> None:
        strand = flight.strand
        flight.take_off()
        try:
            for row in strand.rows:
                outcome = await self._attempt(flight, row)
                if outcome is None:
                    return
                ends = row is strand.rows[-1] or not isinstance(outcome, Delivered)
                # Once for all that ends until somebody comes for it.
                if not self._finished:
                    self._bell.ring()
                self._finished.append(Settlement(strand, row, outcome, ends))
                if ends:
                    return
        finally:
            flight.task = None
            self.renewal.remove(flight)
            if flight.lost or flight.is_lost(self._clock.monotonic()):
                self._lost.note(strand)
            self._flights.end(flight)
            self._bell.ring()

    async def _rest(self) -> None:
        """Until the bell, the next due time, or the poll interval, whichever is first."""
        await asyncio.sleep(0)
        while not self._bell.rung and await self._stand_by(await self._patience()):
            """The lane has looked for us."""

    async def _patience(self) -> float:
        return await self._outlook.rest(looked=self._looked) if self._room().slots > 0 else self._pace.poll

    async def _stand_by(self, wait: float) -> bool:
        """Wait, while the lane claims by itself what another process brings; whether it did, and left nothing to look for."""
        room = self._room().at_most(self._pace.at_once)
        if self._unsure or room.slots <= 0:
            await self._bell.wait(wait)
            return False
        self._dropped = []
        standby = self._lane.stand_by(self._lease, room=room, ready=self._bell.nudge)
        try:
            await self._bell.wait(wait)
        finally:
            coming = standby.withdraw() if standby else None
        try:
            return coming is not None and await self._take_over(await coming)
        except Exception as error:
            self._unsure = True
            await self._recover([], error)
            return False
        finally:
            self._dropped = None

    async def _take_over(self, turn: Turn[RowT]) -> bool:
        """Begin what the lane claimed, before anything else is asked; whether that is all."""
        self._launch_all(turn, since=turn.since)
        await asyncio.sleep(0)
        return not turn.partial

    async def _retire(self) -> None:
        """Nobody waits here any more: what was claimed for us without our asking goes back, if that can be said in time."""
        try:
            async with asyncio.timeout(_LAST_WAITS[-1]):
                if handed := await self._lane.retire(self._lease):
                    await self._lane.release(handed, now=self._clock.now())
        except Exception as error:
            log.warning("what was handed to us may have to wait until its lease ends", error=brief(error))

    async def _let_land(self, grace: float) -> None:
        deadline = self._clock.monotonic() + grace
        while self._flights and not self._hurried and (left := deadline - self._clock.monotonic()) > 0:
            self._bell.clear()
            if not self._finished:
                await self._bell.wait(left)
            await self._take_turn()

    async def _give_back(self) -> None:
        self._flights.call_off()
        trouble = None
        for seconds in _LAST_WAITS:
            if trouble is not None:
                await asyncio.sleep(_LAST_WAITS[0])
            await self._crew.landed(at_most=seconds)
            trouble = await self._settle_last()
        if trouble is not None:
            log.warning("outcomes were not recorded before the stop; their leases will end", error=brief(trouble))
        self._flights.tell()

    async def _settle_last(self) -> Exception | None:
        """Record what ended, or keep it for another try; what was in the way."""
        settlements, self._finished = self._finished, []
        try:
            await self._settle_alone(settlements)
        except Exception as error:
            self._finished[:0] = settlements
            return error
        return None
