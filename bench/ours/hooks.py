"""The hooks pipe: critical events of a thousand sessions, which are never coalesced, and a listener that does nothing."""

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
from pillarbox.hooks.model import HookEvent
from pillarbox.settings import load_settings

SESSIONS = 1000
CRITICAL = "agent_stop"
# Sessions, and of each a run of events.
AT_ONCE = 500
OF_EACH = 32


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Pillarbox]:
    settings = load_settings(environ={}, hooks={"concurrency": AT_ONCE, "strand_limit": OF_EACH})
    async with Pillarbox.open(url, settings=settings) as box:
        yield box


async def prepare(url: str) -> None:
    async with opened(url) as box:
        opening = (box.sessions.open(session_id=f"s{n}", target={"kind": "none"}) for n in range(SESSIONS))
        await asyncio.gather(*opening)


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    numbers = count()
    async with opened(url) as box:

        async def one(text: str) -> None:
            n = next(numbers)
            await box.hooks.post(f"s{n % SESSIONS}", CRITICAL, {"text": text})

        async def many(texts: list[str]) -> None:
            await asyncio.gather(*map(one, texts))

        yield Producer(one, many)


async def work(url: str) -> None:
    async with opened(url) as box:

        @box.hooks.on()
        async def nothing(event: HookEvent) -> None:
            handle(event.payload["text"])

        looking()
        await box.run()
