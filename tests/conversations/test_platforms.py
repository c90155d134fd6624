"""Replies reach every platform, with its own token, by the way its messages come."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pillarbox.inbound.adapter import Received
from tests.conversations.stand import TOKEN, say, standing
from tests.servers.scripted import Scripted, scripted
from tests.servers.telegram_api import TelegramApi, telegram_api

PLATFORMS: dict[str, dict[str, Any]] = {
    "discord": {
        "settings": {"bot_token": "MTA1234.a-token.x", "listen": False},
        "base": "/api/v10",
        "channel": "77",
        "path": "/api/v10/channels/77/messages",
        "authorization": "Bot MTA1234.a-token.x",
        "answer": {"id": "1"},
        "text": lambda body: body["content"],
    },
    "slack": {
        "settings": {"bot_token": "xoxb-token"},
        "base": "",
        "channel": "C77",
        "payload": {"thread_ts": "1503435956.000247"},
        "path": "/api/chat.postMessage",
        "authorization": "Bearer xoxb-token",
        "answer": {"ok": True, "ts": "1503435957.000100"},
        "text": lambda body: body["text"] if body["thread_ts"] == "1503435956.000247" else "",
    },
    "whatsapp": {
        "settings": {"access_token": "a-token"},
        "base": "",
        "channel": "15551234567",
        "payload": {"phone_number_id": "106540352242922"},
        "path": "/v23.0/106540352242922/messages",
        "authorization": "Bearer a-token",
        "answer": {"messages": [{"id": "wamid.1"}]},
        "text": lambda body: body["text"]["body"] if body["to"] == "+15551234567" else "",
    },
}


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as server:
        yield server


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


WHATSAPP = "/v23.0/106540352242922/messages"
NUMBER = {"phone_number_id": "106540352242922"}


@pytest.mark.parametrize(
    ("channel_id", "wanted"),
    [
        ("15551234567", {"recipient_type": "individual", "to": "+15551234567"}),
        ("US.13491208655302741918", {"recipient_type": "individual", "recipient": "US.13491208655302741918"}),
        ("Y2FwaV9ncm91cDoxNzA1", {"recipient_type": "group", "to": "Y2FwaV9ncm91cDoxNzA1"}),
    ],
)
async def test_whatsapp_is_told_whether_it_writes_to_a_number_a_person_or_a_group(
    channel_id: str, wanted: dict[str, str], server: Scripted, api: TelegramApi, sqlite_url: str, tmp_path: Path
) -> None:
    server.answers[f"POST {WHATSAPP}"] = 200, {"messages": [{"id": "wamid.1"}]}
    adapters = {"whatsapp": {"access_token": "a-token", "base_url": server.url}}
    async with standing(sqlite_url, api, tmp_path, adapters=adapters) as stand:
        transcript = await stand.open("s", ("whatsapp", channel_id))
        received = Received(
            origin="whatsapp", channel_id=channel_id, content="hello", payload=NUMBER | {"reply_to": "x"}
        )
        await stand.box.adapters.take(received)
        say(transcript, "hello to you")
        await stand.settle()
        (sent,) = await stand.box.outbound.list()
        assert (sent.status, sent.error_message) == ("sent", None)
    (asked,) = server.asked_for(WHATSAPP)
    text = {"preview_url": False, "body": "hello to you"}
    assert json.loads(asked.body) == {"messaging_product": "whatsapp", **wanted, "type": "text", "text": text}


async def test_a_reply_that_cannot_be_sent_is_a_failed_message_and_the_next_one_is_tried(
    server: Scripted, api: TelegramApi, sqlite_url: str, tmp_path: Path
) -> None:
    adapters = {"whatsapp": {"access_token": "a-token", "base_url": server.url}}
    async with standing(sqlite_url, api, tmp_path, adapters=adapters) as stand:
        transcript = await stand.open("s", ("whatsapp", "12"))
        for words in ("nobody has such a number", "nor now"):
            say(transcript, words)
            await stand.settle()
        failed = await stand.box.outbound.list(status="failed")
        assert [each.error_message for each in failed] == ["It cannot be sent: to: is not a number of any country."] * 2
        found = await stand.box.outbound.get(failed[0].message_id)
        assert (found.body_text, found.attempt_count) == ("nor now", 0)
        assert found.failed_at is not None


@pytest.mark.parametrize("origin", PLATFORMS)
async def test_a_reply_arrives(
    origin: str, server: Scripted, api: TelegramApi, sqlite_url: str, tmp_path: Path
) -> None:
    platform = PLATFORMS[origin]
    server.answers[f"POST {platform['path']}"] = 200, platform["answer"]
    adapters = {origin: {**platform["settings"], "base_url": server.url + platform["base"]}}
    async with standing(sqlite_url, api, tmp_path, adapters=adapters) as stand:
        transcript = await stand.open("s", (origin, platform["channel"]))
        received = Received(
            origin=origin,
            channel_id=platform["channel"],
            content="hello",
            source_message_id="m1",
            payload=platform.get("payload"),
        )
        await stand.box.adapters.take(received)
        say(transcript, "hello to you")
        await stand.settle()
        (sent,) = await stand.box.outbound.list()
        assert (sent.status, sent.error_message) == ("sent", None)
    (asked,) = server.asked_for(platform["path"])
    assert asked.headers["authorization"] == platform["authorization"]
    assert platform["text"](json.loads(asked.body)) == "hello to you"
