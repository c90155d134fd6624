"""What is WhatsApp's own: the challenge, batches, media, and what is no message."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.adapters.platforms import APP_SECRET, VERIFY_TOKEN, WHATSAPP, Said, whatsapp_body, whatsapp_message
from tests.adapters.stand import Stand, standing

CHALLENGE = f"?hub.mode=subscribe&hub.verify_token={VERIFY_TOKEN}&hub.challenge=1158201444"


@pytest.fixture
async def stand(sqlite_url: str) -> AsyncIterator[Stand]:
    async with standing(sqlite_url, WHATSAPP) as opened:
        yield opened


async def test_the_challenge_comes_back_to_whoever_knows_the_token(stand: Stand) -> None:
    reply = await stand.client.get(WHATSAPP.path + CHALLENGE)
    assert (reply.status, reply.body) == (200, b"1158201444")
    assert reply.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    "query",
    [
        "",
        CHALLENGE.replace(VERIFY_TOKEN, "guess"),
        CHALLENGE.replace(VERIFY_TOKEN, ""),
        CHALLENGE.replace("subscribe", "unsubscribe"),
        "?hub.challenge=1158201444",
    ],
)
async def test_without_the_token_there_is_no_challenge(stand: Stand, query: str) -> None:
    reply = await stand.client.get(WHATSAPP.path + query)
    assert reply.status == 403
    assert b"1158201444" not in reply.body


async def test_without_a_token_configured_every_challenge_is_refused(sqlite_url: str) -> None:
    async with standing(sqlite_url, replace(WHATSAPP, section={"app_secret": APP_SECRET})) as stand:
        for query in (CHALLENGE, CHALLENGE.replace(VERIFY_TOKEN, "")):
            assert (await stand.client.get(WHATSAPP.path + query)).status == 403


async def test_a_batch_with_bad_messages_stores_the_good_ones_in_order(stand: Stand) -> None:
    bad: list[Any] = [
        {"type": "text", "text": {"body": "no sender"}, "id": "wamid.1"},
        {"from": "1", "type": "text", "text": {"body": "no id"}},
        whatsapp_message(Said(7), type="text", text="no object"),
        whatsapp_message(Said(8), type="hologram", hologram={}),
        {**whatsapp_message(Said(9)), "id": ["wamid"]},
    ]
    body = whatsapp_body(Said(1), bad[0], Said(2, text="a\0b"), *bad[1:], Said(3, chat="2"), Said(4, text="\ud800"))
    reply = await stand.post(body)
    assert reply.status == 200
    assert [row.source_message_id for row in await stand.rows()] == [
        WHATSAPP.source_id(said) for said in (Said(1), Said(2), Said(3, chat="2"), Said(4))
    ]


@pytest.mark.parametrize(
    ("content", "message_type", "text", "payload"),
    [
        (
            {
                "type": "audio",
                "audio": {"id": "m1", "mime_type": "audio/ogg; codecs=opus", "sha256": "s", "voice": True},
            },
            "voice",
            "",
            {"file_id": "m1", "kind": "audio", "mime": "audio/ogg; codecs=opus", "sha256": "s"},
        ),
        (
            {"type": "audio", "audio": {"id": "m2", "mime_type": "audio/mpeg", "voice": False}},
            "file",
            "",
            {"file_id": "m2", "kind": "audio", "mime": "audio/mpeg"},
        ),
        (
            {"type": "image", "image": {"id": "m3", "mime_type": "image/jpeg", "caption": "look"}},
            "file",
            "look",
            {"file_id": "m3", "kind": "image", "mime": "image/jpeg", "caption": "look"},
        ),
        (
            {"type": "document", "document": {"id": "m4", "mime_type": "application/pdf", "filename": "a.pdf"}},
            "file",
            "",
            {"file_id": "m4", "kind": "document", "mime": "application/pdf", "name": "a.pdf"},
        ),
        ({"type": "button", "button": {"text": "Yes", "payload": "y"}}, "text", "Yes", {"button": "y"}),
        (
            {"type": "interactive", "interactive": {"type": "list_reply", "list_reply": {"id": "1", "title": "Tea"}}},
            "text",
            "Tea",
            {"interactive": {"id": "1", "title": "Tea"}},
        ),
        (
            {"type": "location", "location": {"latitude": 52.5, "longitude": 13.4}},
            "text",
            "[location]",
            {"location": {"latitude": 52.5, "longitude": 13.4}},
        ),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) and "type" in value else "",
)
async def test_media_and_other_kinds_keep_what_is_needed_to_use_them(
    stand: Stand, content: dict[str, Any], message_type: str, text: str, payload: dict[str, Any]
) -> None:
    await stand.post(whatsapp_body(whatsapp_message(Said(), **content)))
    row = await stand.only_row()
    assert (row.message_type, row.content) == (message_type, text)
    assert json.loads(row.payload_json or "") == {**payload, "phone_number_id": "106540352242922"}


async def test_statuses_reactions_and_system_messages_are_taken_and_ignored(stand: Stand) -> None:
    status = {"id": "wamid.1", "status": "read", "timestamp": "1", "recipient_id": "1"}
    for body in (
        whatsapp_body(statuses=[status], messages=None),
        whatsapp_body(whatsapp_message(Said(), type="reaction", reaction={"message_id": "wamid.0", "emoji": "👍"})),
        whatsapp_body(whatsapp_message(Said(), type="system", system={"body": "changed"})),
        whatsapp_body(whatsapp_message(Said(), type="unsupported", errors=[{"code": 131051}])),
    ):
        assert (await stand.post(body)).status == 200
    assert await stand.rows() == []


async def test_a_group_is_a_chat_of_its_own(stand: Stand) -> None:
    await stand.post(whatsapp_body({**whatsapp_message(Said()), "group_id": "g1"}))
    row = await stand.only_row()
    assert (row.source_channel_id, row.actor_id) == ("g1", Said().chat)


@pytest.mark.parametrize(
    ("contacts", "names"),
    [
        ([{"wa_id": "1"}], ["Ann", None]),
        ([{"wa_id": "9"}], [None, None]),
        ([{}], [None, None]),
        ([{"user_id": "US.2"}], [None, "Ann"]),
    ],
)
async def test_nobody_is_given_the_name_of_another(
    stand: Stand, contacts: list[dict[str, Any]], names: list[str | None]
) -> None:
    named = [{"profile": {"name": "Ann"}, **contact} for contact in contacts]
    messages = [whatsapp_message(Said(1, chat="1")), {**whatsapp_message(Said(2, chat="2")), "from_user_id": "US.2"}]
    await stand.post(whatsapp_body(*messages, contacts=named))
    assert [row.actor_name for row in await stand.rows()] == names


async def test_a_contact_without_an_id_names_the_only_sender(stand: Stand) -> None:
    await stand.post(whatsapp_body(whatsapp_message(Said()), contacts=[{"profile": {"name": "Ann"}}]))
    assert (await stand.only_row()).actor_name == "Ann"
