"""FastStream on NATS JetStream, whose server syncs every write before it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from faststream.nats import JStream, NatsBroker, PullSub

from bench.peers.producer import Producer
from bench.peers.stamps import handle

AT_ONCE = 100


def stream() -> JStream:
    return JStream("jobs", subjects=["jobs"])


def opened(url: str) -> NatsBroker:
    broker = NatsBroker(url, logger=None)

    @broker.subscriber("jobs", stream=stream(), durable="worker", pull_sub=PullSub(batch_size=AT_ONCE))
    async def send(text: str) -> None:
        handle(text)

    return broker


async def prepare(url: str) -> None:
    async with opened(url) as broker:
        await broker.start()


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    async with NatsBroker(url, logger=None) as broker:
        yield Producer(one=lambda text: broker.publish(text, "jobs", stream="jobs", timeout=30))


async def work(url: str) -> None:
    async with opened(url) as broker:
        await broker.start()
        await asyncio.Event().wait()
