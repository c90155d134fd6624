"""Procrastinate on psycopg."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from procrastinate import App, PsycopgConnector
from procrastinate.tasks import Task

from bench.peers.producer import Producer
from bench.peers.stamps import handle

POOL = 16
AT_ONCE = 100


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[tuple[App, Task[..., Any, Any]]]:
    app = App(connector=PsycopgConnector(conninfo=url, min_size=POOL, max_size=POOL))

    @app.task(name="send", queue="send")
    async def send(text: str) -> None:
        handle(text)

    async with app.open_async():
        yield app, send


async def prepare(url: str) -> None:
    async with opened(url) as (app, _):
        await app.schema_manager.apply_schema_async()


def arguments(text: str) -> Any:
    return {"text": text}


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    async with opened(url) as (_, send):
        yield Producer(
            one=lambda text: send.defer_async(text=text),
            many=lambda texts: send.batch_defer_async(*map(arguments, texts)),
        )


async def work(url: str) -> None:
    async with opened(url) as (app, _):
        await app.run_worker_async(concurrency=AT_ONCE, install_signal_handlers=False)
