"""Going through what an asynchronous iterator brings, one by one and without awaiting."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

from pillarbox.sync.thread import BoxThread

T = TypeVar("T")


@contextmanager
def one_by_one(thread: BoxThread, following: AbstractAsyncContextManager[AsyncIterator[T]]) -> Iterator[Iterator[T]]:
    """What is followed, as a plain iterator; it ends with the block."""

    async def begin() -> AsyncIterator[T]:
        return await following.__aenter__()

    async def step(events: AsyncIterator[T]) -> tuple[T] | None:
        async for event in events:
            return (event,)
        return None

    async def end() -> None:
        await following.__aexit__(None, None, None)

    def every(events: AsyncIterator[T]) -> Iterator[T]:
        while found := thread.call_patiently(step, events):
            yield found[0]

    events = thread.call(begin)
    try:
        yield every(events)
    finally:
        thread.call(end)
