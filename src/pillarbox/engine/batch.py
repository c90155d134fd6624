"""Turning concurrent single calls into sets: while one set is being committed the next one gathers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from pillarbox.errors import Unavailable

T = TypeVar("T")
R = TypeVar("R")


class Batch(Generic[T, R]):
    """Runs a set-based verb for single callers; no timers, so an idle caller waits for nobody.

    The verb answers one result for each item, in order; an exception among them is raised to that item's caller alone.
    A set that fails as a whole is run item by item, unless the store itself is unavailable. An item whose caller went
    away before its set began is left out.
    """

    def __init__(
        self, run: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]], *, most: int, at_once: int
    ) -> None:
        self._run = run
        self._most = most
        self._at_once = at_once
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._runners: set[asyncio.Task[None]] = set()

    async def add(self, item: T) -> R:
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if len(self._runners) < self._at_once:
            runner = asyncio.create_task(self._run_all())
            self._runners.add(runner)
        return await future

    async def _run_all(self) -> None:
        try:
            while taken := self._take():
                await self._run_set(taken)
        finally:
            # Not by a callback of the task, which comes later: who adds in between would wait for one that has ended.
            self._runners.remove(asyncio.current_task())  # type: ignore[arg-type]

    def _take(self) -> list[tuple[T, asyncio.Future[R]]]:
        """The next set: the oldest whose callers still wait."""
        taken: list[tuple[T, asyncio.Future[R]]] = []
        while self._waiting and len(taken) < self._most:
            item, future = self._waiting.popleft()
            if not future.done():
                taken.append((item, future))
        return taken

    async def _run_set(self, taken: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self._run([item for item, _ in taken])
        except asyncio.CancelledError:
            for _, future in taken:
                future.cancel()
            raise
        except Exception as error:
            if len(taken) == 1 or isinstance(error, Unavailable):
                results = [error] * len(taken)
            else:
                for single in taken:
                    await self._run_set([single])
                return
        for (_, future), result in zip(taken, results, strict=True):
            if future.done():
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
