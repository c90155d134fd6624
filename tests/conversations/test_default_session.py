"""Chats that come to the default session are answered, and hear what the operator lets them hear."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pillarbox.conversations.lines import queries
from pillarbox.inbound.adapter import Received
from pillarbox.sessions import Channel
from pillarbox.storage import Step
from tests.conversations.stand import TOKEN, Stand, say, standing
from tests.servers.telegram_api import TelegramApi, telegram_api

FRONT_DESK = {"default_session": "front-desk"}
EVERYTHING = {"default_session_tells": "everything"}


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


def settings(api: TelegramApi, **more: Any) -> dict[str, Any]:
    return {"adapters": {"telegram": {"bot_token": TOKEN, "base_url": api.url, "poll": False}, **FRONT_DESK, **more}}


def message(channel_id: str, content: str, number: int) -> Received:
    source = f"1:{channel_id}:{number}"
    return Received(
        origin="telegram", channel_id=channel_id, content=content, source_message_id=source, actor_name="Ada"
    )


async def chats_of(stand: Stand, session_id: str) -> list[tuple[str, str]]:
    def work() -> Step[list[tuple[str, str]]]:
        return [(row[0], row[1]) for row in (yield queries.chats(session_id=session_id))]

    return await stand.box.database.read(work)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_chat_of_the_default_session_is_answered_and_obeyed(
    kind: str, request: pytest.FixtureRequest, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(request.getfixturevalue(f"{kind}_url"), api, tmp_path, **settings(api)) as stand:
        transcript = await stand.open("front-desk", ("telegram", "42"))
        assert await stand.box.adapters.take(message("77", "hello", 1))
        await stand.settle()
        say(transcript, "hello to you")
        await stand.settle()
        assert await stand.box.adapters.take(message("77", "/queue", 2)) == "ignored"
        await stand.settle()
        told = [(each["chat_id"], each["text"]) for each in api.sent]
        assert [text for chat, text in told if chat == "77"] == ["hello to you", "Nothing waits for the agent."]
        assert [text for chat, text in told if chat == "42"] == ["[Ada via telegram] hello", "hello to you"]
        assert stand.asked == ["hello"]


async def test_a_default_session_that_is_opened_by_the_first_message_answers_it(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    target = {"kind": "python", "name": "agent"}
    async with standing(sqlite_url, api, tmp_path, **settings(api, default_target=target)) as stand:
        await stand.box.adapters.take(message("77", "hello", 1))
        await stand.settle()
        await stand.box.hooks.post("front-desk", "agent_stop", {"summary": "hello to you"})
        await stand.settle()
        assert [(each["chat_id"], each["text"]) for each in api.sent] == [("77", "hello to you")]


async def test_what_cannot_be_answered_takes_no_chats_place_and_no_chat_is_refused(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(sqlite_url, api, tmp_path, **settings(api, **EVERYTHING)) as stand:
        await stand.open("front-desk", *(("telegram", str(number)) for number in range(99)))
        await stand.box.adapters.take(Received(origin="webhook:shop", channel_id="order-1", content="an order"))
        for number in (100, 101):
            await stand.box.adapters.take(message(str(number), "hello", 1))
        await stand.settle()
        chats = await chats_of(stand, "front-desk")
        assert (len(chats), ("telegram", "100") in chats) == (100, True)
        assert stand.asked == ["an order", "hello", "hello"], "one chat too many is heard, though not answered"


async def test_a_chat_that_gets_a_session_of_its_own_hears_the_default_one_no_more(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(sqlite_url, api, tmp_path, **settings(api, **EVERYTHING)) as stand:
        transcript = await stand.open("front-desk")
        for number in (77, 78):
            await stand.box.adapters.take(message(str(number), "hello", 1))
        await stand.box.sessions.open(session_id="own", target={"kind": "none"}, channels=[Channel("telegram", "77")])
        say(transcript, "to whom it may concern")
        await stand.settle()
        assert {each["chat_id"] for each in api.sent} == {"78"}


@pytest.mark.parametrize(
    ("tells", "heard"),
    [
        ("answers", ["hello, stranger"]),
        ("everything", ["hello, stranger", "[Ada via telegram] the password is hunter2", "understood, hunter2"]),
        ("nothing", []),
    ],
)
async def test_a_stranger_hears_as_much_as_the_operator_wants(
    tells: str, heard: list[str], sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(sqlite_url, api, tmp_path, **settings(api, default_session_tells=tells)) as stand:
        transcript = await stand.open("front-desk", ("telegram", "42"))
        talk = (("666", "hello", "hello, stranger"), ("42", "the password is hunter2", "understood, hunter2"))
        for number, (channel_id, question, answer) in enumerate(talk):
            await stand.box.adapters.take(message(channel_id, question, number))
            await stand.settle()
            say(transcript, answer)
            await stand.settle()
        assert stand.asked == ["hello", "the password is hunter2"]
    assert [each["text"] for each in api.sent if each["chat_id"] == "666"] == heard


async def test_when_another_session_is_the_default_one_each_answers_what_it_was_asked(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(sqlite_url, api, tmp_path, **settings(api)) as stand:
        old = await stand.open("front-desk")
        await stand.box.adapters.take(message("77", "hello", 1))
        await stand.settle()
    async with standing(sqlite_url, api, tmp_path, **settings(api, default_session="back-office")) as stand:
        new = await stand.open("back-office")
        await stand.box.adapters.take(message("77", "hello again", 2))
        await stand.settle()
        for transcript, words in ((old, "in the old one"), (new, "in the new one")):
            say(transcript, words)
            await stand.settle()
        assert stand.asked == ["hello again"]
    assert [each["text"] for each in api.sent] == ["in the old one", "in the new one"]
