"""Whose chat a chat is, is decided by what is stored, whatever the settings of the process that looks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pillarbox.inbound import NewMessage
from pillarbox.inbound.adapter import Received
from pillarbox.sessions import Channel
from tests.conversations.stand import TOKEN, say, standing
from tests.servers.telegram_api import TelegramApi, telegram_api


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


def with_default(api: TelegramApi, session_id: str) -> dict[str, Any]:
    telegram = {"bot_token": TOKEN, "base_url": api.url, "poll": False}
    given = {"telegram": telegram, "default_session": session_id, "default_session_tells": "everything"}
    return {"adapters": given}


def message(channel_id: str, content: str, number: int) -> Received:
    source = f"1:{channel_id}:{number}"
    return Received(
        origin="telegram", channel_id=channel_id, content=content, source_message_id=source, actor_name="Ada"
    )


def told(api: TelegramApi, chat_id: str) -> list[str]:
    return [each["text"] for each in api.sent if each["chat_id"] == chat_id]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_process_with_another_default_session_takes_no_chat_away(
    kind: str, request: pytest.FixtureRequest, api: TelegramApi, tmp_path: Path
) -> None:
    url = request.getfixturevalue(f"{kind}_url")
    async with (
        standing(url, api, tmp_path, **with_default(api, "front-desk")) as ours,
        standing(url, api, tmp_path, **with_default(api, "back-office")) as others,
    ):
        transcript = await ours.open("front-desk")
        await ours.box.adapters.take(message("77", "hello", 1))
        await ours.settle()
        for words in ("an answer", "and more"):
            say(transcript, words)
            await others.settle()
            await ours.settle()
    assert told(api, "77") == ["an answer", "and more"]


async def test_a_session_that_is_closed_by_a_process_without_the_setting_has_its_last_words(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(sqlite_url, api, tmp_path, **with_default(api, "front-desk")) as stand:
        transcript = await stand.open("front-desk")
        await stand.box.adapters.take(message("77", "hello", 1))
        await stand.settle()
        say(transcript, "last words")
        async with standing(sqlite_url, api, tmp_path) as other:
            await other.box.sessions.close("front-desk")
        await stand.settle()
    assert told(api, "77") == ["last words"]


async def test_a_chat_that_went_elsewhere_before_the_close_is_not_told_the_last_words(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(sqlite_url, api, tmp_path) as stand:
        transcript = await stand.open("s", ("telegram", "42"), ("telegram", "43"))
        await stand.box.sessions.open(session_id="own", target={"kind": "none"}, channels=[Channel("telegram", "42")])
        say(transcript, "last words")
        await stand.box.sessions.close("s")
        await stand.settle()
    assert (told(api, "42"), told(api, "43")) == ([], ["last words"])


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_chat_that_listens_to_another_default_session_now_still_gets_its_answer_from_the_last_one(
    kind: str, request: pytest.FixtureRequest, api: TelegramApi, tmp_path: Path
) -> None:
    url = request.getfixturevalue(f"{kind}_url")
    async with standing(url, api, tmp_path, **with_default(api, "front-desk")) as stand:
        old = await stand.open("front-desk")
        await stand.box.adapters.take(message("77", "hello", 1))
        await stand.settle()
    async with standing(url, api, tmp_path, **with_default(api, "back-office")) as stand:
        new = await stand.open("back-office")
        await stand.box.adapters.take(message("77", "hello again", 2))
        await stand.settle()
        say(old, "the answer to hello")
        await stand.settle()
        say(new, "the answer to hello again")
        await stand.settle()
        await stand.box.inbound.put(NewMessage(session_id="front-desk", origin="api", content="somebody else asks"))
        await stand.settle()
        say(old, "the answer to somebody else")
        await stand.settle()
    assert told(api, "77") == ["the answer to hello", "the answer to hello again"]


async def test_a_chat_that_returns_to_the_default_session_of_before_listens_there_again(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with (
        standing(sqlite_url, api, tmp_path, **with_default(api, "front-desk")) as front,
        standing(sqlite_url, api, tmp_path, **with_default(api, "back-office")) as back,
    ):
        transcript, other = await front.open("front-desk"), await back.open("back-office")
        for number, stand in enumerate((front, back, front)):
            await stand.box.adapters.take(message("77", f"hello {number}", number))
            await stand.settle()
        for session_id in ("front-desk", "back-office"):
            await front.box.inbound.put(NewMessage(session_id=session_id, origin="api", content="somebody else asks"))
            await front.settle()
        say(other, "in the back office")
        say(transcript, "at the front desk")
        await front.settle()
    assert told(api, "77") == ["at the front desk"]
