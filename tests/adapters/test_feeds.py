"""What every adapter that asks or listens promises, whatever its platform; those that are posted to are in test_contract.py."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pillarbox.box import Pillarbox
from pillarbox.inbound import InboundMessage
from pillarbox.sessions import Channel
from pillarbox.settings import load_settings
from tests.adapters.feeds import CHATS, FEEDS, Feed
from tests.api.running import working

PARKED = {"kind": "python", "name": "nobody"}
CHAT, OTHER = CHATS


@pytest.fixture(params=FEEDS)
def feed(request: pytest.FixtureRequest) -> Iterator[Feed]:
    with FEEDS[request.param]() as opened:
        yield opened


@asynccontextmanager
async def listening(url: str, feed: Feed, **adapters: Any) -> AsyncIterator[Pillarbox]:
    settings = load_settings(environ={}, adapters=feed.adapters(**adapters))
    async with Pillarbox.open(url, settings=settings, node="here") as box, working(box):
        yield box


async def rows(box: Pillarbox, count: int) -> list[InboundMessage]:
    async with asyncio.timeout(20):
        while True:
            if len(found := await box.inbound.list(limit=1000)) >= count:
                return found
            await asyncio.sleep(0.01)


async def connected(box: Pillarbox, feed: Feed) -> None:
    """Until a first message is heard nobody can know that somebody listens."""
    await asyncio.to_thread(feed.say, 1, "first", CHAT)
    await rows(box, 1)


async def test_each_message_is_one_row_in_order_of_the_session_that_has_its_chat(sqlite_url: str, feed: Feed) -> None:
    async with listening(sqlite_url, feed) as box:
        await box.sessions.open(session_id="s1", target=PARKED, channels=[Channel(feed.origin, CHAT)])
        await connected(box, feed)
        for number in range(2, 31):
            feed.say(number, str(number), CHAT)
        feed.nonsense()
        feed.repeat()
        feed.say(31, "a\0b" + "x" * 3000, OTHER)
        found = await rows(box, 31)
    assert [row.content for row in found[:30]] == ["first", *map(str, range(2, 31))]
    assert {row.session_id for row in found[:30]} == {"s1"}
    assert [row.source_message_id for row in found[:30]] == [feed.source_id(number, CHAT) for number in range(1, 31)]
    assert (found[30].content, found[30].session_id) == ("a\ufffdb" + "x" * 3000, f"{feed.origin}:{OTHER}")
    assert len(found) == 31


async def test_an_unknown_chat_can_be_ignored_and_a_closed_session_gets_a_successor(
    sqlite_url: str, feed: Feed
) -> None:
    async with listening(sqlite_url, feed, on_unknown="ignore") as box:
        await box.sessions.open(session_id="s1", target=PARKED, channels=[Channel(feed.origin, CHAT)])
        await connected(box, feed)
        feed.say(2, "of nobody", OTHER)
        feed.say(3, "of the chat", CHAT)
        assert [row.content for row in await rows(box, 2)] == ["first", "of the chat"]
        await box.sessions.close("s1")
    async with listening(sqlite_url, feed) as box:
        feed.say(4, "after the close", CHAT)
        found = await rows(box, 3)
    assert [row.content for row in found if row.source_channel_id == CHAT] == [
        "first",
        "of the chat",
        "after the close",
    ]
    assert found[-1].session_id != "s1"
