"""arq on Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from arq import Worker, create_pool, func
from arq.connections import RedisSettings

from bench.peers.producer import Producer
from bench.peers.stamps import handle

AT_ONCE = 100


async def send(_: Any, text: str) -> None:
    handle(text)


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    pool = await create_pool(RedisSettings.from_dsn(url))
    try:
        yield Producer(one=lambda text: pool.enqueue_job("send", text))
    finally:
        await pool.aclose()


async def work(url: str) -> None:
    # What this only annotates as a function may be arq's own record of one.
    functions: Any = [func(send, name="send", keep_result=0)]
    # Looks more often than it does by itself, which would be every half a second.
    worker = Worker(
        functions,
        redis_settings=RedisSettings.from_dsn(url),
        max_jobs=AT_ONCE,
        poll_delay=0.01,
        handle_signals=False,
    )
    await worker.async_run()
