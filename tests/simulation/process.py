"""A process of the world, with one drain; it can be stopped, cancelled, wedged, suspended and killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Generic

from pillarbox.engine import Bell, Drain
from pillarbox.engine.lease import RowT
from tests.simulation.chronicle import Chronicle
from tests.simulation.loop import THREAD, VirtualLoop, owned
from tests.simulation.stands import Stands


@dataclass(frozen=True, slots=True)
class Rates:
    """How often something goes wrong, as shares of all calls."""

    store: float = 0.0
    odd: float = 0.0
    target: float = 0.0
    wedge: float = 0.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the life of a process depends on."""

    loop: VirtualLoop
    random: Random
    ledger: Chronicle
    lease: float
    latency: float


class Process(Generic[RowT]):
    """Runs a drain under its own name, so that everything of it can be halted."""

    def __init__(
        self,
        around: Surroundings,
        name: str,
        *,
        drain: Drain[RowT],
        bell: Bell,
        still_holds: Callable[[str], list[str]],
        stands: Stands,
    ) -> None:
        self._stands = stands
        self._serving: asyncio.Task[None] | None = None
        self._around = around
        self._still_holds = still_holds
        self._poked = Bell()
        # Whoever is in a hurry wakes the thread that renews.
        drain.renewal.hurry = self._poked.ring  # type: ignore[method-assign]
        self.name = name
        self.drain = drain
        self.bell = bell
        self.running: asyncio.Task[None] | None = None
        self.grace = 0.0

    def start(self, *, grace: float) -> None:
        self._around.ledger.say(f"{self.name} starts")
        self.grace = grace
        work = self.drain.run(grace=grace, renewing=self._renewing)
        self.running = self._around.loop.create_task(work, context=owned(self.name))

    def heard(self) -> None:
        """Another process wrote something: the thread that hears does what stands by, or wakes the loop."""
        if self._stands.waits and self._around.random.random() < 0.7:
            self._serving = self._around.loop.create_task(self._serve(), context=owned(self.name + THREAD))
        else:
            self.bell.ring()
        self._poked.ring()

    async def _serve(self) -> None:
        if not await self._stands.serve():
            self.bell.ring()

    async def stop(self) -> None:
        await self._end("stops", self.drain.stop, within=self.grace)

    async def cancel(self) -> None:
        assert self.running is not None
        await self._end("is cancelled", self.running.cancel, within=0.0)

    def kill(self) -> None:
        self._around.ledger.fault(self.name, "kill")
        self._around.ledger.ended_nodes.add(self.name)
        self._around.loop.stop_owner(self.name)
        self._around.loop.stop_owner(self.name + THREAD)

    def suspend(self, seconds: float) -> None:
        """Everything of it stands still, as under SIGSTOP."""
        self._stand_still(f"suspended for {seconds:.1f} s", seconds)
        self._halt(self.name, seconds)
        self._halt(self.name + THREAD, seconds)

    def wedge(self, seconds: float) -> None:
        """Its loop is blocked, but its thread goes on renewing."""
        self._stand_still(f"wedged for {seconds:.1f} s", seconds)
        self._halt(self.name, seconds)

    def _stand_still(self, how: str, seconds: float) -> None:
        # What it held meanwhile was not renewed, so a lease that goes on afterwards is a short one.
        self._around.ledger.fault(self.name, how, lasts=seconds + self._around.lease)

    def _halt(self, owner: str, seconds: float) -> None:
        def resume() -> None:
            if not self._around.ledger.killed(self.name):
                self._around.loop.resume_owner(owner)

        self._around.loop.stop_owner(owner)
        self._around.loop.call_later(seconds, resume, context=owned(""))

    async def _end(self, how: str, end: Callable[[], object], *, within: float) -> None:
        ledger, began = self._around.ledger, self._around.loop.time()
        ledger.say(f"{self.name} {how}")
        ledger.ended_nodes.add(self.name)
        assert self.running is not None
        end()
        await asyncio.wait([self.running])
        ledger.say(f"{self.name} has ended")
        if ledger.disturbed(self.name):
            return
        if left := self._still_holds(self.name):
            ledger.problem(f"{self.name} has ended and still holds {left}")
        if (took := self._around.loop.time() - began) > within + 12 * self._around.latency + 0.1:
            ledger.problem(f"{self.name} took {took:.3f} s to end")

    @contextmanager
    def _renewing(self) -> Iterator[None]:
        thread = self._around.loop.create_task(self._renew_on(), context=owned(self.name + THREAD))
        try:
            yield
        finally:
            thread.cancel()

    async def _renew_on(self) -> None:
        while True:
            await self._poked.wait(self.drain.renewal.interval)
            self._poked.clear()
            self.drain.renewal.tick()
            await asyncio.sleep(self._around.latency)
