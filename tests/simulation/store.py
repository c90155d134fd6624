"""A real database in memory, reached over links that are slow, at times cut, and at times only on the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache, partial
from random import Random
from typing import TypeVar

import apsw

from pillarbox.clock import Clock
from pillarbox.errors import Unavailable
from pillarbox.storage import News, Row, Work
from pillarbox.storage.driver import drive
from pillarbox.storage.migrate import migrations
from pillarbox.storage.sqlite_connection import execute
from pillarbox.storage.standing import Standing
from tests.simulation.chronicle import Chronicle
from tests.simulation.loop import LoopClock, VirtualLoop, owned
from tests.simulation.process import Rates
from tests.simulation.stands import Stands

T = TypeVar("T")

EFFECTS = "CREATE TABLE effect (name TEXT NOT NULL)"


@cache
def _empty() -> bytes:
    """A database that has the schema and nothing in it."""
    connection = apsw.Connection(":memory:")
    for migration in migrations("sqlite"):
        for query in migration.statements:
            connection.execute(query.sqlite)
    connection.execute(EFFECTS)
    return connection.serialize("main")


class NodeClock(LoopClock):
    """A node's own clock: a little off, at times set ahead and back again, and shown by a wall clock that people set."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, skew: float, wall: Callable[[], timedelta]) -> None:
        super().__init__(loop)
        self._skew = timedelta(seconds=skew)
        self._ahead = timedelta(0)
        self._wall = wall

    def now(self) -> datetime:
        return super().now() + self._skew + self._ahead

    def set_ahead(self, seconds: float) -> None:
        self._ahead = timedelta(seconds=seconds)

    def shown(self, instant: datetime) -> datetime:
        return instant + self._wall()

    def stored(self, instant: datetime) -> datetime:
        return instant - self._wall()


class Store:
    """What is on disk; each work is one transaction, and whoever watches sees the state after each commit."""

    def __init__(self, committed: Callable[[str, datetime], None]) -> None:
        self._connection = apsw.Connection(":memory:")
        self._connection.deserialize("main", _empty())
        self._committed = committed
        self._changes = self._connection.total_changes()

    def run(self, work: Work[T], *, by: str, clock: Clock) -> T:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            result = drive(work, partial(execute, self._connection))
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        if (changes := self._connection.total_changes()) != self._changes:
            self._changes = changes
            self._committed(by, clock.now())
        return result

    def rows(self, sql: str) -> list[Row]:
        """Look without anybody noticing."""
        return list(self._connection.execute(sql))

    def close(self) -> None:
        self._connection.close()


class Link:
    """One process's way to the store, as the pipes know a database."""

    dialect = "sqlite"
    waiting = 0

    def __init__(
        self,
        name: str,
        store: Store,
        *,
        loop: VirtualLoop,
        random: Random,
        clock: NodeClock,
        ledger: Chronicle,
        latency: float,
        rates: Callable[[], Rates],
        ring_all: Callable[[], None],
        many_writers: bool,
    ) -> None:
        self.many_writers = many_writers
        self._name = name
        self._store = store
        self._loop = loop
        self._random = random
        self._ledger = ledger
        self._latency = latency
        self._rates = rates
        self._ring_all = ring_all
        self.clock = clock
        self.calls = 0
        self.stands = Stands(self.write)

    async def write(self, work: Work[T]) -> T:
        """Send, let the store work whether or not the sender lives on, and receive."""
        self.calls += 1
        await asyncio.sleep(self._pause())
        self._fail("store", self._rates().store, Unavailable("cut before"))
        self._fail("odd", self._rates().odd, RuntimeError("a statement that cannot run"))
        answer: asyncio.Future[T] = self._loop.create_future()
        self._loop.call_later(self._pause(), self._answer, answer, work, context=owned("store"))
        result = await answer
        await asyncio.sleep(self._pause())
        self._fail("store", self._rates().store, Unavailable("cut after"))
        return result

    async def write_new(self, work: Work[T], *, pipe: str | None = None) -> T:
        result = await self.write(work)
        if pipe:
            self._ring_all()
        return result

    async def read(self, work: Work[T]) -> T:
        return await self.write(work)

    def write_blocking(self, work: Work[T]) -> T:
        self._fail("store", self._rates().store, Unavailable("cut before"))
        result = self._store.run(work, by=self._name, clock=self.clock)
        self._fail("store", self._rates().store, Unavailable("cut after"))
        return result

    def read_blocking(self, work: Work[T]) -> T:
        return self.write_blocking(work)

    def ring(self, pipe: str = "") -> None:
        self._ring_all()

    def watch(self, rung: Callable[[News], None]) -> None:
        """The story rings whoever is to hear."""

    def stand_by(
        self, pipe: str, work: Work[T], *, ready: Callable[[], None], look: Work[T | None] | None = None
    ) -> Standing[T]:
        # As on a file, where a ring is at times not heard.
        return self.stands.put(Standing(work, ready=ready, look=look if self._random.random() < 0.5 else None))

    async def tend(self) -> None:
        """Nothing needs tending in memory."""

    async def close(self) -> None:
        """The store outlives its links."""

    def _answer(self, answer: asyncio.Future[T], work: Work[T]) -> None:
        try:
            result = self._store.run(work, by=self._name, clock=self.clock)
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
        else:
            if not answer.done():
                answer.set_result(result)

    def _pause(self) -> float:
        return self._random.uniform(0, self._latency)

    def _fail(self, kind: str, rate: float, error: Exception) -> None:
        if self._random.random() < rate:
            self._ledger.fault(self._name, kind)
            raise error
