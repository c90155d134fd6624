"""What is Telegram's own: media, groups, and what is no message of a person."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.adapters.platforms import SECRET_TOKEN, TELEGRAM, Said, telegram_body, telegram_update
from tests.adapters.stand import Stand, standing

VOICE = {"file_id": "v1", "file_unique_id": "u", "duration": 79, "mime_type": "audio/ogg", "file_size": 4096}
GROUP = {"id": -100123, "title": "The team", "type": "supergroup"}


@pytest.fixture
async def stand(sqlite_url: str) -> AsyncIterator[Stand]:
    async with standing(sqlite_url, TELEGRAM) as opened:
        yield opened


@pytest.mark.parametrize(
    ("content", "message_type", "text", "payload"),
    [
        (
            {"voice": VOICE},
            "voice",
            "",
            {"file_id": "v1", "kind": "voice", "mime": "audio/ogg", "size": 4096, "seconds": 79},
        ),
        (
            {
                "photo": [
                    {"file_id": "small", "width": 90, "height": 60, "file_size": 900},
                    {"file_id": "large", "width": 1280, "height": 853, "file_size": 90_000},
                ],
                "caption": "look",
            },
            "file",
            "look",
            {"file_id": "large", "kind": "photo", "size": 90_000, "caption": "look"},
        ),
        (
            {"document": {"file_id": "d1", "file_name": "a.pdf", "mime_type": "application/pdf", "file_size": 7}},
            "file",
            "",
            {"file_id": "d1", "kind": "document", "mime": "application/pdf", "size": 7, "name": "a.pdf"},
        ),
        (
            {"animation": {"file_id": "g1"}, "document": {"file_id": "g1"}},
            "file",
            "",
            {"file_id": "g1", "kind": "animation"},
        ),
        (
            {"video_note": {"file_id": "n1", "duration": 3}},
            "file",
            "",
            {"file_id": "n1", "kind": "video_note", "seconds": 3},
        ),
        (
            {"location": {"latitude": 52.5, "longitude": 13.4}},
            "text",
            "[location]",
            {"location": {"latitude": 52.5, "longitude": 13.4}},
        ),
        (
            {"text": "/start now", "message_thread_id": 5, "is_topic_message": True},
            "text",
            "/start now",
            {"thread_id": 5},
        ),
        # A reply in a group without topics.
        ({"text": "yes", "message_thread_id": 5}, "text", "yes", {}),
    ],
    ids=lambda value: next(iter(value), "") if isinstance(value, dict) else "",
)
async def test_media_and_other_kinds_keep_what_is_needed_to_use_them(
    stand: Stand, content: dict[str, Any], message_type: str, text: str, payload: dict[str, Any]
) -> None:
    await stand.post(telegram_body(Said(), **content))
    row = await stand.only_row()
    assert (row.message_type, row.content) == (message_type, text)
    assert json.loads(row.payload_json or "{}") == payload


async def test_edits_posts_service_messages_and_bots_are_taken_and_ignored(stand: Stand) -> None:
    message = telegram_update(Said())["message"]
    robot = {"id": 5, "is_bot": True, "first_name": "Robot"}
    for update in (
        {"update_id": 1, "edited_message": message},
        {"update_id": 2, "channel_post": message},
        {"update_id": 3, "message_reaction": {"chat": GROUP, "message_id": 1}},
        {"update_id": 4, "callback_query": {"id": "1", "message": message}},
        telegram_update(Said(5), new_chat_members=[robot]),
        telegram_update(Said(6), pinned_message=message),
        telegram_update(Said(7), text="beep", **{"from": robot}),
    ):
        assert (await stand.post(json.dumps(update).encode())).status == 200
    assert await stand.rows() == []


async def test_a_group_is_one_chat_whoever_speaks(stand: Stand) -> None:
    ann = {"id": 1, "is_bot": False, "first_name": "Ann", "last_name": "Lee"}
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    await stand.post(telegram_body(Said(1), text="hi", chat=GROUP, **{"from": ann}))
    await stand.post(telegram_body(Said(2), text="ho", chat=GROUP, sender_chat=GROUP, **{"from": anonymous}))
    rows = await stand.rows()
    assert [(row.source_channel_id, row.actor_id, row.actor_name) for row in rows] == [
        ("-100123", "1", "Ann Lee"),
        ("-100123", "-100123", "The team"),
    ]
    session = await stand.box.sessions.get(rows[0].session_id)
    assert (session.session_id, session.title) == ("telegram:-100123", "The team")


async def test_a_webhook_works_without_the_bot_s_token(sqlite_url: str) -> None:
    async with standing(sqlite_url, replace(TELEGRAM, section={"secret_token": SECRET_TOKEN})) as stand:
        await stand.say(Said())
        assert (await stand.only_row()).source_message_id == f"bot:{Said().chat}:1"
