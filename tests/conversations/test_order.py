"""No reply is lost, doubled or passed by another, whatever happens at the same moment."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
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


def texts(api: TelegramApi, chat_id: str) -> list[str]:
    return [message["text"] for message in api.sent if message["chat_id"] == chat_id]


def message(content: str, number: int, channel_id: str = "42") -> Received:
    source = f"1:{channel_id}:{number}"
    return Received(
        origin="telegram", channel_id=channel_id, content=content, source_message_id=source, actor_name="Ada"
    )


async def test_an_answer_that_is_given_before_the_delivery_is_marked_stands_below_its_question(
    stand: Stand, api: TelegramApi
) -> None:
    @stand.box.inbound.target("quick")
    async def answers_at_once(message: Any) -> None:
        say(transcript, f"the answer to {message.content}")
        stand.box.conversations.look_again()
        await stand.box.conversations.step()

    target = {"kind": "python", "name": "quick"}
    transcript = await stand.open("s", ("telegram", "42"), ("telegram", "43"), target=target)
    for number in (1, 2):
        await stand.box.adapters.take(message(f"question {number}", number))
        await stand.settle()
    assert texts(api, "42") == ["the answer to question 1", "the answer to question 2"]
    assert texts(api, "43") == [
        "[Ada via telegram] question 1",
        "the answer to question 1",
        "[Ada via telegram] question 2",
        "the answer to question 2",
    ]


async def test_the_others_are_not_shown_what_still_waits(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"), ("telegram", "43"), target={"kind": "none"})
    await stand.box.adapters.take(message("it may yet be cancelled", 1))
    say(transcript, "about something else")
    await stand.settle()
    assert texts(api, "43") == ["about something else"]


async def test_many_unheard_messages_stand_above_the_answer(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"), ("telegram", "43"))
    for number in range(60):
        await stand.box.adapters.take(message(f"{number}", number))
        await stand.box.inbound.drain.step()
    await stand.box.inbound.drain.step()
    assert len(stand.asked) == 60
    say(transcript, "all at once")
    source = next(iter(await stand.box.conversations._sources()))
    while await stand.box.conversations._read_on(source):
        stand.box.conversations.look_again()
        source = next(iter(await stand.box.conversations._sources()))
    lines = [line.content for line in await stand.box.conversations.replies("s")]
    assert lines == [*(f"[Ada via telegram] {number}" for number in range(60)), "all at once"]


async def test_a_session_that_waits_costs_no_writes(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    await stand.open("s", ("telegram", "42"), ("telegram", "43"), target={"kind": "none"})
    await stand.box.adapters.take(message("waits", 1))
    await stand.settle()
    writes = 0
    database = stand.box.database
    write = database.write

    async def counted(work: Any) -> Any:
        nonlocal writes
        writes += 1
        return await write(work)

    monkeypatch.setattr(database, "write", counted)
    stand.box.conversations.look_again()
    assert await stand.box.conversations.step() == 0
    assert writes == 0


async def test_the_last_words_before_a_close_are_told_also_when_the_chat_has_a_new_session(
    stand: Stand, api: TelegramApi
) -> None:
    transcript = await stand.open("telegram:42", ("telegram", "42"))
    say(transcript, "first")
    await stand.settle()
    say(transcript, "written when it was closed")
    await stand.box.sessions.close("telegram:42")
    say(transcript, "and right after")
    await stand.box.adapters.take(message("hello again", 1))
    assert await stand.box.sessions.find_by_channel("telegram", "42") == "telegram:42#2"
    await stand.settle()
    assert texts(api, "42") == ["first", "written when it was closed\n\nand right after"]


async def test_a_closed_session_is_left_when_its_agent_has_had_its_time(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    conversations = stand.box.conversations
    conversations._policy = replace(conversations._policy, linger=timedelta(0))
    say(transcript, "the last words")
    await stand.box.sessions.close("s")
    await stand.settle()
    assert texts(api, "42") == ["the last words"]
    conversations.look_again()
    assert await conversations._sources() == [], "and is not looked at any more"


async def test_words_for_the_transcript_before_are_told_in_the_chat(
    stand: Stand, api: TelegramApi, tmp_path: Path
) -> None:
    first = await stand.open("s", ("telegram", "42"))
    say(first, "one")
    await stand.settle()
    second = tmp_path / "second.jsonl"
    say(second, "two")
    await stand.box.hooks.post("s", "session_start", {"transcript_path": str(second), "agent": "claude"})
    await stand.settle()
    say(first, "three, to the old one")
    await stand.settle()
    say(second, "four")
    say(first, "five, to the old one")
    await stand.settle()
    assert "\n\n".join(api.said).split("\n\n") == [
        "one",
        "two",
        "three, to the old one",
        "five, to the old one",
        "four",
    ]


async def test_a_reply_whose_fate_is_unknown_is_sent_again_and_its_attempts_say_so(
    stand: Stand, api: TelegramApi
) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    arrived = []

    def break_the_line(message: dict[str, Any]) -> None:
        api.before_sending = lambda message: None
        arrived.append(message["text"])
        raise ConnectionResetError

    api.before_sending = break_the_line
    say(transcript, "perhaps twice")
    await stand.settle()
    async with asyncio.timeout(30):
        while not (told := await stand.box.outbound.list(status="sent")):
            await stand.box.outbound.drain.step()
    (sent,) = told
    attempts = (await stand.box.outbound.get(sent.message_id)).attempts
    assert [each.outcome for each in attempts] == ["unknown", "accepted"]
    assert [*arrived, *texts(api, "42")] == ["perhaps twice"] * 2
    say(transcript, "and then this")
    await stand.settle()
    assert texts(api, "42")[1:] == ["and then this"]


async def test_a_reply_that_fails_for_good_is_kept_and_the_next_is_told(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    api.refusals.append(failure(403, "Forbidden: bot was blocked by the user"))
    for words in ("lost", "found"):
        say(transcript, words)
        await stand.settle()
    assert api.said == ["found"]
    (failed,) = await stand.box.outbound.list(status="failed")
    assert "blocked" in (failed.error_message or "")
