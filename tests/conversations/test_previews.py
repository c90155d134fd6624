"""What an agent is doing is shown in one message, at a pace, and never before what it says."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pillarbox.conversations.drafts import Desk
from pillarbox.conversations.previews import Previews
from pillarbox.outbound.client import Client
from tests.conversations.stand import TOKEN, Stand, say, standing
from tests.servers.telegram_api import TelegramApi, failure, telegram_api


class Watch:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
async def stand(sqlite_url: str, api: TelegramApi, tmp_path: Path) -> AsyncIterator[Stand]:
    async with standing(sqlite_url, api, tmp_path) as stand:
        yield stand


@pytest.fixture
async def previews(stand: Stand, api: TelegramApi, watch: Watch) -> AsyncIterator[Previews]:
    client = Client()
    desks = {"telegram": Desk("telegram", api.url, TOKEN)}
    previews = Previews(stand.box.database, client, desks, every=3.0, monotonic=watch)
    stand.box.hooks.on("user_prompt_submit", "tool_use", "agent_stop")(previews.note)
    yield previews
    await client.close()


async def does(stand: Stand, event_type: str, **payload: Any) -> None:
    await stand.box.hooks.post("s", event_type, payload)
    await stand.box.hooks.drain.step()
    await stand.box.hooks.drain.step()


async def test_a_turn_is_shown_in_one_message_that_is_edited_and_taken_away(
    stand: Stand, previews: Previews, api: TelegramApi, watch: Watch
) -> None:
    await stand.open("s", ("telegram", "42"))
    await does(stand, "user_prompt_submit", prompt="go")
    await previews.step()
    assert api.said == ["Working…"]
    for tool in ("Read", "Edit"):
        await does(stand, "tool_use", tool_name=tool)
        await previews.step()
    assert api.changes == [], "not so soon"
    watch.now += 3
    await previews.step()
    await previews.step()
    told = {"chat_id": "42", "message_id": 1001, "text": "Working: 2 steps so far, the last ones Read, Edit."}
    assert api.changes == [("editMessageText", told)], "what happened meanwhile is one edit"
    await does(stand, "agent_stop")
    watch.now += 3
    await previews.step()
    assert api.changes[1:] == [("deleteMessage", {"chat_id": "42", "message_id": 1001})]


async def test_a_platforms_wish_to_be_left_alone_holds_the_chat(
    stand: Stand, previews: Previews, api: TelegramApi, watch: Watch
) -> None:
    await stand.open("s", ("telegram", "42"))
    await does(stand, "user_prompt_submit", prompt="go")
    api.refusals.append(failure(429, "Too Many Requests", retry_after=60))
    await previews.step()
    watch.now += 59
    await previews.step()
    assert len(api.sent) == 1
    watch.now += 1
    await previews.step()
    assert api.said == ["Working…"]


async def test_words_go_before_previews(stand: Stand, previews: Previews, api: TelegramApi, watch: Watch) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    await does(stand, "user_prompt_submit", prompt="go")
    say(transcript, "the answer")
    await stand.box.conversations.step()
    await previews.step()
    assert api.sent == [], "the words are on their way"
    await stand.settle()
    await previews.step()
    assert api.said == ["the answer", "Working…"]


async def test_a_new_message_of_a_person_breaks_off_what_was_shown(
    stand: Stand, previews: Previews, api: TelegramApi, watch: Watch
) -> None:
    await stand.open("s", ("telegram", "42"))
    for _ in range(2):
        await does(stand, "user_prompt_submit", prompt="go")
        for _ in range(2):
            await previews.step()
            watch.now += 3
    assert api.said == ["Working…", "Working…"]
    assert api.changes == [("deleteMessage", {"chat_id": "42", "message_id": 1001})]
