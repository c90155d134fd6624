"""What an agent says in one turn hangs together, and a person's next message breaks it off (S0-50)."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pillarbox.conversations.model import Chat
from pillarbox.conversations.telling import _answering, new_message
from pillarbox.errors import InvalidInput
from pillarbox.inbound.adapter import Received
from pillarbox.outbound.provider import HttpProvider
from pillarbox.outbound.providers.discord import Discord
from pillarbox.outbound.providers.slack import Slack
from pillarbox.outbound.providers.telegram import Telegram
from pillarbox.outbound.providers.whatsapp import WhatsApp
from tests.conversations.stand import TOKEN, Stand, say, standing
from tests.outbound.provider_contract import Stage, documented
from tests.servers.telegram_api import TelegramApi, failure, telegram_api


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


@pytest.fixture(params=["sqlite", "postgres"])
async def stand(request: pytest.FixtureRequest, api: TelegramApi, tmp_path: Path) -> AsyncIterator[Stand]:
    url = request.getfixturevalue(f"{request.param}_url")
    async with standing(url, api, tmp_path, conversations={"threaded": True}) as stand:
        yield stand


async def write(stand: Stand, text: str, number: int, channel_id: str = "42") -> None:
    source = f"1:{channel_id}:{number}"
    await stand.box.adapters.take(
        Received(origin="telegram", channel_id=channel_id, content=text, source_message_id=source, actor_name="Ada")
    )
    await stand.settle()


def told(api: TelegramApi, chat_id: str = "42") -> list[tuple[str, int | None]]:
    """What a chat was told, and which message each of it answers."""
    mine = [each for each in api.sent if each["chat_id"] == chat_id]
    return [(each["text"], each.get("reply_parameters", {}).get("message_id")) for each in mine]


async def test_the_words_of_a_turn_answer_its_first_message_and_a_delivery_breaks_that(
    stand: Stand, api: TelegramApi
) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    for turn in (1, 2):
        await write(stand, f"question {turn}", turn)
        for step in (1, 2, 3):
            say(transcript, f"answer {turn}.{step}")
            await stand.settle()
    assert told(api) == [
        ("answer 1.1", None),
        ("answer 1.2", 1001),
        ("answer 1.3", 1001),
        ("answer 2.1", None),
        ("answer 2.2", 1004),
        ("answer 2.3", 1004),
    ]


async def test_words_of_two_turns_are_never_in_one_message(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    api.refusals.append(failure(429, "Too Many Requests", retry_after=3600))
    for number, words in enumerate(("held back", "of the first turn", "of the second turn"), 1):
        if number != 2:
            await write(stand, f"question {number}", number)
        say(transcript, words)
        await stand.settle()
    (waiting,) = await stand.box.outbound.list(status="retrying")
    await stand.box.outbound.cancel(waiting.message_id)
    await stand.settle()
    assert told(api) == [("held back", None), ("of the first turn", None), ("of the second turn", None)]


async def test_a_first_message_that_never_arrived_is_not_answered(stand: Stand, api: TelegramApi) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    api.refusals.append(failure(400, "Bad Request: message is too strange"))
    for words in ("lost", "found", "after"):
        say(transcript, words)
        await stand.settle()
    assert told(api) == [("lost", None), ("found", None), ("after", 1001)]


ANSWERS: dict[str, tuple[HttpProvider, str, dict[str, Any]]] = {
    "telegram": (
        Telegram(),
        "1001",
        {"reply_parameters": {"message_id": 1001, "allow_sending_without_reply": True}},
    ),
    "discord": (
        Discord(),
        "1155999999999999999",
        {
            "message_reference": {"message_id": "1155999999999999999", "fail_if_not_exists": False},
            "allowed_mentions": {"parse": [], "replied_user": False},
        },
    ),
    "slack": (Slack(), "1503435957.000100", {"thread_ts": "1503435957.000100"}),
    "whatsapp": (WhatsApp(), "wamid.1", {"context": {"message_id": "wamid.1"}}),
}


@pytest.mark.parametrize("origin", ANSWERS)
def test_each_platform_is_told_what_a_message_answers_in_its_own_words(origin: str) -> None:
    provider, first, wanted = ANSWERS[origin]
    stage = Stage(provider, documented(origin))
    given = {name: value for name, value in (stage.message().data or {}).items() if name == "phone_number_id"}
    new = new_message(Chat("s", origin, "1", 1, 0, None), "x", {**_answering(origin, first), **given})
    body = json.loads(stage.request(data=new.data).body or b"")
    assert {name: body[name] for name in wanted} == wanted


@pytest.mark.parametrize("origin", ["telegram", "discord", "whatsapp"])
def test_what_is_no_message_cannot_be_answered(origin: str) -> None:
    stage = Stage(ANSWERS[origin][0], documented(origin))
    with pytest.raises(InvalidInput, match=r"data\.reply_to"):
        stage.request(data={**(stage.message().data or {}), "reply_to": ["x"]})
