"""What an agent says goes to the topic, the thread or the number of the message that it was given, and stays there."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pillarbox.inbound.adapter import Received
from tests.conversations.stand import TOKEN, Stand, say, standing
from tests.servers.telegram_api import TelegramApi, failure, telegram_api


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


@pytest.fixture(params=["sqlite", "postgres"])
async def stand(request: pytest.FixtureRequest, api: TelegramApi, tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(request.getfixturevalue(f"{request.param}_url"), api, tmp_path) as stand:
        yield stand


def written(number: int, content: str, topic: int | None, channel_id: str = "42") -> Received:
    payload = None if topic is None else {"thread_id": topic}
    source = f"1:{channel_id}:{number}"
    return Received(
        origin="telegram", channel_id=channel_id, content=content, payload=payload, source_message_id=source
    )


def told(api: TelegramApi, chat_id: str = "42") -> list[tuple[str, int | None]]:
    """What a chat was told, and in which topic."""
    return [(each["text"], each.get("message_thread_id")) for each in api.sent if each["chat_id"] == chat_id]


async def test_words_that_had_to_wait_go_to_the_topic_of_their_question(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    api.refusals.append(failure(429, "Too Many Requests", retry_after=3600))
    for number, topic in enumerate((5, 6, None), 1):
        await stand.box.adapters.take(written(number, "a question", topic))
        await stand.settle()
        for words in ("an answer", "and more"):
            say(transcript, f"{words} to {number}")
            await stand.settle()
    (waiting,) = await stand.box.outbound.list(status="retrying")
    await stand.box.outbound.cancel(waiting.message_id)
    await stand.settle()
    assert told(api) == [
        ("an answer to 1", 5),
        ("and more to 1", 5),
        ("an answer to 2\n\nand more to 2", 6),
        ("an answer to 3\n\nand more to 3", None),
    ]


async def test_what_others_said_stands_where_the_chat_had_written(stand: Stand, api: TelegramApi) -> None:
    await stand.open("s", ("telegram", "42"), ("telegram", "43"))
    for number, channel_id, topic in ((1, "42", 5), (2, "43", None), (3, "43", None), (4, "42", 6), (5, "43", None)):
        if number == 2:
            api.refusals.append(failure(429, "Too Many Requests", retry_after=3600))
        await stand.box.adapters.take(written(number, f"words {number}", topic, channel_id))
        await stand.settle()
    (waiting,) = await stand.box.outbound.list(status="retrying")
    await stand.box.outbound.cancel(waiting.message_id)
    await stand.settle()
    said = [(f"[somebody via telegram] words {number}", topic) for number, topic in ((2, 5), (3, 5), (5, 6))]
    assert told(api) == said


async def test_a_command_is_answered_in_the_topic_in_which_it_was_asked(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    await stand.box.adapters.take(written(1, "a question", 5))
    await stand.settle()
    say(transcript, "the answer")
    stand.box.conversations.look_again()
    await stand.box.adapters.take(written(2, "/queue", 6))
    await stand.settle()
    assert sorted(told(api)) == [("Nothing waits for the agent.", 6), ("the answer", 5)]


async def test_a_message_that_was_tried_may_have_been_understood_and_is_answered_in_its_topic(
    stand: Stand, api: TelegramApi
) -> None:
    @stand.box.inbound.target("deaf")
    async def hears_and_fails(message: Any) -> None:
        if message.content == "the second":
            raise OSError

    transcript = await stand.open("s", ("telegram", "42"), target={"kind": "python", "name": "deaf"})
    for number, (content, topic) in enumerate((("the first", 5), ("the second", 6), ("the third", 7)), 1):
        await stand.box.adapters.take(written(number, content, topic))
        await stand.settle()
    say(transcript, "an answer to the second")
    await stand.settle()
    assert told(api) == [("an answer to the second", 6)]


async def test_a_chat_whose_first_message_still_waits_is_written_to_where_that_came_from(
    stand: Stand, api: TelegramApi
) -> None:
    transcript = await stand.open("s", ("telegram", "42"), ("telegram", "43"))
    await stand.box.adapters.take(written(1, "a question", None, "43"))
    await stand.settle()
    say(transcript, "an answer")
    await stand.settle()
    await stand.box.adapters.take(written(2, "a question too", 6))
    say(transcript, "and more")
    stand.box.conversations.look_again()
    await stand.box.conversations.step()
    await stand.box.outbound.drain.step()
    await stand.box.outbound.drain.step()
    assert told(api)[1:] == [("an answer", None), ("and more", 6)]


async def test_the_topic_is_known_however_much_others_have_written_since(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(sqlite_url, api, tmp_path) as stand:
        transcript = await stand.open("s", ("telegram", "42"))
        await stand.box.adapters.take(written(1, "a question", 5))
        for number in range(210):
            await stand.box.adapters.take(
                Received(origin="webhook:shop", channel_id="orders", content=f"order {number}", session_id="s")
            )
        await stand.settle()
        say(transcript, "the answer")
        await stand.settle()
    assert told(api) == [("the answer", 5)]


async def test_the_topic_is_known_when_the_message_is_long_gone(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(sqlite_url, api, tmp_path) as stand:
        transcript = await stand.open("s", ("telegram", "42"))
        await stand.box.adapters.take(written(1, "a question", 5))
        await stand.settle()
        say(transcript, "the answer")
        await stand.settle()
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)) as database:
        database.execute("DELETE FROM inbound_queue")
    async with standing(sqlite_url, api, tmp_path) as stand:
        say(transcript, "an afterthought")
        await stand.settle()
    assert told(api) == [("the answer", 5), ("an afterthought", 5)]
