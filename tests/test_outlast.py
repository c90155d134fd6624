import asyncio

import pytest

from pillarbox.outlast import outlast


async def test_what_is_outlasted_ends_whole_and_the_cancellation_comes_after_it() -> None:
    ended = []
    go_on = asyncio.Event()

    async def work() -> None:
        await go_on.wait()
        ended.append(True)

    waiting = asyncio.create_task(outlast(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended


async def test_its_answer_and_its_error_are_its_callers() -> None:
    async def answer() -> int:
        return 42

    async def fail() -> None:
        raise OSError("full")

    assert await outlast(answer()) == 42
    with pytest.raises(OSError, match="full"):
        await outlast(fail())
