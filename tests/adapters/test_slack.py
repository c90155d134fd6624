"""What is Slack's own: the challenge, mentions, files, and what is no message of a person."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.adapters.platforms import SIGNING_SECRET, SLACK, Said, mac, slack_body
from tests.adapters.stand import Stand, standing

FILE = {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 9, "url_private": "https://files.slack.com/a.png"}


@pytest.fixture
async def stand(sqlite_url: str) -> AsyncIterator[Stand]:
    async with standing(sqlite_url, SLACK) as opened:
        yield opened


async def test_the_signature_is_the_one_that_slack_documents() -> None:
    """The example of Slack's own page on verifying requests."""
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    signature = mac(b"8f742231b10e8888abcd99yyyzzz85a5", b"v0:1531420618:" + body).hex()
    assert signature == "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"


async def test_the_challenge_comes_back_when_it_is_signed(stand: Stand) -> None:
    body = json.dumps({"type": "url_verification", "token": "t", "challenge": "3eZbrw1aBm2rZgRNFdxV2595"}).encode()
    assert (await stand.post(body)).body == b"3eZbrw1aBm2rZgRNFdxV2595"
    assert (await stand.post(body, [])).status == 403


async def test_edits_deletions_joins_reactions_and_bots_are_taken_and_ignored(stand: Stand) -> None:
    contents: list[dict[str, Any]] = [
        {"subtype": "message_changed", "message": {"text": "x"}},
        {"subtype": "message_deleted"},
        {"subtype": "channel_join"},
        {"subtype": "bot_message"},
        {"bot_id": "B1"},
        {"type": "reaction_added"},
        {"type": "app_mention"},
        {"text": ""},
    ]
    for number, content in enumerate(contents):
        assert (await stand.post(slack_body(Said(number), **content))).status == 200
    assert (await stand.post(b'{"type":"app_rate_limited"}')).status == 200
    assert await stand.rows() == []


async def test_text_is_as_it_was_typed(stand: Stand) -> None:
    await stand.post(slack_body(Said(), text="if a &lt; b &amp;&amp; c &gt; d: &amp;lt;", thread_ts="1.2"))
    row = await stand.only_row()
    assert row.content == "if a < b && c > d: &lt;"
    assert json.loads(row.payload_json or "") == {"team": "T1", "ts": "1355517523.000005", "thread_ts": "1.2"}


@pytest.mark.parametrize(("subtype", "message_type"), [("slack_audio", "voice"), ("", "file")])
async def test_files_keep_what_is_needed_to_fetch_them(stand: Stand, subtype: str, message_type: str) -> None:
    files = [{**FILE, "subtype": subtype}, {**FILE, "id": "F2"}]
    await stand.post(slack_body(Said(), subtype="file_share", text="look", files=files))
    row = await stand.only_row()
    payload: dict[str, Any] = json.loads(row.payload_json or "")
    assert (row.message_type, row.content) == (message_type, "look")
    assert (payload["file_id"], payload["mime"], payload["size"], payload["caption"]) == ("F1", "image/png", 9, "look")
    assert [file["file_id"] for file in payload["more_files"]] == ["F2"]


async def test_an_app_may_listen_to_mentions_and_direct_messages_alone(sqlite_url: str) -> None:
    section = {"signing_secret": SIGNING_SECRET, "listen_to": "mentions"}
    async with standing(sqlite_url, replace(SLACK, section=section)) as stand:
        await stand.post(slack_body(Said(1), text="to nobody"))
        await stand.post(slack_body(Said(2), type="app_mention", text="<@B1> to you"))
        await stand.post(slack_body(Said(3, chat="D1"), channel_type="im", text="alone"))
        assert [row.content for row in await stand.rows()] == ["<@B1> to you", "alone"]
