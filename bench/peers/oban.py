"""Oban for Python, which wants Python 3.12."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from oban import Oban, worker
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from bench.peers.producer import Producer
from bench.peers.stamps import handle

POOL = 16
AT_ONCE = 100


@worker(queue="send")
class Send:
    async def process(self, job: Any) -> None:
        handle(job.args["text"])


def job(text: str) -> Any:
    return Send.new({"text": text})  # type: ignore[attr-defined]


async def prepare(url: str) -> None:
    async with AsyncConnectionPool(url) as pool:
        await install(pool)


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    async with AsyncConnectionPool(url, min_size=POOL, max_size=POOL) as pool:
        client = Oban(pool=pool, name="client")
        yield Producer(
            one=lambda text: client.enqueue(job(text)),
            many=lambda texts: client.enqueue_many([job(text) for text in texts]),
        )


async def work(url: str) -> None:
    async with (
        AsyncConnectionPool(url, min_size=POOL, max_size=POOL) as pool,
        Oban(pool=pool, queues={"send": AT_ONCE}),
    ):
        await asyncio.Event().wait()
