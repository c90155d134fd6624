"""Looks that cost more the more there is to see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_CHEAP_SECONDS = 0.025
_IDLE_TIMES = 40


class Seldom(Generic[T]):
    """Takes a look whenever it is asked for one that is cheap; a dear one is shared and shown again for a while.

    A look that took long is not taken again before forty times as long has passed, so that however much there is to count, the
    counting takes a small, fixed share of the time.
    """

    def __init__(self, look: Callable[[], Awaitable[T]]) -> None:
        self._look = look
        self._seen: tuple[T, float] | None = None
        self._looking: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        if self._seen is not None and time.monotonic() < self._seen[1]:
            return self._seen[0]
        if self._looking is None or self._looking.get_loop() is not asyncio.get_running_loop():
            self._looking = asyncio.create_task(self._measured())
        return await asyncio.shield(self._looking)

    async def _measured(self) -> T:
        began = time.monotonic()
        try:
            value = await self._look()
        finally:
            self._looking = None
        ended = time.monotonic()
        took = ended - began
        self._seen = (value, ended + took * _IDLE_TIMES) if took > _CHEAP_SECONDS else None
        return value
