"""What an agent is doing is shown in one message, at a pace, and never before what it says."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pillarbox.conversations.drafts import Desk
from pillarbox.conversations.leftovers import LEASE
from pillarbox.conversations.lines import queries
from pillarbox.conversations.previews import Previews
from pillarbox.hooks.model import HookEvent
from pillarbox.inbound.adapter import Received
from pillarbox.outbound.client import Client
from pillarbox.process import holder
from pillarbox.sessions import Channel, SessionChange
from pillarbox.storage import Row, Step
from tests.conversations.stand import TOKEN, Stand, say, standing
from tests.servers.scripted import scripted
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
async def client() -> AsyncIterator[Client]:
    client = Client()
    yield client
    await client.close()


def shows(stand: Stand, client: Client, api: TelegramApi, watch: Watch, holder: str) -> Previews:
    desks = {"telegram": Desk("telegram", api.url, TOKEN)}
    return Previews(stand.box.database, client, desks, every=3.0, holder=holder, monotonic=watch)


@pytest.fixture
def previews(stand: Stand, client: Client, api: TelegramApi, watch: Watch) -> Previews:
    previews = shows(stand, client, api, watch, "here/-/1")
    stand.box.hooks.on("user_prompt_submit", "tool_use", "agent_stop")(previews.note)
    return previews


async def standing_previews(stand: Stand) -> list[Row]:
    def work() -> Step[list[Row]]:
        return (yield queries.previews(limit=10))

    return await stand.box.database.read(work)


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


async def test_a_preview_is_shown_in_the_topic_that_was_written_in(
    stand: Stand, previews: Previews, api: TelegramApi
) -> None:
    await stand.open("s", ("telegram", "42"))
    received = Received(origin="telegram", channel_id="42", content="go", payload={"thread_id": 7})
    await stand.box.adapters.take(received)
    await stand.settle()
    await does(stand, "user_prompt_submit", prompt="go")
    await previews.step()
    shown = {"chat_id": "42", "text": "Working…", "disable_notification": True, "message_thread_id": 7}
    assert api.sent == [shown]


@pytest.mark.parametrize(
    ("refusal", "after", "wanted"),
    [
        (failure(400, "Bad Request: message can't be deleted"), 0, ["deleteMessage", "editMessageText"]),
        (failure(502, "Bad Gateway"), 5, ["deleteMessage", "deleteMessage"]),
        (failure(429, "Too Many Requests", retry_after=60), 60, ["deleteMessage", "deleteMessage"]),
        (failure(400, "Bad Request: message to delete not found"), 0, ["deleteMessage"]),
    ],
)
async def test_a_preview_that_cannot_be_removed_is_tried_again_or_says_that_it_is_over(
    stand: Stand, previews: Previews, api: TelegramApi, watch: Watch, refusal: Any, after: float, wanted: list[str]
) -> None:
    await stand.open("s", ("telegram", "42"))
    await does(stand, "user_prompt_submit", prompt="go")
    await previews.step()
    await does(stand, "agent_stop")
    watch.now += 3
    api.refusals.append(refusal)
    await previews.step()
    assert len(await standing_previews(stand)) == bool(after)
    watch.now += after
    await previews.step()
    assert [what for what, _ in api.changes] == wanted
    assert api.changes[-1][1].get("text", "Done.") == "Done."
    assert await standing_previews(stand) == []
    watch.now += 1000
    await previews.step()
    assert len(api.changes) == len(wanted), "and that was all"


@pytest.mark.parametrize("died", [True, False])
async def test_a_preview_that_a_dead_process_left_behind_is_taken_away_by_another(
    stand: Stand, client: Client, api: TelegramApi, watch: Watch, died: bool
) -> None:
    ours = holder("here")
    place, pid = ours.split("/")[1].rsplit(".", 2)[0], ours.split("/")[1].rsplit(".", 2)[1]
    dead, alive = f"here/{place}.{pid}.1/x", ours
    first = shows(stand, client, api, watch, dead if died else alive)
    stand.box.hooks.on("user_prompt_submit")(first.note)
    await stand.open("s", ("telegram", "42"))
    await does(stand, "user_prompt_submit", prompt="go")
    await first.step()
    assert api.said == ["Working…"]
    other = shows(stand, client, api, watch, "there/-/2")
    await other.step()
    removed = [("deleteMessage", {"chat_id": "42", "message_id": 1001})]
    assert api.changes == (removed if died else []), "what a living process shows is its own"
    assert len(await standing_previews(stand)) == (0 if died else 1)


async def test_a_preview_of_a_process_that_nobody_hears_of_any_more_is_taken_away(
    stand: Stand, previews: Previews, client: Client, api: TelegramApi, watch: Watch
) -> None:
    await stand.open("s", ("telegram", "42"))
    await does(stand, "user_prompt_submit", prompt="go")
    await previews.step()

    def work() -> Step[None]:
        yield queries.renew_previews(holder="here/-/1", lease_until=stand.box.database.clock.now() - LEASE)

    await stand.box.database.write(work)
    await shows(stand, client, api, watch, "there/-/2").step()
    assert [what for what, _ in api.changes] == ["deleteMessage"]
    assert await standing_previews(stand) == []


async def test_a_preview_goes_with_its_session(
    stand: Stand, previews: Previews, api: TelegramApi, watch: Watch
) -> None:
    await stand.open("s", ("telegram", "42"))
    await does(stand, "user_prompt_submit", prompt="go")
    await previews.step()
    await stand.box.sessions.close("s")
    watch.now += 3
    await previews.step()
    assert api.changes == [("deleteMessage", {"chat_id": "42", "message_id": 1001})]


async def test_a_preview_goes_from_a_chat_that_is_taken_out_of_the_session(
    stand: Stand, previews: Previews, api: TelegramApi, watch: Watch
) -> None:
    await stand.open("s", ("telegram", "42"), ("telegram", "43"))
    await does(stand, "user_prompt_submit", prompt="go")
    await previews.step()
    await stand.box.sessions.change("s", SessionChange(channels=(Channel("telegram", "43"),)))
    watch.now += 3
    await previews.step()
    assert api.changes == [("deleteMessage", {"chat_id": "42", "message_id": 1001})]


async def test_a_preview_goes_when_the_end_of_the_turn_was_told_to_another_process(
    stand: Stand, client: Client, api: TelegramApi, watch: Watch
) -> None:
    previews = shows(stand, client, api, watch, "here/-/1")
    stand.box.hooks.on("user_prompt_submit")(previews.note)
    await stand.open("s", ("telegram", "42"))
    await does(stand, "user_prompt_submit", prompt="go")
    await previews.step()
    await does(stand, "agent_stop")
    watch.now += 3
    await previews.step()
    assert [what for what, _ in api.changes] == ["deleteMessage"]


async def test_a_preview_that_somebody_deleted_is_shown_anew(
    stand: Stand, previews: Previews, api: TelegramApi, watch: Watch
) -> None:
    await stand.open("s", ("telegram", "42"))
    await does(stand, "user_prompt_submit", prompt="go")
    await previews.step()
    await does(stand, "tool_use", tool_name="Read")
    api.refusals.append(failure(400, "Bad Request: message to edit not found"))
    for _ in range(3):
        watch.now += 3
        await previews.step()
    assert api.said == ["Working…", "Working: 1 steps so far, the last ones Read."]


async def test_a_preview_that_is_over_waits_for_words_that_are_on_their_way(
    stand: Stand, previews: Previews, api: TelegramApi, watch: Watch
) -> None:
    transcript = await stand.open("s", ("telegram", "42"))
    await does(stand, "user_prompt_submit", prompt="go")
    await previews.step()
    say(transcript, "the answer")
    await stand.box.conversations.step()
    await does(stand, "agent_stop")
    watch.now += 3
    await previews.step()
    assert (api.said, api.changes) == (["Working…"], [])
    await stand.settle()
    await previews.step()
    assert (api.said, [what for what, _ in api.changes]) == (["Working…", "the answer"], ["deleteMessage"])


async def test_a_chat_that_went_to_another_session_is_shown_nothing(
    stand: Stand, previews: Previews, api: TelegramApi
) -> None:
    await stand.open("s", ("telegram", "42"), ("telegram", "43"))
    await stand.box.sessions.open(session_id="own", target={"kind": "none"}, channels=[Channel("telegram", "42")])
    await does(stand, "user_prompt_submit", prompt="go")
    await previews.step()
    assert [each["chat_id"] for each in api.sent] == ["43"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_turn_that_is_told_to_another_process_has_the_only_preview(
    kind: str, request: pytest.FixtureRequest, client: Client, api: TelegramApi, watch: Watch, tmp_path: Path
) -> None:
    async with standing(request.getfixturevalue(f"{kind}_url"), api, tmp_path) as stand:
        await stand.open("s", ("telegram", "42"))
        ours, others = (shows(stand, client, api, watch, name) for name in ("here/-/1", "there/-/2"))
        told = iter((ours, others))

        @stand.box.hooks.on("user_prompt_submit")
        async def tell_the_next(event: HookEvent) -> None:
            await next(told).note(event)

        for _ in range(2):
            await does(stand, "user_prompt_submit", prompt="go")
            for _ in range(3):
                for previews in (ours, others):
                    await previews.step()
                watch.now += 3
        assert (api.said, len(await standing_previews(stand))) == (["Working…", "Working…"], 1)
        assert api.changes == [("deleteMessage", {"chat_id": "42", "message_id": 1001})]


async def test_a_discord_preview_stands_in_the_thread_that_is_answered(
    client: Client, watch: Watch, sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    with scripted() as server:
        server.answers["POST /channels/101/messages"] = 200, {"id": "5"}
        server.answers["PATCH /channels/101/messages/5"] = 200, {"id": "5"}
        server.answers["DELETE /channels/101/messages/5"] = 204, b""
        desks = {"discord": Desk("discord", server.url, "token")}
        discord = {"bot_token": "MTA1234.a-token.x", "listen": False, "base_url": f"{server.url}/api/v10"}
        adapters = {"discord": discord, "typing": False}
        async with standing(sqlite_url, api, tmp_path, adapters=adapters) as stand:
            previews = Previews(stand.box.database, client, desks, every=3.0, holder="here/-/1", monotonic=watch)
            stand.box.hooks.on("user_prompt_submit", "tool_use")(previews.note)
            await stand.open("s", ("discord", "100"))
            received = Received(origin="discord", channel_id="100", content="go", payload={"thread_id": "101"})
            await stand.box.adapters.take(received)
            await stand.settle()
            for event in ("user_prompt_submit", "tool_use"):
                await does(stand, event, tool_name="Read")
                await previews.step()
                watch.now += 3
            expired = stand.box.database.clock.now() - LEASE

            def work() -> Step[None]:
                yield queries.renew_previews(holder="here/-/1", lease_until=expired)

            await stand.box.database.write(work)
            other = Previews(stand.box.database, client, desks, every=3.0, holder="there/-/2", monotonic=watch)
            await other.step()
        assert [(asked.method, asked.path) for asked in server.asked] == [
            ("POST", "/channels/101/messages"),
            ("PATCH", "/channels/101/messages/5"),
            ("DELETE", "/channels/101/messages/5"),
        ]
