"""Which processes work on this database, and which of them went away without a word."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from pillarbox.errors import Unavailable
from pillarbox.process import is_dead
from pillarbox.storage import Database, Row, Step, instant, load_queries
from pillarbox.telemetry import brief, logger

_queries = load_queries("pillarbox.operators", "nodes.sql")
log = logger(__name__)

BEAT_EVERY = 3.0
_GONE_AFTER = timedelta(seconds=5 * BEAT_EVERY)
_KEPT = timedelta(days=1)
_MOST = 1000
_SECONDS_TO_LEAVE = 1.0

Totals = Mapping[str, list[float]]
State = Literal["alive", "gone", "stopped"]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A process on this database; one that is `gone` went away without stopping, and is shown for a day."""

    name: str
    process: int
    role: str
    version: str
    state: State
    concurrency: int
    in_flight: int
    started_at: datetime
    last_seen: datetime


def missed(nodes: Sequence[Node]) -> list[Node]:
    """Those that went away without stopping, in whose place nobody of that name was started since, to be stopped or not."""

    def is_back(gone: Node) -> bool:
        return any(
            (node.name, node.role) == (gone.name, gone.role) and node.started_at >= gone.last_seen
            for node in nodes
            if node is not gone
        )

    return [node for node in nodes if node.state == "gone" and not is_back(node)]


class Nodes:
    """Lets this process be seen, and shows all."""

    def __init__(
        self,
        database: Database,
        *,
        node: str,
        holder: str,
        version: str,
        concurrency: int,
        in_flight: Callable[[], int],
        totals: Callable[[], Totals] = dict,
    ) -> None:
        self._database = database
        self._clock = database.clock
        self._own: Mapping[str, object] = {
            "holder": holder,
            "name": node,
            "process": os.getpid(),
            "version": version,
        }
        self.holder = holder
        self._concurrency = concurrency
        self._in_flight = in_flight
        self._totals = totals
        self.role = "embedded"

    async def run(self, *, working: bool = True) -> None:
        """Tell every few seconds that this process is there, until cancelled; then, that it has left."""
        try:
            while True:
                try:
                    await self.beat(working=working)
                except Unavailable as error:
                    log.warning("this node could not tell that it is there", error=brief(error))
                await asyncio.sleep(BEAT_EVERY)
        finally:
            await asyncio.shield(self._leave())

    async def beat(self, *, working: bool = True) -> None:
        now, in_flight = self._clock.now(), self._in_flight()
        concurrency = self._concurrency if working else 0
        told = {"role": self.role, "concurrency": concurrency, "in_flight": in_flight}
        totals = msgspec.json.encode(self._totals()).decode()

        def work() -> Step[None]:
            yield _queries.beat(**self._own, **told, totals=totals, now=now)

        await self._database.write(work)

    async def list(self) -> list[Node]:
        """Every process that was seen within a day, by name."""
        now = self._clock.now()

        def work() -> Step[list[Row]]:
            return (yield _queries.list(limit=_MOST))

        return [_node(row, now, self._clock.shown) for row in await self._database.read(work)]

    async def totals(self) -> dict[str, tuple[datetime, Totals]]:
        """What each process that is at work has done since it started, by its holder, and when it said so."""
        since = self._clock.now() - _GONE_AFTER

        def work() -> Step[list[Row]]:
            return (yield _queries.totals(since=since, limit=_MOST))

        rows = await self._database.read(work)
        return {row[0]: (instant(row[1]), msgspec.json.decode(row[2], type=dict[str, list[float]])) for row in rows}

    async def forget(self) -> bool:
        """Forget those that were not seen for a day."""
        before = self._clock.now() - _KEPT

        def work() -> Step[None]:
            yield _queries.forget(before=before)

        await self._database.write(work)
        return False

    async def _leave(self) -> None:
        now = self._clock.now()

        def work() -> Step[None]:
            yield _queries.leave(holder=self._own["holder"], now=now)

        try:
            async with asyncio.timeout(_SECONDS_TO_LEAVE):
                await self._database.write(work)
        except (Unavailable, TimeoutError) as error:
            log.warning("this node could not tell that it leaves", error=brief(error))


def _node(row: Row, now: datetime, shown: Callable[[datetime], datetime]) -> Node:
    name, process, role, version, concurrency, in_flight, started_at, last_seen, stopped_at, holder = row
    state: State = "alive"
    if stopped_at is not None:
        state = "stopped"
    elif instant(last_seen) < now - _GONE_AFTER or is_dead(holder):
        state = "gone"
    return Node(
        name=name,
        process=process,
        role=role,
        version=version,
        state=state,
        concurrency=concurrency,
        in_flight=0 if state == "stopped" else in_flight,
        started_at=shown(instant(started_at)),
        last_seen=shown(instant(last_seen)),
    )
