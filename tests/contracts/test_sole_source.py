"""One process at a time asks a platform, on either database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

import pytest

from pillarbox.box import open_database
from pillarbox.inbound.sole import SoleSource
from pillarbox.process import holder
from pillarbox.settings import Settings
from pillarbox.storage import Database, Step
from pillarbox.storage.migrate import migrate
from pillarbox.storage.queries import parse_queries

SECONDS = 20.0


class Asking:
    """A source that only notes whether it runs; `breaks` times it fails instead."""

    def __init__(self, breaks: int = 0) -> None:
        self.running = asyncio.Event()
        self.ended = asyncio.Event()
        self.breaks = breaks

    async def run(self) -> None:
        if self.breaks:
            self.breaks -= 1
            raise RuntimeError
        self.running.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.running.clear()
            self.ended.set()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    opened = await open_database(database_url, Settings())
    try:
        await migrate(opened)
        yield opened
    finally:
        await opened.close()


@asynccontextmanager
async def one_of(database: Database, source: Asking, *, name: str = "bot", lease: float = 30.0) -> AsyncIterator[None]:
    sole = SoleSource(source, database, name=name, holder=holder("here"), random=Random(0), lease=lease, look=0.02)
    task = asyncio.create_task(sole.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def runs(source: Asking) -> None:
    async with asyncio.timeout(SECONDS):
        await source.running.wait()


def _let_all_go() -> Step[None]:
    (query,) = parse_queries("-- name: one\nDELETE FROM adapter_lease\n")
    yield query()


async def test_of_two_that_could_one_asks_and_the_other_takes_over_at_once(database: Database) -> None:
    first, second, other = Asking(), Asking(), Asking()
    async with AsyncExitStack() as ending_last:
        async with one_of(database, first):
            await runs(first)
            await ending_last.enter_async_context(one_of(database, second))
            async with one_of(database, other, name="another bot"):
                await runs(other)
            assert not second.running.is_set()
        await runs(second)


async def test_whoever_lost_it_stops_asking(database: Database) -> None:
    slow, quick = Asking(), Asking()
    async with one_of(database, slow, lease=0.3):
        await runs(slow)
        stolen = SoleSource(
            quick, database, name="bot", holder="elsewhere/-/1", random=Random(0), lease=60.0, look=0.02
        )
        stealing = asyncio.create_task(stolen.run())
        # Its lease is over, as if it had slept for too long.
        await database.write(_let_all_go)
        await runs(quick)
        async with asyncio.timeout(SECONDS):
            await slow.ended.wait()
        stealing.cancel()
        await asyncio.gather(stealing, return_exceptions=True)


async def test_one_that_breaks_off_begins_again(database: Database) -> None:
    source = Asking(breaks=2)
    async with one_of(database, source):
        await runs(source)
