"""The tasks that deliver: few where nothing waits, as many as there is to wait for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

# Then others have their turn too: the loop, and the threads that wait to go on.
_AT_A_STRETCH = 32


class Crew(Generic[T]):
    """Does what it is given, in order, each thing as soon as those before it wait or are done.

    Before a task begins with anything, another one stands by for the rest. So whatever has to wait has a task to itself, and
    what never waits is done by one task after another thing, without the cost of a task each, and so much at a stretch as has
    a bounded `size` all together.
    """

    def __init__(self, do: Callable[[T], Awaitable[None]], *, size: Callable[[T], int] = lambda item: 1) -> None:
        self._do = do
        self._size = size
        self._waiting: deque[T] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._standing_by: asyncio.Task[None] | None = None

    def add(self, item: T) -> None:
        self._waiting.append(item)
        self._stand_by()

    async def landed(self, *, at_most: float | None = None) -> None:
        """Until everything is done, or the time is over."""
        loop = asyncio.get_running_loop()
        ends = None if at_most is None else loop.time() + at_most
        while self._tasks and (ends is None or loop.time() < ends):
            left = None if ends is None else ends - loop.time()
            await asyncio.wait(self._tasks, timeout=left)

    def _stand_by(self) -> None:
        if self._standing_by is None:
            self._standing_by = asyncio.create_task(self._work())
            self._tasks.add(self._standing_by)
            self._standing_by.add_done_callback(self._leave)

    async def _work(self) -> None:
        me, self._standing_by = self._standing_by, None
        done = 0
        while self._waiting and done < _AT_A_STRETCH:
            item = self._waiting.popleft()
            if self._waiting:
                self._stand_by()
            done += self._size(item)
            await self._do(item)
            # One that was told to stop does nothing further; somebody stands by for what is left.
            if me is not None and me.cancelling():
                return

    def _leave(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._standing_by is task:
            self._standing_by = None
