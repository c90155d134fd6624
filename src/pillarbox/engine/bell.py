"""A bell that wakes a loop early; polling is the truth, bells only make it prompt."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Bell:
    """Clear it *before* looking for work: a ring that falls in between is then kept for the next wait."""

    def __init__(self) -> None:
        self._rung = False
        self._waiter: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def ring(self) -> None:
        """From the loop that waits."""
        self._rung = True
        self.nudge()

    def ring_from_thread(self) -> None:
        """From anywhere else; before anyone has waited there is nobody to wake."""
        self._rung = True
        if self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.ring)

    def nudge(self) -> None:
        """Wake whoever waits now, without a ring: there is nothing to look for that would outlast the wait."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def rung(self) -> bool:
        return self._rung

    def clear(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = False

    async def wait(self, timeout: float) -> None:
        """Until rung, or until the time is over."""
        self._loop = asyncio.get_running_loop()
        if self._rung:
            return
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(timeout, self._give_up, self._waiter)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    @staticmethod
    def _give_up(waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_result(None)
