"""The inbound queue: a thousand sessions, each in exact order, and a target that does nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

# A worker imports it as it starts; here that has to be before the word to go, as for all.
import aiohttp  # noqa: F401

from bench.peers.producer import Producer
from bench.peers.stamps import handle, looking
from pillarbox import Pillarbox
from pillarbox.inbound import InboundMessage
from pillarbox.settings import load_settings

SESSIONS = 1000
TARGET = {"kind": "python", "name": "nothing"}
AT_ONCE = 500


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Pillarbox]:
    settings = load_settings(environ={}, inbound={"concurrency": AT_ONCE})
    async with Pillarbox.open(url, settings=settings) as box:
        yield box


async def prepare(url: str) -> None:
    async with opened(url) as box:
        await asyncio.gather(*(box.sessions.open(session_id=f"s{n}", target=TARGET) for n in range(SESSIONS)))


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    numbers = count()
    async with opened(url) as box:

        async def one(text: str) -> None:
            n = next(numbers)
            await box.inbound.enqueue(session_id=f"s{n % SESSIONS}", origin="bench", content=text)

        async def many(texts: list[str]) -> None:
            await asyncio.gather(*map(one, texts))

        yield Producer(one, many)


async def work(url: str) -> None:
    async with opened(url) as box:

        @box.inbound.target("nothing")
        async def nothing(message: InboundMessage) -> None:
            handle(message.content)

        looking()
        await box.run()
