"""PgQueuer on asyncpg."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from bench.peers.producer import Producer
from bench.peers.stamps import handle

POOL = 16
AT_ONCE = 500


@asynccontextmanager
async def queries(url: str) -> AsyncIterator[Queries]:
    async with asyncpg.create_pool(url, min_size=POOL, max_size=POOL) as pool:
        yield Queries(AsyncpgPoolDriver(pool))


async def prepare(url: str) -> None:
    async with queries(url) as queue:
        await queue.install()


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    async with queries(url) as queue:
        yield Producer(
            one=lambda text: queue.enqueue("send", text.encode()),
            many=lambda texts: queue.enqueue(
                ["send"] * len(texts), [text.encode() for text in texts], [0] * len(texts)
            ),
        )


async def work(url: str) -> None:
    async with queries(url) as queue:
        manager = QueueManager(queue)

        @manager.entrypoint("send")
        async def send(job: Job) -> None:
            assert job.payload
            handle(job.payload.decode())

        await manager.run(batch_size=AT_ONCE)
