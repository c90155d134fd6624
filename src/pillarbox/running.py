"""One run of a box at a time, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from pillarbox.errors import PillarboxError
from pillarbox.outlast import outlast
from pillarbox.telemetry import brief, logger

log = logger(__name__)

Work = Coroutine[Any, Any, None]


class Running:
    """Runs what a box does until it is stopped, cancelled, or its box is closed.

    A stop belongs to the run under way, or to the first one if that has yet to begin.
    """

    def __init__(self, work: Callable[[], Work], *, begin: Callable[[], None], stop: Callable[[], None]) -> None:
        self._work = work
        self._begin = begin
        self._stop = stop
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped_early = False

    async def run(self) -> None:
        if self._task is not None:
            raise PillarboxError("This box runs already; stop it first, or open another one.")
        if self._stopped_early:
            self._stopped_early = False
            return
        self._loop = asyncio.get_running_loop()
        self._begin()
        task = self._task = asyncio.create_task(self._work())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            await outlast(asyncio.wait([task]))
            # Unless its box was closed, by somebody who left in a hurry.
            if (caller := asyncio.current_task()) is None or caller.cancelling():
                raise
        finally:
            self._task = None

    def stop(self) -> None:
        """From any thread."""
        if self._loop is None:
            self._stopped_early = True
        elif _is_running(self._loop):
            self._stop_now()
        else:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._stop_now)

    async def leave(self, *, in_a_hurry: bool) -> None:
        """End the run under way before what it works with is closed; in a hurry without its grace period."""
        if self._task is None:
            return
        if in_a_hurry:
            self._task.cancel()
        self._stop_now()
        await asyncio.wait([self._task])

    def _stop_now(self) -> None:
        if self._task is not None:
            self._stop()


async def side_by_side(works: Iterable[Work], chores: Iterable[Work]) -> None:
    """Until all works have come to their end, or one fails; the chores beside them end after the last."""
    working = [asyncio.create_task(work) for work in works]
    aside = [asyncio.create_task(chore) for chore in chores]
    for task in aside:
        task.add_done_callback(_tell_of_trouble)
    try:
        await asyncio.gather(*working)
    finally:
        await outlast(_end(working, aside))


async def _end(*groups: Sequence[asyncio.Task[None]]) -> None:
    """Cancel and wait, one group after the other."""
    for tasks in groups:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _tell_of_trouble(chore: asyncio.Task[None]) -> None:
    if not chore.cancelled() and (error := chore.exception()):
        log.error("a chore of the box ended with an error; restart this process", error=brief(error))


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
