"""Waiting for a thread of a pool, but not for ever."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

from pillarbox.errors import DatabaseBusy

T = TypeVar("T")


async def soon(job: Future[T], seconds: float) -> T:
    """What the job returns; `DatabaseBusy` if it was not even begun in time, and then it never will be."""
    given_up = False

    def give_up() -> None:
        nonlocal given_up
        given_up = job.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, give_up)
    try:
        return await asyncio.wrap_future(job)
    except asyncio.CancelledError:
        if not given_up:
            raise
        raise DatabaseBusy("No database connection became free in time; try again.") from None
    finally:
        timer.cancel()
