import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest
from starlette.types import Message

from pillarbox.api.streams import Line, Stream
from pillarbox.errors import DatabaseBusy


class Caller:
    """The other end of a stream: takes so many pieces, then no more until it is hung up on."""

    def __init__(self, takes: int = 1000) -> None:
        self.left = takes
        self.gone = asyncio.Event()
        self.taken: list[Message] = []
        self.released = False

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if not self.left:
            await self.gone.wait()
            return
        self.left -= 1
        self.taken.append(message)

    async def is_sent(self, pieces: AsyncGenerator[bytes, None]) -> None:
        line = Line({"type": "http", "state": {"hang_up": self.gone.set}}, self.receive, asyncio.Event())
        held = AsyncExitStack()
        held.callback(lambda: setattr(self, "released", True))
        stream = Stream(200, pieces=pieces, held=held, line=line, seconds_to_take=0.05)
        async with asyncio.timeout(5):
            await stream.send(self.send)


async def endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield b"x"


async def test_a_caller_who_takes_nothing_for_long_is_hung_up_on() -> None:
    caller = Caller(takes=3)
    await caller.is_sent(endless())
    assert caller.gone.is_set()
    assert caller.released
    assert [message.get("body") for message in caller.taken] == [None, b"x", b"x"]


async def test_a_stream_that_breaks_off_ends_so_that_its_caller_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    async def breaking() -> AsyncGenerator[bytes, None]:
        yield b"x"
        raise DatabaseBusy("busy")

    caller = Caller()
    await caller.is_sent(breaking())
    assert caller.taken[1:] == [
        {"type": "http.response.body", "body": b"x", "more_body": True},
        {"type": "http.response.body", "body": b"", "more_body": False},
    ]
    assert caller.released
    assert "a stream ended early" in caplog.text
