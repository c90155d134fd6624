"""A box at work, and waiting for what it does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from pillarbox.box import Pillarbox
from tests.api.client import Client


@asynccontextmanager
async def working(box: Pillarbox) -> AsyncIterator[None]:
    running = asyncio.create_task(box.run())
    yield
    box.stop()
    await running


async def until(client: Client, path: str, holds: Callable[[Any], bool]) -> Any:
    """Ask again and again until the answer is right."""
    async with asyncio.timeout(20):
        while True:
            answer = (await client.get(path)).json()
            if holds(answer):
                return answer
            await asyncio.sleep(0.01)
