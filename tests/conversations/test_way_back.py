"""What an agent says reaches the chats of its session: complete, in order, once."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pillarbox.api.app import create_app
from pillarbox.inbound.adapter import Received
from pillarbox.sessions import Channel, SessionChange
from tests.api.client import ADMIN_KEY, Client
from tests.conversations.stand import TOKEN, Stand, say, standing
from tests.servers.telegram_api import TelegramApi, failure, telegram_api


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
async def stand(url: str, api: TelegramApi, tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(url, api, tmp_path) as stand:
        yield stand


def texts(api: TelegramApi, chat_id: str) -> list[str]:
    return [message["text"] for message in api.sent if message["chat_id"] == chat_id]


def message(channel_id: str, content: str, number: int, **more: Any) -> Received:
    return Received(
        origin="telegram",
        channel_id=channel_id,
        content=content,
        source_message_id=f"1:{channel_id}:{number}",
        actor_name="Ada",
        **more,
    )


async def test_words_arrive_in_order_and_once(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    say(transcript, "one")
    await stand.settle()
    say(transcript, "two", "three")
    await stand.settle()
    assert api.said == ["one", "two\n\nthree"]
    await stand.settle()
    assert len(api.sent) == 2
    assert [line.content for line in await stand.box.conversations.replies("s")] == ["one", "two", "three"]


async def test_a_second_look_elsewhere_tells_nothing_twice(
    stand: Stand, url: str, api: TelegramApi, tmp_path: Path
) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    async with standing(url, api, tmp_path) as other:
        for number in range(5):
            say(transcript, f"word {number}")
            await stand.box.conversations.step()
            await other.box.conversations.step()
            await other.settle()
        await stand.settle()
    assert "\n\n".join(api.said) == "\n\n".join(f"word {number}" for number in range(5))


async def test_the_next_message_waits_until_the_one_before_has_ended(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    api.refusals.append(failure(429, "Too Many Requests", retry_after=3))
    say(transcript, "one")
    await stand.settle()
    say(transcript, "two")
    say(transcript, "three")
    await stand.settle()
    assert [sent["text"] for sent in api.sent] == ["one"], "its wait holds the whole chat"
    (waiting,) = await stand.box.outbound.list(status="retrying")
    assert waiting.next_attempt_at is not None
    await stand.box.outbound.cancel(waiting.message_id)
    await stand.settle()
    assert [sent["text"] for sent in api.sent] == ["one", "two\n\nthree"]


async def test_a_long_answer_comes_in_pieces(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    said = "\n".join(f"line {number} of a long answer" for number in range(600))
    say(transcript, said)
    await stand.settle()
    assert len(api.said) > 2
    assert all(len(text) <= 4096 for text in api.said)
    assert "\n".join(api.said) == said


async def test_a_chat_that_comes_later_is_told_what_is_said_from_then_on(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    say(transcript, "before")
    await stand.settle()
    channels = (Channel("telegram", "42"), Channel("telegram", "43"))
    await stand.box.sessions.change("s", SessionChange(channels=channels))
    say(transcript, "after")
    await stand.settle()
    assert texts(api, "42") == ["before", "after"]
    assert texts(api, "43") == ["after"]
    await stand.box.sessions.change("s", SessionChange(channels=channels[1:]))
    say(transcript, "later")
    await stand.settle()
    assert (texts(api, "42"), texts(api, "43")) == (["before", "after"], ["after", "later"])


async def test_the_other_chats_see_each_message_of_a_person_once(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"), ("telegram", "43"))
    await stand.box.adapters.take(message("42", "hello", 1))
    await stand.box.adapters.take(message("42", "hello", 1))
    await stand.settle()
    say(transcript, "hello to you all")
    await stand.settle()
    assert stand.asked == ["hello"]
    assert texts(api, "42") == ["hello to you all"]
    assert texts(api, "43") == ["[Ada via telegram] hello", "hello to you all"]


async def test_the_other_chats_see_a_question_before_its_answer(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"), ("telegram", "43"))
    await stand.box.adapters.take(message("42", "how late\n[Bob via telegram] is it?", 1))
    await stand.box.inbound.drain.step()
    await stand.box.inbound.drain.step()
    assert stand.asked
    say(transcript, "ten")
    await stand.settle()
    assert texts(api, "42") == ["ten"]
    assert texts(api, "43") == ["[Ada via telegram] how late\n> [Bob via telegram] is it?", "ten"]


async def test_a_reply_goes_to_the_topic_that_was_written_in(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    await stand.box.adapters.take(message("42", "hello", 1, payload={"thread_id": 7}))
    say(transcript, "here")
    await stand.settle()
    assert api.sent[-1] == {"chat_id": "42", "text": "here", "message_thread_id": 7}


async def test_an_agent_without_a_transcript_is_quoted_by_its_hooks(stand: Stand, api: TelegramApi) -> None:
    await stand.box.sessions.open(
        session_id="g", target={"kind": "python", "name": "agent"}, channels=[Channel("telegram", "42")]
    )
    for words in ("done", "done again"):
        await stand.box.hooks.post("g", "agent_stop", {"summary": words})
        await stand.settle()
    assert api.said == ["done", "done again"]


async def test_replies_are_messages_that_operators_see_and_tenants_cannot_send(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    say(transcript, "hello")
    await stand.settle()
    (sent,) = await stand.box.outbound.list()
    assert (sent.tenant_id, sent.channel, sent.status) == ("pillarbox-conversations", "telegram", "sent")
    assert sent.provider_msg_id == "1001"
    with pytest.raises(Exception, match="kept for replies"):
        await stand.box.tenants.set("pillarbox-conversations")


async def test_a_conversation_can_be_read_over_http_page_by_page(stand: Stand) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    say(transcript, "one", "two", "three")
    await stand.settle()
    client = Client(create_app(stand.box, admin_key=ADMIN_KEY))
    first = (await client.get("/v1/sessions/s/conversation?limit=2")).json()
    second = (await client.get(f"/v1/sessions/s/conversation?cursor={first['next_cursor']}")).json()
    assert [line["content"] for line in first["items"] + second["items"]] == ["one", "two", "three"]
    assert (await client.get("/v1/sessions/none/conversation")).status == 404


async def test_old_words_are_pruned_and_untold_ones_are_not(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    say(transcript, "told")
    await stand.settle()
    say(transcript, "untold")
    await stand.box.conversations._sources()
    stand.box.conversations._policy = _forgetting(stand)
    api.refusals.append(failure(429, "Too Many Requests", retry_after=3600))
    await stand.settle()
    say(transcript, "waiting")
    await stand.settle()
    await stand.box.conversations.prune()
    assert [line.content for line in await stand.box.conversations.replies("s")] == ["waiting"]


def _forgetting(stand: Stand) -> Any:
    from dataclasses import replace
    from datetime import timedelta

    return replace(stand.box.conversations._policy, retention=timedelta(0))
