"""Awaiting something to its end, whoever cancels."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def outlast(work: Coroutine[Any, Any, T]) -> T:
    """What it returns, however often the caller is cancelled meanwhile; that is raised when it has ended."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None or (not task.cancelled() and task.exception()):
        return task.result()
    raise cancelled
