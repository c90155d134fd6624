"""Programs of any kind: the mapping, and the ways to prove who posts."""

import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from pillarbox.errors import SettingsError
from pillarbox.settings import load_settings
from tests.adapters.platforms import HMAC, STANDARD, TOKEN, WHSEC
from tests.adapters.stand import Stand, standing
from tests.adapters.test_contract import PARKED


@asynccontextmanager
async def mapped(url: str, **section: Any) -> AsyncIterator[Stand]:
    given = {"secret": TOKEN.secret, "proof": "token", **section}
    async with standing(url, replace(TOKEN, section=given)) as stand:
        yield stand


async def test_without_a_mapping_the_whole_document_is_the_message(sqlite_url: str) -> None:
    async with mapped(sqlite_url) as stand:
        await stand.post(b'{"b": [1, "\xc3\xa9"], "a": null}')
        await stand.post(b'{"b": [1, "\xc3\xa9"], "a": null}')
        rows = await stand.rows()
    # Without an id two requests are two messages: people do say the same thing twice.
    assert [row.content for row in rows] == ['{"b":[1,"é"],"a":null}'] * 2
    assert (rows[0].origin, rows[0].source_channel_id, rows[0].session_id) == ("bell", "bell", "bell:bell")


async def test_paths_reach_into_lists_and_other_values_become_text(sqlite_url: str) -> None:
    paths = {"content_path": "events.1.said", "id_path": "events.1.id", "channel_path": "room"}
    async with mapped(sqlite_url, **paths) as stand:
        await stand.post(json.dumps({"room": 12, "events": [0, {"id": 7.5, "said": {"x": True}}]}).encode())
        row = await stand.only_row()
    assert (row.content, row.source_message_id, row.source_channel_id) == ('{"x":true}', "7.5", "12")
    assert json.loads(row.payload_json or "")["events"][1]["id"] == 7.5


async def test_a_document_without_the_text_is_taken_and_ignored(sqlite_url: str) -> None:
    async with mapped(sqlite_url, content_path="data.note") as stand:
        for body in (b'{"ping": 1}', b'{"data": []}', b'{"data": {"note": null}}', b'{"data": {"note": ""}}'):
            reply = await stand.post(body)
            assert (reply.status, reply.json()["stored"]) == (200, 0)
        assert await stand.rows() == []


async def test_it_may_have_one_session_or_name_it(sqlite_url: str) -> None:
    async with mapped(sqlite_url, session="ops") as stand:
        await stand.box.sessions.open(session_id="ops", target=PARKED)
        await stand.post(b'{"a": 1}')
        assert (await stand.only_row()).session_id == "ops"
        await stand.box.sessions.close("ops")
        assert (await stand.post(b'{"a": 2}')).json() == {"stored": 0, "duplicates": 0, "ignored": 1}
    async with mapped(sqlite_url, session_path="to") as stand:
        await stand.post(b'{"to": "new"}')
        assert (await stand.rows())[-1].session_id == "new"
        assert (await stand.box.sessions.get("new")).channels == ()


async def test_an_id_may_be_in_a_header(sqlite_url: str) -> None:
    async with mapped(sqlite_url, id_header="X-GitHub-Delivery") as stand:
        for delivery in ("d1", "d2", "d1"):
            headers = [*TOKEN.proof(b"{}"), ("X-GitHub-Delivery", delivery)]
            assert (await stand.post(b'{"a": 1}', headers)).status == 200
        assert [row.source_message_id for row in await stand.rows()] == ["d1", "d2"]


async def test_a_request_of_the_reference_library_is_proven_and_stored_once(sqlite_url: str) -> None:
    section = {"secret": WHSEC}
    async with standing(sqlite_url, replace(STANDARD, section=section)) as stand:
        now = datetime.now(UTC)
        signature = Webhook(WHSEC).sign("msg_7", now, '{"a": 1}')
        headers = [("webhook-id", "msg_7"), ("webhook-timestamp", str(int(now.timestamp())))]
        for _ in range(2):
            reply = await stand.post(b'{"a": 1}', [*headers, ("webhook-signature", signature)])
            assert reply.status == 200
        assert (await stand.only_row()).source_message_id == "msg_7"
        other_id = [("webhook-id", "msg_8"), headers[1], ("webhook-signature", signature)]
        assert (await stand.post(b'{"a": 1}', other_id)).status == 403


async def test_a_signature_may_be_written_as_github_writes_it(sqlite_url: str) -> None:
    section = {"secret": "It's a Secret to Everybody", "proof": "hmac"}
    async with standing(sqlite_url, replace(HMAC, section=section)) as stand:
        signature = hmac.new(b"It's a Secret to Everybody", b'{"a": 1}', hashlib.sha256).hexdigest()
        reply = await stand.post(b'{"a": 1}', [("X-Hub-Signature-256", f"sha256={signature}")])
        assert reply.json()["stored"] == 1


async def test_an_unknown_name_is_refused_like_one_without_a_secret(sqlite_url: str) -> None:
    async with mapped(sqlite_url) as stand:
        for name in ("nobody", "BELL", "bell%2F", "..%2Fslack"):
            reply = await stand.client.post(f"/adapters/webhook/{name}", b"{}", headers=TOKEN.proof(b"{}"))
            assert (reply.status, reply.reason) == (403, "not-configured"), name


@pytest.mark.parametrize(
    ("adapters", "named"),
    [
        ({"webhooks": {"my shop": {"secret": "x", "proof": "token"}}}, "adapters.webhooks"),
        ({"webhooks": {"shop": {"secret": "plain"}}}, "whsec_"),
        ({"webhooks": {"shop": {"session": "a", "session_path": "b"}}}, "session_path"),
        ({"webhooks": {"shop": {"id_path": "a", "id_header": "b"}}}, "id_header"),
        ({"webhooks": {"shop": {"origin": "a b"}}}, "adapters.webhooks.shop.origin"),
        ({"telegram": {"secret_token": "not allowed!"}}, "adapters.telegram.secret_token"),
        ({"telegram": {"poll": True}}, "adapters.telegram.bot_token"),
        ({"telegram": {"base_url": "api.telegram.org"}}, "adapters.telegram.base_url"),
        ({"whatsapp": {"app_secret": ""}}, "adapters.whatsapp.app_secret"),
        ({"default_session": "a\nb"}, "adapters.default_session"),
        ({"on_unknown": "panic"}, "adapters.on_unknown"),
    ],
)
def test_a_setting_that_cannot_work_stops_the_start_and_is_named(adapters: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError, match=named.replace(".", r"\.")) as refused:
        load_settings(environ={}, adapters=adapters)
    assert "not allowed!" not in str(refused.value)


async def test_a_default_target_that_is_none_stops_the_start(sqlite_url: str) -> None:
    with pytest.raises(SettingsError, match=r"adapters\.default_target"):
        async with standing(sqlite_url, TOKEN, default_target={"kind": "pigeon"}):
            pass
