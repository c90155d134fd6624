"""What people can ask in a chat about their own queue."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from pillarbox.conversations.commands import command_in
from pillarbox.inbound.adapter import Received
from pillarbox.inbound.positions import Position, Positions
from tests.contracts.test_hook_confirmation import until_somebody_waits
from tests.conversations.stand import TOKEN, Stand, standing
from tests.servers.telegram_api import TelegramApi, telegram_api

NOWHERE = {"kind": "none"}


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


@pytest.fixture
async def stand(sqlite_url: str, api: TelegramApi, tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(sqlite_url, api, tmp_path) as stand:
        yield stand


async def write(stand: Stand, text: str, number: int, channel_id: str = "42", actor_id: str | None = None) -> None:
    received = Received(
        origin="telegram",
        channel_id=channel_id,
        content=text,
        source_message_id=f"1:{channel_id}:{number}",
        actor_id=actor_id,
    )
    await stand.box.adapters.take(received)
    await stand.settle()


@pytest.mark.parametrize("text", ["/queue", " /QUEUE ", "/queue@some_bot", "/Queue@Some_Bot", "/queue\n"])
def test_a_command_may_be_written_as_people_write_it(text: str) -> None:
    assert command_in(text, "Some_bot") == "queue"


@pytest.mark.parametrize(
    "text",
    [
        *("queue", "/queues", "/queue now please", "say /queue", "//queue", "/clear", ""),
        *("/cancel@home the heating appointment, please", "/cancel@", "/cancel @home", "/cancel@another_bot"),
    ],
)
def test_anything_else_is_for_the_agent(text: str) -> None:
    assert command_in(text, "some_bot") is None
    assert command_in(text) is None


async def test_a_command_that_names_a_bot_is_obeyed_if_that_is_ours(stand: Stand, api: TelegramApi) -> None:
    await stand.open("s", ("telegram", "42"))
    await write(stand, "/queue@another_bot", 1)
    await write(stand, "/queue@Desk_bot", 2)
    assert (api.said, stand.asked) == (["Nothing waits for the agent."], ["/queue@another_bot"])


async def test_a_command_of_a_chat_that_the_session_cannot_answer_is_obeyed_and_never_typed(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    telegram = {"bot_token": TOKEN, "base_url": api.url, "poll": False}
    adapters = {"telegram": telegram, "default_session": "front-desk", "default_session_tells": "nothing"}
    async with standing(sqlite_url, api, tmp_path, adapters=adapters) as stand:
        await stand.open("front-desk", ("telegram", "42"), target=NOWHERE)
        await write(stand, "mine", 1, "77")
        await write(stand, "/cancel", 2, "77")
        assert [(row.content, row.status) for row in await stand.box.inbound.list()] == [("mine", "expired")]
        assert api.said == []


async def test_a_command_that_opens_the_default_session_is_obeyed_there(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    telegram = {"bot_token": TOKEN, "base_url": api.url, "poll": False}
    adapters = {"telegram": telegram, "default_session": "front-desk"}
    async with standing(sqlite_url, api, tmp_path, adapters=adapters) as stand:
        await write(stand, "/queue", 1, "77")
        assert api.said == ["Nothing waits for the agent."]
        assert await stand.box.inbound.list() == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_platform_that_is_read_from_where_it_was_left_does_not_tell_a_command_again(
    kind: str, request: pytest.FixtureRequest, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(request.getfixturevalue(f"{kind}_url"), api, tmp_path) as stand:
        await stand.open("s", ("telegram", "42"), target=NOWHERE)
        received = Received(origin="telegram", channel_id="42", content="/cancel", source_message_id="1:42:1")
        assert await stand.box.adapters.take(received, position=Position("telegram", "42", 17)) == "ignored"
        assert await Positions(stand.box.database, "telegram").known() == {"42": 17}


async def test_the_queue_is_told_to_the_chat_that_asked(stand: Stand, api: TelegramApi) -> None:
    await stand.open("s", ("telegram", "42"), ("telegram", "43"), target=NOWHERE)
    await write(stand, "/queue", 1)
    await write(stand, "the first", 2)
    await write(stand, "a secret of mine", 3, "43")
    await write(stand, "/queue", 4)
    assert api.said == [
        "Nothing waits for the agent.",
        "Waiting for the agent:\n1. the first\n2. a message of telegram",
    ]
    assert {message["chat_id"] for message in api.sent} == {"42"}
    assert [row.content for row in await stand.box.inbound.list()] == ["the first", "a secret of mine"]


async def test_people_cancel_their_own_messages_and_nobody_elses(stand: Stand, api: TelegramApi) -> None:
    await stand.open("s", ("telegram", "42"), ("telegram", "43"), target=NOWHERE)
    await write(stand, "mine", 1)
    await write(stand, "yours", 2, "43")
    await write(stand, "mine too", 3)
    await write(stand, "/cancel", 4)
    assert api.said == ["2 messages were canceled."]
    states = {row.content: row.status for row in await stand.box.inbound.list()}
    assert states == {"mine": "expired", "yours": "pending", "mine too": "expired"}


async def test_in_a_group_people_cancel_their_own_messages_and_nobody_elses(stand: Stand, api: TelegramApi) -> None:
    await stand.open("s", ("telegram", "42"), target=NOWHERE)
    await write(stand, "ada's", 1, actor_id="ada")
    await write(stand, "bob's", 2, actor_id="bob")
    await write(stand, "nobody's", 3)
    await write(stand, "/cancel", 4, actor_id="bob")
    assert api.said == ["1 message was canceled."]
    states = {row.content: row.status for row in await stand.box.inbound.list()}
    assert states == {"ada's": "pending", "bob's": "expired", "nobody's": "pending"}


async def test_help_says_whose_messages_are_canceled(stand: Stand, api: TelegramApi) -> None:
    await stand.open("s", ("telegram", "42"), target=NOWHERE)
    await write(stand, "/help", 1)
    assert "/cancel gives up your own waiting messages;" in api.said[0]
    assert "/cancel gives up all that waits in this session;" in (await stand.box.commands.run("s", "/help") or "")


async def test_a_command_that_is_told_again_is_obeyed_once(stand: Stand, api: TelegramApi) -> None:
    await stand.open("s", ("telegram", "42"), target=NOWHERE)
    await write(stand, "/cancel", 1)
    await write(stand, "later", 2)
    await write(stand, "/cancel", 1)
    assert api.said == ["You have nothing waiting."]
    (row,) = await stand.box.inbound.list()
    assert row.status == "pending"


async def test_a_terminal_sees_and_cancels_all_of_its_session(stand: Stand) -> None:
    await stand.open("s", ("telegram", "42"), target=NOWHERE)
    await write(stand, "something", 1)
    assert await stand.box.commands.run("s", "/queue") == "Waiting for the agent:\n1. something"
    assert await stand.box.commands.run("s", "/cancel") == "1 message was canceled."
    assert await stand.box.commands.run("s", "hello") is None
    assert "/queue" in (await stand.box.commands.run("s", "/help") or "")


async def test_where_commands_are_off_they_are_for_the_agent(sqlite_url: str, api: TelegramApi, tmp_path: Path) -> None:
    async with standing(sqlite_url, api, tmp_path, conversations={"commands": False}) as stand:
        await stand.open("s", ("telegram", "42"))
        await write(stand, "/cancel", 1)
        assert stand.asked == ["/cancel"]


async def test_what_is_delivered_while_it_is_being_cancelled_is_not_counted(
    postgres_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with standing(postgres_url, api, tmp_path) as stand:
        await stand.open("s", ("telegram", "42"), target=NOWHERE)
        await write(stand, "just being delivered", 1)
        cancel = Received(origin="telegram", channel_id="42", content="/cancel", source_message_id="1:42:2")
        async with await psycopg.AsyncConnection.connect(postgres_url) as worker:
            await worker.execute("SELECT 1 FROM inbound_strand WHERE session_id = 's' FOR UPDATE")
            cancelling = asyncio.create_task(stand.box.adapters.take(cancel))
            await until_somebody_waits(worker)
            await worker.execute("UPDATE inbound_queue SET status = 'delivered' WHERE session_id = 's'")
            end = "UPDATE inbound_strand SET head_seq = NULL, due_at = NULL, open_count = 0 WHERE session_id = 's'"
            await worker.execute(end)
        assert await cancelling == "ignored"
        await stand.settle()
        assert api.said == ["You have nothing waiting."]
