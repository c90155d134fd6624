"""Messages of Discord: what is one, which are heard, and that none is lost or doubled however the connection ends."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
from aiohttp import ClientSession

from pillarbox.box import Pillarbox
from pillarbox.engine import Backoff
from pillarbox.inbound import InboundMessage
from pillarbox.inbound.adapters import discord_reading
from pillarbox.inbound.adapters.discord import Listening, Place, message_in
from pillarbox.inbound.adapters.discord_reading import DiscordReader
from pillarbox.inbound.adapters.discord_rest import DiscordRest
from pillarbox.inbound.positions import Positions
from pillarbox.settings import load_settings
from tests.api.running import working
from tests.servers.discord_api import BOT_TOKEN, CHANNEL, GUILD, DiscordApi, discord_api

THREAD, OTHER, DIRECT = "800000000000000101", "800000000000000003", "800000000000000009"


@pytest.fixture
def api() -> Iterator[DiscordApi]:
    with discord_api() as opened:
        yield opened


def bot(api: DiscordApi, **more: Any) -> dict[str, Any]:
    return {"bot_token": BOT_TOKEN, "base_url": api.url, "backoff_seconds": [0.01, 0.05], **more}


@asynccontextmanager
async def listening(url: str, api: DiscordApi, *, times: int = 1, **more: Any) -> AsyncIterator[Pillarbox]:
    adapters = {"discord": bot(api, **more), "typing": False}
    settings = load_settings(environ={}, adapters=adapters, database={"busy_timeout_seconds": 0.1})
    async with Pillarbox.open(url, settings=settings, node="here") as box, working(box):
        await asyncio.to_thread(api.expect_connected, times)
        yield box


async def rows(box: Pillarbox, count: int) -> list[InboundMessage]:
    """The first messages, once there are so many."""
    async with asyncio.timeout(8):
        while True:
            if len(found := await box.inbound.list(limit=1000)) >= count:
                return found
            await asyncio.sleep(0.01)


async def texts(box: Pillarbox, count: int) -> list[str]:
    return [row.content for row in await rows(box, count)]


async def test_a_message_becomes_a_row_of_its_channels_session(sqlite_url: str, api: DiscordApi) -> None:
    async with listening(sqlite_url, api) as box:
        number = api.say("Hello.", member={"nick": "Annie"})
        (row,) = await rows(box, 1)
    assert (row.origin, row.session_id, row.source_channel_id) == ("discord", f"discord:{CHANNEL}", CHANNEL)
    assert (row.source_message_id, row.content, row.message_type) == (number, "Hello.", "text")
    assert (row.actor_id, row.actor_name) == ("600000000000000001", "Ann")
    assert json.loads(row.payload_json or "") == {"guild_id": GUILD}


async def test_bots_webhooks_and_announcements_are_passed_over(sqlite_url: str, api: DiscordApi) -> None:
    async with listening(sqlite_url, api) as box:
        api.say("of a bot", author={"id": "1", "bot": True})
        api.say("of a webhook", webhook_id="123")
        api.say("somebody joined", type=7)
        api.say("a thread began", type=21)
        api.say("")
        api.dispatch("MESSAGE_CREATE", {"id": "no number", "channel_id": CHANNEL, "content": "x"})
        api.dispatch("MESSAGE_CREATE", {"id": str(10**30), "channel_id": CHANNEL, "content": "x"})
        api.dispatch("MESSAGE_CREATE", {"content": "of nowhere", "author": "nobody"})
        api.say("of a person", type=19, message_reference={"message_id": "17"})
        (row,) = await rows(box, 1)
    assert row.content == "of a person"
    assert json.loads(row.payload_json or "")["reply_to"] == "17"


@pytest.mark.parametrize(
    ("fields", "message_type", "text", "payload"),
    [
        (
            {
                "flags": 1 << 13,
                "attachments": [{"id": "5", "url": "https://cdn/v.ogg", "duration_secs": 79.5, "size": 9}],
            },
            "voice",
            "",
            {"file_id": "5", "url": "https://cdn/v.ogg", "seconds": 79.5, "size": 9},
        ),
        (
            {
                "attachments": [
                    {"id": "5", "url": "https://cdn/a", "filename": "a"},
                    {"id": "6", "url": "https://cdn/b"},
                ]
            },
            "file",
            "",
            {
                "file_id": "5",
                "url": "https://cdn/a",
                "name": "a",
                "more_files": [{"file_id": "6", "url": "https://cdn/b"}],
            },
        ),
        ({"sticker_items": [{"name": "wave"}]}, "text", "[sticker wave]", {}),
        ({"message_snapshots": [{"message": {"content": "said before"}}]}, "text", "said before", {}),
        ({"poll": {"question": {"text": "?"}}}, "text", "[poll]", {}),
    ],
    ids=["voice", "files", "sticker", "forwarded", "poll"],
)
def test_other_kinds_keep_what_is_needed_to_use_them(
    fields: dict[str, Any], message_type: str, text: str, payload: dict[str, Any]
) -> None:
    message = {"id": "17", "channel_id": CHANNEL, "type": 0, "content": "", "author": {"id": "1"}, **fields}
    received = message_in(message, Place(GUILD))
    assert received is not None
    assert (received.message_type, received.content) == (message_type, text)
    assert received.payload == {**payload, "guild_id": GUILD}


async def test_only_listed_channels_are_heard_and_with_them_their_threads(sqlite_url: str, api: DiscordApi) -> None:
    api.add_channel(OTHER)
    api.add_channel(THREAD, kind=11, parent=CHANNEL)
    async with listening(sqlite_url, api, channels=[CHANNEL]) as box:
        later = api.add_channel("800000000000000102", kind=11, parent=CHANNEL)
        api.say("elsewhere", channel=OTHER)
        api.say("in the thread", channel=THREAD)
        api.say("in a thread it was not told of", channel=later)
        api.say("in the channel")
        found = await rows(box, 3)
    assert [row.source_channel_id for row in found] == [THREAD, later, CHANNEL]
    assert len({row.session_id for row in found}) == 3


async def test_only_listed_guilds_are_heard(sqlite_url: str, api: DiscordApi) -> None:
    async with listening(sqlite_url, api, guilds=["1"]) as box:
        api.say("elsewhere")
        api.add_channel(DIRECT, kind=1, guild=None)
        api.say("directly", channel=DIRECT)
        assert await texts(box, 1) == ["directly"]
    assert api.intents == [1 << 0 | 1 << 9 | 1 << 12 | 1 << 15]


async def test_threads_can_belong_to_the_session_of_their_channel(sqlite_url: str, api: DiscordApi) -> None:
    api.add_channel(THREAD, kind=11, parent=CHANNEL)
    async with listening(sqlite_url, api, threads="parent") as box:
        api.say("in the thread", channel=THREAD)
        api.say("in the channel")
        found = await rows(box, 2)
    assert {row.session_id for row in found} == {f"discord:{CHANNEL}"}
    assert json.loads(found[0].payload_json or "")["thread_id"] == THREAD


async def test_direct_messages_can_be_left_unheard(sqlite_url: str, api: DiscordApi) -> None:
    api.add_channel(DIRECT, kind=1, guild=None)
    async with listening(sqlite_url, api, direct_messages=False) as box:
        api.say("directly", channel=DIRECT)
        api.say("in the channel")
        assert await texts(box, 1) == ["in the channel"]
    assert api.intents == [1 << 0 | 1 << 9 | 1 << 15]


async def test_what_was_written_before_the_bot_came_is_not_fetched(sqlite_url: str, api: DiscordApi) -> None:
    api.put(api.message("long ago", number=17))
    async with listening(sqlite_url, api) as box:
        api.say("now")
        assert await texts(box, 1) == ["now"]
    assert api.fetched == []


async def test_what_was_written_while_nobody_listened_is_fetched_in_order(sqlite_url: str, api: DiscordApi) -> None:
    api.add_channel(OTHER)
    api.add_channel(DIRECT, kind=1, guild=None)
    api.add_channel(THREAD, kind=11, parent=CHANNEL)
    async with listening(sqlite_url, api) as box:
        api.say("c0")
        api.say("d0", channel=DIRECT)
        api.say("t0", channel=THREAD)
        await rows(box, 3)
    api.channels[THREAD]["archived"] = True
    for number in range(1, 251):
        api.say(f"c{number}", author={"id": "1", "bot": True} if number % 50 == 0 else {"id": "2", "username": "u"})
    api.say("d1", channel=DIRECT)
    api.say("t1", channel=THREAD)
    api.say("o1", channel=OTHER)
    async with listening(sqlite_url, api, times=2) as box:
        api.say("c251")
        api.say("d2", channel=DIRECT)
        found = await rows(box, 3 + 245 + 5)
    by_channel = {
        channel: [row.content for row in found if row.source_channel_id == channel]
        for channel in (CHANNEL, DIRECT, THREAD, OTHER)
    }
    assert by_channel[CHANNEL] == [f"c{number}" for number in range(252) if number % 50 or number == 0]
    assert by_channel[DIRECT] == ["d0", "d1", "d2"]
    assert by_channel[THREAD] == ["t0", "t1"]
    assert by_channel[OTHER] == ["o1"]


async def test_after_a_cut_the_session_is_resumed_and_what_was_missed_is_told(sqlite_url: str, api: DiscordApi) -> None:
    async with listening(sqlite_url, api) as box:
        api.say("one")
        await rows(box, 1)
        await asyncio.to_thread(api.cut)
        api.say("two")
        assert await texts(box, 2) == ["one", "two"]
    assert api.gateway == ["IDENTIFY", "READY", "RESUME", "RESUMED"]
    assert api.fetched == []


async def test_after_a_session_that_cannot_be_resumed_what_was_missed_is_fetched(
    sqlite_url: str, api: DiscordApi
) -> None:
    async with listening(sqlite_url, api) as box:
        first = api.say("one")
        await rows(box, 1)
        api.forget_sessions()
        api.say("two")
        await asyncio.to_thread(api.cut)
        await asyncio.to_thread(api.expect_connected, 2)
        api.say("three")
        assert await texts(box, 3) == ["one", "two", "three"]
    assert "INVALID_SESSION" in api.gateway
    assert (CHANNEL, first) in api.fetched


async def test_replays_and_what_is_both_told_and_fetched_are_stored_once(sqlite_url: str, api: DiscordApi) -> None:
    async with listening(sqlite_url, api) as box:
        message = api.message("once")
        api.put(message)
        for _ in range(3):
            api.dispatch("MESSAGE_CREATE", api.live(message))
        api.dispatch("MESSAGE_CREATE", api.live({**message, "content": "edited meanwhile"}))
        api.say("last")
        assert await texts(box, 2) == ["once", "last"]
    with apsw.Connection(sqlite_url.removeprefix("sqlite:///")) as database:
        database.execute("DELETE FROM adapter_position WHERE place = ?", [CHANNEL])
    async with listening(sqlite_url, api, times=2) as box:
        api.say("after")
        assert await texts(box, 3) == ["once", "last", "after"]
    assert api.fetched


async def test_a_page_with_one_message_nobody_can_read_stores_the_others(sqlite_url: str, api: DiscordApi) -> None:
    async with listening(sqlite_url, api) as box:
        api.say("one")
        await rows(box, 1)
    for bad in ({"content": 5}, {"author": "x", "content": "a\0\ud800b"}, {"attachments": "x", "content": None}):
        api.say("", heard=False, **bad)
    api.messages[CHANNEL].insert(1, {"id": str(2**62), "channel_id": CHANNEL, "content": []})
    api.messages[CHANNEL].sort(key=lambda message: int(message["id"]))
    api.say("two", heard=False)
    async with listening(sqlite_url, api, times=2) as box:
        assert await texts(box, 3) == ["one", "a\ufffd\ufffdb", "two"]


async def test_a_refused_page_is_asked_for_again(sqlite_url: str, api: DiscordApi) -> None:
    api.limits = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset-After": "0.05"}
    async with listening(sqlite_url, api) as box:
        api.say("one")
        await rows(box, 1)
    api.say("two", heard=False)
    limited = {"message": "You are being rate limited.", "retry_after": 0.01, "global": False}
    api.script += [(429, limited, {"Retry-After": "0"}), (429, limited, {}), (500, {}, {}), (502, {}, {})]
    async with listening(sqlite_url, api, times=2) as box:
        assert await texts(box, 2) == ["one", "two"]
    assert not api.script


async def test_channels_that_are_gone_or_barred_hold_up_no_other(sqlite_url: str, api: DiscordApi) -> None:
    api.add_channel(OTHER)
    api.add_channel(THREAD, kind=11, parent=OTHER)
    async with listening(sqlite_url, api) as box:
        for channel in (CHANNEL, OTHER, THREAD):
            api.say("before", channel=channel)
        await rows(box, 3)
    for channel in (OTHER, THREAD):
        api.say("missed", channel=channel, heard=False)
    api.barred.add(THREAD)
    del api.channels[CHANNEL]
    async with listening(sqlite_url, api, times=2) as box:
        api.say("after", channel=THREAD)
        found = await rows(box, 5)
    assert [row.content for row in found if row.source_channel_id == OTHER] == ["before", "missed"]
    assert [row.content for row in found if row.source_channel_id == THREAD] == ["before", "after"]


async def test_while_the_database_takes_nothing_messages_wait(sqlite_url: str, tmp_path: Path, api: DiscordApi) -> None:
    async with listening(sqlite_url, api) as box:
        api.say("one")
        await rows(box, 1)
        with apsw.Connection(str(tmp_path / "pillarbox.db")) as other:
            other.set_busy_timeout(30_000)
            other.execute("UPDATE sessions SET title = 'held' WHERE false")
            api.say("two")
            api.say("three")
        assert await texts(box, 3) == ["one", "two", "three"]


@pytest.mark.parametrize(("code", "words"), [(4004, "bot_token"), (4014, "Message Content Intent")])
async def test_a_refusal_is_told_in_words_and_tried_again(
    sqlite_url: str, api: DiscordApi, caplog: pytest.LogCaptureFixture, code: int, words: str
) -> None:
    api.close_identify_with = code
    settings = load_settings(environ={}, adapters={"discord": bot(api)})
    async with Pillarbox.open(sqlite_url, settings=settings, node="here") as box, working(box):
        await asyncio.to_thread(api.expect, lambda: api.gateway.count("IDENTIFY") > 1)
        api.close_identify_with = None
        await asyncio.to_thread(api.expect_connected)
        api.say("at last")
        assert await texts(box, 1) == ["at last"]
    assert words in caplog.text
    assert BOT_TOKEN not in caplog.text


async def test_without_a_token_or_told_not_to_nobody_listens(sqlite_url: str, api: DiscordApi) -> None:
    for section in ({}, bot(api, listen=False)):
        settings = load_settings(environ={}, adapters={"discord": section})
        async with Pillarbox.open(sqlite_url, settings=settings, node="here") as box:
            assert box.adapters.sources == []


async def test_a_message_that_is_told_before_its_guild_waits_for_those_before_it(
    sqlite_url: str, api: DiscordApi
) -> None:
    settings = load_settings(environ={})
    async with Pillarbox.open(sqlite_url, settings=settings, node="here") as box, ClientSession() as client:
        clock = box.database.clock
        reader = DiscordReader(
            box.adapters,
            Positions(box.database, "discord"),
            DiscordRest(client, base_url=api.url, bot_token=BOT_TOKEN, clock=clock),
            listening=Listening(),
            backoff=Backoff((0.01,)),
            clock=clock,
            random=Random(0),
        )
        missed, told = api.message("missed"), api.message("told")
        reader.hear("READY", {})
        api.put(missed)
        api.put(told)
        reader.hear("MESSAGE_CREATE", api.live(told))
        reader.hear("GUILD_CREATE", {"id": GUILD, "channels": [api.channels[CHANNEL]], "threads": []})
        reading = asyncio.create_task(reader.run())
        assert await texts(box, 2) == ["missed", "told"]
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_more_than_can_be_stored_is_fetched_after_connecting_again(
    sqlite_url: str, api: DiscordApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discord_reading, "_MOST_WAITING", 5)
    async with listening(sqlite_url, api) as box:
        api.say("0")
        await rows(box, 1)
        with apsw.Connection(sqlite_url.removeprefix("sqlite:///")) as other:
            other.set_busy_timeout(30_000)
            other.execute("UPDATE sessions SET title = 'held' WHERE false")
            for number in range(1, 31):
                api.say(str(number))
        assert await texts(box, 31) == [str(number) for number in range(31)]
    assert api.gateway.count("READY") > 1
