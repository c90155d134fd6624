"""How others begin and mark a key: libraries from PyPI, each on the store that it is made for, as its users call it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

import psycopg_pool

LEASE, RETENTION = 60, 7 * 86_400
POOL = 16


class Peer(Protocol):
    """One way to handle a key once."""

    async def begin(self, key: str) -> str:
        """Take a key that nobody had before; the name of its lease."""

    async def mark(self, key: str, lease_id: str) -> None:
        """Remember it."""


class DiskCache:
    """diskcache: SQLite in a folder, from threads; it has no owners, so a mark by anybody counts."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    async def begin(self, key: str) -> str:
        assert await asyncio.to_thread(self._cache.add, key, "leased", expire=LEASE)
        return key

    async def mark(self, key: str, lease_id: str) -> None:
        assert await asyncio.to_thread(self._cache.set, key, "processed", expire=RETENTION)


class Idemkit:
    """idemkit: leases with owners, on PostgreSQL through asyncpg and on Redis by scripts; a mark also wakes who waits."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def begin(self, key: str) -> str:
        claimed = await self._backend.claim(key, "", 1, LEASE)
        lease_id: str | None = claimed.our_claim_token
        assert lease_id
        return lease_id

    async def mark(self, key: str, lease_id: str) -> None:
        assert await self._backend.complete(key, lease_id, 200, {}, b"", RETENTION)


class ByHand:
    """What teams write themselves on PostgreSQL: a row to begin, an update to mark, each a transaction of one statement."""

    TABLE = (
        "CREATE TABLE inbox (key TEXT PRIMARY KEY, status TEXT NOT NULL, seen_at TIMESTAMPTZ NOT NULL DEFAULT now())"
    )
    BEGIN = "INSERT INTO inbox (key, status) VALUES (%s, 'leased') ON CONFLICT DO NOTHING"
    MARK = "UPDATE inbox SET status = 'processed' WHERE key = %s AND status = 'leased'"

    def __init__(self, pool: psycopg_pool.AsyncConnectionPool) -> None:
        self._pool = pool

    async def begin(self, key: str) -> str:
        async with self._pool.connection() as connection:
            assert (await connection.execute(self.BEGIN, (key,))).rowcount == 1
        return key

    async def mark(self, key: str, lease_id: str) -> None:
        async with self._pool.connection() as connection:
            assert (await connection.execute(self.MARK, (key,))).rowcount == 1


class Pyidempotent:
    """pyidempotent's memory, without owners; idemkit's looks through all it knows at each claim."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    async def begin(self, key: str) -> str:
        assert await self._backend.claim(key, "", LEASE)
        return key

    async def mark(self, key: str, lease_id: str) -> None:
        await self._backend.save(key, "", None, RETENTION)


PEERS = {"sqlite": ["diskcache"], "postgres": ["idemkit", "by hand"], "redis": ["idemkit"], "memory": ["pyidempotent"]}


@asynccontextmanager
async def open_peer(name: str, url: str) -> AsyncIterator[Peer]:
    """A peer with an empty store of its own at `url`."""
    if name == "diskcache":
        from diskcache import Cache

        with Cache(
            url.removeprefix("sqlite:///") + ".diskcache", sqlite_synchronous=2, eviction_policy="none"
        ) as cache:
            yield DiskCache(cache)
    elif name == "by hand":
        async with psycopg_pool.AsyncConnectionPool(
            url, min_size=POOL, max_size=POOL, kwargs={"autocommit": True}, open=False
        ) as pool:
            async with pool.connection() as connection:
                await connection.execute(ByHand.TABLE)
            yield ByHand(pool)
    elif name == "pyidempotent":
        from pyidempotent.backends.memory import MemoryBackend

        yield Pyidempotent(MemoryBackend())
    elif url.startswith("redis"):
        from idemkit.backends.redis import RedisBackend

        async with RedisBackend.from_url(url, namespace="idemkit") as redis:
            yield Idemkit(redis)
    else:
        from idemkit.backends.postgres import PostgresBackend, init_pg

        await init_pg(url)
        async with PostgresBackend.from_url(url, min_size=POOL, max_size=POOL) as postgres:
            yield Idemkit(postgres)
