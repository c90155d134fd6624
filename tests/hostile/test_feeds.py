"""Platforms that are asked or listened to tell nonsense: no loop ends, the next good message comes, and no log repeats any."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pillarbox.box import Pillarbox
from pillarbox.inbound import InboundMessage
from pillarbox.settings import load_settings
from tests.adapters.platforms import BOT_TOKEN, Said, telegram_update
from tests.api.running import working
from tests.hostile.corpus.texts import CANARY
from tests.hostile.feed_inputs import (
    FIRST_UPDATE,
    FRAMES,
    PASSED_OVER,
    Told,
    discord_messages,
    telegram_answers,
    telegram_updates,
)
from tests.servers import discord_api as discord
from tests.servers.discord_api import FIRST_MESSAGE, Connection, DiscordApi, discord_api
from tests.servers.telegram_api import telegram_api

SEED = int(os.environ.get("PILLARBOX_TEST_HOSTILE_SEED", "20260101"))
MANY = [pytest.param(250, id="some"), pytest.param(5000, id="many", marks=[pytest.mark.long, pytest.mark.slow])]
GOOD = "a good message"
LATER = 2**20


@asynccontextmanager
async def listening(url: str, origin: str, section: dict[str, Any]) -> AsyncIterator[Pillarbox]:
    settings = load_settings(environ={}, adapters={origin: {**section, "backoff_seconds": [0.01]}, "typing": False})
    async with Pillarbox.open(url, settings=settings, node="here") as box, working(box):
        yield box


async def heard(box: Pillarbox, number: int) -> list[InboundMessage]:
    """Everything, once so many good messages are there."""
    async with asyncio.timeout(60):
        while True:
            found: list[InboundMessage] = []
            while page := await box.inbound.list(limit=1000, after=found[-1].id if found else 0):
                found += page
            if sum(row.content == GOOD for row in found) >= number:
                return found
            await asyncio.sleep(0.02)


def check_what_was_stored(found: Sequence[InboundMessage], told: Sequence[Told]) -> None:
    """Only what can be a message is one, and nothing in it can break what it is handed to."""
    hostile = [row for row in found if row.content != GOOD]
    assert len(hostile) <= sum(not each.is_none for each in told)
    assert len(hostile) > len(told) / 20
    for row in hostile:
        written = " ".join(map(str, (row.content, row.payload_json, row.actor_name, row.actor_id)))
        assert "\0" not in written
        assert written.encode(), "no unpaired surrogate"


def check_logs(caplog: pytest.LogCaptureFixture) -> None:
    assert CANARY not in caplog.text
    assert "bug in Pillarbox" not in caplog.text
    assert "an exception occurred handling an event" not in caplog.text


@pytest.mark.parametrize("number", MANY)
async def test_spoilt_updates_of_telegram_hold_up_no_good_one(
    number: int, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told = telegram_updates(number, SEED)
    with telegram_api(BOT_TOKEN) as api:
        section = {"bot_token": BOT_TOKEN, "base_url": api.url, "poll_seconds": 1}
        for first in range(0, len(told), 100):
            batch = b",".join(each.document for each in told[first : first + 100])
            api.script.append((200, b'{"ok":true,"result":[' + batch + b"]}"))
        api.post(good_update(1))
        async with listening(sqlite_url, "telegram", section) as box:
            found = await heard(box, 1)
    check_what_was_stored(found, told)
    assert found[-1].content == GOOD
    check_logs(caplog)


def good_update(number: int) -> dict[str, Any]:
    update_id = FIRST_UPDATE + LATER + number
    return {**telegram_update(Said(10**9 + number, text=GOOD)), "update_id": update_id}


async def test_whatever_telegram_answers_it_is_asked_again(sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with telegram_api(BOT_TOKEN) as api:
        answers = list(telegram_answers())
        api.script += answers
        api.post(good_update(1))
        section = {"bot_token": BOT_TOKEN, "base_url": api.url, "poll_seconds": 0.01}
        async with listening(sqlite_url, "telegram", section) as box:
            found = await heard(box, 1)
            await asyncio.to_thread(api.expect_all_confirmed)
    assert [row.content for row in found if row.content == GOOD] == [GOOD]
    assert not api.script
    check_logs(caplog)


async def test_an_update_that_cannot_be_confirmed_is_not_asked_for_without_a_pause(sqlite_url: str) -> None:
    with telegram_api(BOT_TOKEN) as api:
        nameless = (200, b'{"ok":true,"result":[{"message":{"message_id":1}}]}')
        api.script += [nameless] * 50
        api.post(good_update(1))
        section = {"bot_token": BOT_TOKEN, "base_url": api.url, "poll_seconds": 1}
        async with listening(sqlite_url, "telegram", section):
            await asyncio.to_thread(api.expect, lambda: bool(api.questions), "a question")
            clock = asyncio.get_running_loop().time
            before = clock()
            await asyncio.to_thread(api.expect, lambda: len(api.questions) > 1, "another question")
            assert clock() - before > 0.5


@pytest.mark.parametrize("number", MANY)
async def test_spoilt_messages_of_discord_hold_up_no_good_one(
    number: int, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told = discord_messages(number, SEED)
    with discord_api() as api:
        section = {"bot_token": discord.BOT_TOKEN, "base_url": api.url}
        async with listening(sqlite_url, "discord", section) as box:
            await asyncio.to_thread(api.expect_connected)
            for each in told:
                await frame(api, b'{"op":0,"t":"%s","s":2,"d":%s}' % (each.name.encode(), each.document))
            await asyncio.to_thread(api.say, GOOD, number=FIRST_MESSAGE + (LATER << 22))
            found = await heard(box, 1)
            assert api.gateway.count("IDENTIFY") == 1
            assert all(channel.isdigit() for channel, _ in api.fetched)
    check_what_was_stored(found, told)
    check_logs(caplog)


async def test_frames_that_discord_never_sends_are_passed_over(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with discord_api() as api:
        section = {"bot_token": discord.BOT_TOKEN, "base_url": api.url}
        async with listening(sqlite_url, "discord", section) as box:
            await asyncio.to_thread(api.expect_connected)
            for document in PASSED_OVER:
                await frame(api, document)
            await asyncio.to_thread(api.say, GOOD)
            assert [row.content for row in await heard(box, 1)] == [GOOD]
            assert api.gateway.count("IDENTIFY") == 1
            assert all(channel.isdigit() for channel, _ in api.fetched)
    check_logs(caplog)


@pytest.mark.slow
@pytest.mark.parametrize(
    "documents", [FRAMES[-4:], pytest.param(FRAMES[:-4], marks=pytest.mark.long)], ids=["some", "many"]
)
async def test_after_a_frame_that_nobody_can_read_the_connection_is_made_again(
    documents: Sequence[bytes], sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with discord_api() as api:
        section = {"bot_token": discord.BOT_TOKEN, "base_url": api.url}
        async with listening(sqlite_url, "discord", section) as box:
            await asyncio.to_thread(api.expect_connected)
            for number, document in enumerate(documents, 1):
                await frame(api, document)
                await asyncio.to_thread(api.say, GOOD)
                assert [row.content for row in await heard(box, number)] == [GOOD] * number, document[:100]
    check_logs(caplog)


@pytest.mark.slow
@pytest.mark.long
async def test_after_a_frame_of_another_kind_the_connection_is_made_again(sqlite_url: str) -> None:
    async def as_text(connection: Connection) -> None:
        await connection.socket.send_str(json.dumps({"op": 0, "t": "MESSAGE_CREATE", "s": 1, "d": {}}))

    async def uncompressed(connection: Connection) -> None:
        await connection.socket.send_bytes(b'{"op":11}\x00\x00\xff\xff')

    with discord_api() as api:
        section = {"bot_token": discord.BOT_TOKEN, "base_url": api.url}
        async with listening(sqlite_url, "discord", section) as box:
            await asyncio.to_thread(api.expect_connected)
            for number, act in enumerate((as_text, uncompressed), 1):
                await asyncio.to_thread(api.send, act)
                await asyncio.to_thread(api.say, GOOD)
                assert len(await heard(box, number)) == number


async def frame(api: DiscordApi, document: bytes) -> None:
    """One message of the gateway, whatever it is."""
    await asyncio.to_thread(api.send, lambda connection: connection.send_document(document))
