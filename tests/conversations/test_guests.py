"""Whoever finds the bot can write to the default session, is answered, and hears nothing of the others."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pillarbox.conversations import guests
from pillarbox.inbound.adapter import Received
from pillarbox.sessions import Channel, SessionChange
from pillarbox.storage import Step
from tests.conversations.stand import TOKEN, Stand, say, standing
from tests.servers.telegram_api import TelegramApi, telegram_api

OWN, STRANGER, OTHER = "42", "666", "667"


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


def settings(api: TelegramApi, **more: Any) -> dict[str, Any]:
    telegram = {"bot_token": TOKEN, "base_url": api.url, "poll": False}
    return {"adapters": {"telegram": telegram, "default_session": "front-desk", **more}}


async def write(stand: Stand, channel_id: str, content: str) -> None:
    source = f"1:{channel_id}:{content}"
    received = Received(origin="telegram", channel_id=channel_id, content=content, source_message_id=source)
    await stand.box.adapters.take(received)
    await stand.settle()


async def begin(stand: Stand, prompt: str) -> None:
    """The agent's hook tells what it begins to work on."""
    await stand.box.hooks.post("front-desk", "user_prompt_submit", {"prompt": prompt})
    await stand.settle()


async def guests_of(stand: Stand) -> set[str]:
    def work() -> Step[set[str]]:
        return {row[1] for row in (yield guests.queries.chats(session_id="front-desk"))}

    return await stand.box.database.read(work)


def told(api: TelegramApi, chat_id: str) -> list[str]:
    return [each["text"] for each in api.sent if each["chat_id"] == chat_id]


@pytest.mark.parametrize("on_unknown", ["create", "ignore"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_stranger_is_answered_and_reads_nothing_of_what_others_say_and_are_told(
    kind: str, on_unknown: str, request: pytest.FixtureRequest, api: TelegramApi, tmp_path: Path
) -> None:
    url = request.getfixturevalue(f"{kind}_url")
    async with standing(url, api, tmp_path, **settings(api, on_unknown=on_unknown)) as stand:
        transcript = await stand.open("front-desk", ("telegram", OWN))
        await write(stand, STRANGER, "hi")
        say(transcript, "hello, stranger")
        await stand.settle()
        for chat, secret in ((OWN, "the password is hunter2"), (OTHER, "mine is hunter3")):
            await write(stand, chat, secret)
            say(transcript, f"noted, {secret}")
            await stand.settle()
        await write(stand, STRANGER, "and now?")
        say(transcript, "nothing for you")
        await stand.settle()
    assert told(api, STRANGER) == ["hello, stranger", "nothing for you"]
    assert told(api, OTHER) == ["noted, mine is hunter3"]
    assert "[somebody via telegram] mine is hunter3" in told(api, OWN), "the session's own chats hear everybody"


async def test_what_an_agent_says_to_an_earlier_message_is_told_to_who_wrote_it(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(sqlite_url, api, tmp_path, **settings(api)) as stand:
        transcript = await stand.open("front-desk")
        await write(stand, STRANGER, "the first question")
        await begin(stand, "the first question")
        await write(stand, OTHER, "the second question")
        say(transcript, "the answer to the first")
        await stand.settle()
        late = datetime.now(UTC)
        await begin(stand, "the second question")
        entry = {"role": "assistant", "content": [{"type": "text", "text": "its last words"}]}
        with transcript.open("a") as file:
            file.write(json.dumps({"type": "assistant", "timestamp": late.isoformat(), "message": entry}) + "\n")
        say(transcript, "the answer to the second")
        await stand.settle()
    assert "\n\n".join(told(api, STRANGER)) == "the answer to the first\n\nits last words"
    assert told(api, OTHER)[-1].endswith("the answer to the second")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_strangers_take_nobodys_place(
    kind: str, request: pytest.FixtureRequest, api: TelegramApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guests, "MOST_GUESTS", 2)
    async with standing(request.getfixturevalue(f"{kind}_url"), api, tmp_path, **settings(api)) as stand:
        transcript = await stand.open("front-desk")
        for chat in ("1", "2", "3", "1"):
            await write(stand, chat, f"from {chat}, number {len(stand.asked)}")
            say(transcript, f"to {chat}")
            await stand.settle()
        await stand.box.sessions.change("front-desk", SessionChange(target={"kind": "none"}))
        for chat in ("7", "8"):
            await write(stand, chat, "waits")
        assert await guests_of(stand) == {"1", "7"}, "who may still be answered keeps its place"
        assert len(await stand.box.inbound.list(status="pending")) == 2, "and everybody is heard"
    assert [(each["chat_id"], each["text"]) for each in api.sent] == [(c, f"to {c}") for c in ("1", "2", "3", "1")]


async def test_a_stranger_who_becomes_a_chat_of_the_session_hears_it_from_then_on(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(sqlite_url, api, tmp_path, **settings(api)) as stand:
        transcript = await stand.open("front-desk", ("telegram", OWN))
        await write(stand, STRANGER, "hi")
        say(transcript, "hello, stranger")
        await stand.settle()
        await write(stand, OWN, "a secret")
        say(transcript, "well kept")
        await stand.settle()
        channels = (Channel("telegram", OWN), Channel("telegram", STRANGER))
        await stand.box.sessions.change("front-desk", SessionChange(channels=channels))
        await write(stand, OWN, "welcome")
        say(transcript, "welcome indeed")
        await stand.settle()
    assert told(api, STRANGER) == ["hello, stranger", "[somebody via telegram] welcome", "welcome indeed"]


@pytest.mark.parametrize(
    ("tells", "expected"), [("nothing", []), ("everything", ["[somebody via telegram] a secret", "well kept"])]
)
async def test_what_strangers_are_told_can_be_set(
    sqlite_url: str, api: TelegramApi, tmp_path: Path, tells: str, expected: list[str]
) -> None:
    async with standing(sqlite_url, api, tmp_path, **settings(api)) as stand:
        transcript = await stand.open("front-desk", ("telegram", OWN))
        await write(stand, STRANGER, "hi")
    async with standing(sqlite_url, api, tmp_path, **settings(api, default_session_tells=tells)) as stand:
        await write(stand, STRANGER, "hi again")
        await write(stand, OWN, "a secret")
        say(transcript, "well kept")
        await stand.settle()
        assert stand.asked[-2:] == ["hi again", "a secret"]
    assert told(api, STRANGER) == expected
