"""Every kind of inbox store, ready to be tested, each with a way to let its leases end."""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from redis.asyncio import Redis

from pillarbox.api.server import serve
from pillarbox.box import Pillarbox, open_database
from pillarbox.inbox import InboxStore, MemoryInbox, SqlInbox
from pillarbox.inbox.redis import RedisInbox
from pillarbox.inbox.remote import RemoteInbox
from pillarbox.settings import Settings
from pillarbox.storage import Database
from pillarbox.storage.migrate import migrate
from pillarbox.testing import ManualClock
from tests.api.client import ADMIN_KEY

WEEK = timedelta(days=7)
LEASE = 60.0


@dataclass(frozen=True)
class Stand:
    """A store; a lease of `lease` seconds is over after `lease_over`."""

    store: InboxStore
    lease: float
    lease_over: Callable[[], Awaitable[None]]


def by_hand(store: InboxStore, clock: ManualClock) -> Stand:
    async def over() -> None:
        clock.advance(LEASE)

    return Stand(store, LEASE, over)


@asynccontextmanager
async def opened(url: str, clock: ManualClock | None = None) -> AsyncIterator[Database]:
    database = await open_database(url, Settings())
    try:
        if clock is not None:
            database.clock = clock  # type: ignore[misc]
        await migrate(database)
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def memory_stand() -> AsyncIterator[Stand]:
    clock = ManualClock()
    yield by_hand(MemoryInbox(clock), clock)


@asynccontextmanager
async def sql_stand(url: str) -> AsyncIterator[Stand]:
    clock = ManualClock()
    async with opened(url, clock) as database:
        yield by_hand(SqlInbox(database, retention=WEEK), clock)


@asynccontextmanager
async def redis_stand(url: str) -> AsyncIterator[Stand]:
    prefix = f"{uuid.uuid4().hex}:"
    async with Redis.from_url(url) as redis:

        async def over() -> None:
            """Nobody moves the server's clock; the ends of its leases are moved instead."""
            async for key in redis.scan_iter(match=f"{prefix}*"):
                if await redis.hget(key, "lease_until"):
                    await redis.hincrby(key, "lease_until", int(-LEASE * 1_000_000))

        yield Stand(RedisInbox(redis, prefix=prefix), LEASE, over)


@asynccontextmanager
async def served(box: Pillarbox) -> AsyncIterator[str]:
    """The address of a server over this box."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(box, host="127.0.0.1", port=0, admin_key=ADMIN_KEY, ready=ready.set_result))
    try:
        yield await asyncio.wait_for(ready, 20)
    finally:
        serving.cancel()
        await asyncio.wait([serving])


@asynccontextmanager
async def remote_stand(url: str) -> AsyncIterator[Stand]:
    clock = ManualClock()
    async with opened(url, clock) as database, served(Pillarbox(database, Settings(), node="here")) as address:
        store = RemoteInbox(address, key=ADMIN_KEY)
        try:
            yield by_hand(store, clock)
        finally:
            await store.close()


@asynccontextmanager
async def mongo_stand() -> AsyncIterator[Stand]:
    from pymongo import AsyncMongoClient

    from pillarbox.inbox.mongo import MongoInbox

    client: AsyncMongoClient[dict[str, object]] = AsyncMongoClient(os.environ["PILLARBOX_TEST_MONGO"])
    name = f"pillarbox_{uuid.uuid4().hex}"
    try:
        store = MongoInbox(client[name]["inbox"])
        await store.prepare()

        async def over() -> None:
            earlier = {"$subtract": ["$lease_until", int(LEASE * 1000)]}
            await client[name]["inbox"].update_many({}, [{"$set": {"lease_until": earlier}}])

        yield Stand(store, LEASE, over)
    finally:
        await client.drop_database(name)
        await client.close()
