"""One process at a time asks a platform, however many could: held by a row, taken over when its holder is gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from random import Random

from pillarbox.errors import Unavailable
from pillarbox.inbound.adapter import Source
from pillarbox.inbound.positions import queries
from pillarbox.process import is_dead
from pillarbox.storage import Database, Step
from pillarbox.telemetry import brief, logger

_log = logger(__name__)

_LEASE_SECONDS = 30.0
_LOOK_SECONDS = 2.0


class SoleSource:
    """Runs a source while no other process on this database runs it.

    Two at once would lose nothing, since every message is stored once, but platforms end the one's questions for the other's.
    """

    def __init__(
        self,
        source: Source,
        database: Database,
        *,
        name: str,
        holder: str,
        random: Random,
        lease: float = _LEASE_SECONDS,
        look: float = _LOOK_SECONDS,
    ) -> None:
        self._source = source
        self._database = database
        self._clock = database.clock
        self._name = name
        self._holder = holder
        self._random = random
        self._lease = lease
        self._look = look

    async def run(self) -> None:
        """Wait for the row, run the source while it is held, and give the row back at the end."""
        try:
            while True:
                if await self._hold():
                    await self._run_held()
                else:
                    await asyncio.sleep(self._look * self._random.uniform(0.75, 1.25))
        finally:
            with suppress(Exception):
                await asyncio.shield(self._let_go())

    async def _run_held(self) -> None:
        running = asyncio.create_task(self._source.run())
        held_until = self._clock.monotonic() + self._lease
        try:
            while not running.done() and self._clock.monotonic() < held_until:
                await asyncio.wait([running], timeout=self._lease / 6)
                asked = self._clock.monotonic()
                held = await self._hold()
                if held is False:
                    _log.warning("another process has taken over from this one", source=self._name)
                    return
                if held:
                    held_until = asked + self._lease
        finally:
            running.cancel()
            (ended,) = await asyncio.gather(running, return_exceptions=True)
            if isinstance(ended, Exception):
                _log.error("a source broke off and begins again; this is a bug in Pillarbox", error=brief(ended))
        await asyncio.sleep(self._look)

    async def _hold(self) -> bool | None:
        """Whether the row is ours now; None when the database did not say."""
        now = self._clock.now()

        def work() -> Step[bool]:
            rows = yield queries.holder_of(name=self._name)
            dead = rows[0][0] if rows and is_dead(rows[0][0]) else self._holder
            until = now + timedelta(seconds=self._lease)
            return bool((yield queries.hold(name=self._name, holder=self._holder, dead=dead, until=until, now=now)))

        try:
            return await self._database.write(work)
        except Unavailable as error:
            _log.debug("a source cannot be held or looked for now", source=self._name, error=brief(error))
            return None

    async def _let_go(self) -> None:
        def work() -> Step[None]:
            yield queries.let_go(name=self._name, holder=self._holder)

        await self._database.write(work)
