"""SAQ, on Redis or on PostgreSQL as its URL says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from saq import Queue, Worker

from bench.peers.producer import Producer
from bench.peers.stamps import handle

AT_ONCE = 100


async def send(_: Any, *, text: str) -> None:
    handle(text)


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    queue = Queue.from_url(url)
    await queue.connect()
    try:
        yield Producer(one=lambda text: queue.enqueue("send", text=text, ttl=-1))
    finally:
        await queue.disconnect()


async def prepare(url: str) -> None:
    async with producer(url):
        await asyncio.sleep(0)


async def work(url: str) -> None:
    queue = Queue.from_url(url)
    await queue.connect()
    await Worker(queue, functions=[("send", send)], concurrency=AT_ONCE).start()
