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
