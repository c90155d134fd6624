from typing import Any
from urllib.parse import quote

import psycopg

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.settings import Settings
from tests.api.client import ADMIN_KEY, Client

HTTP = {"kind": "http", "url": "http://127.0.0.1:9/in"}
QUEUE = {"pending": 0, "failed": 0, "processing": 0, "head": None}


async def test_a_session_is_opened_shown_and_listed(client: Client) -> None:
    opened = await client.post("/v1/sessions", {"session_id": "s1", "title": "Desk", "target": HTTP})
    assert opened.status == 201
    shown = (await client.get("/v1/sessions/s1")).json()
    assert shown == opened.json()
    assert (shown["lifecycle_status"], shown["target"]["url"], shown["queue"]) == ("active", HTTP["url"], QUEUE)
    assert shown["created_at"].endswith("Z")
    assert {"last_message_sent", "last_input_origin", "last_activity"} <= shown.keys()
    (item,) = (await client.get("/v1/sessions")).json()["items"]
    assert item.items() <= shown.items()


async def test_a_session_gets_an_id_when_it_has_none(client: Client) -> None:
    first = (await client.post("/v1/sessions", {"target": HTTP})).json()["session_id"]
    second = (await client.post("/v1/sessions", {"target": HTTP})).json()["session_id"]
    assert first != second


async def test_a_node_has_a_name(client: Client) -> None:
    for node in ("", "a\nb"):
        reply = await client.post("/v1/sessions", {"target": HTTP, "node": node})
        assert (reply.status, reply.fields) == (422, ["node"])


async def test_an_id_is_taken_once(client: Client, session: str) -> None:
    reply = await client.post("/v1/sessions", {"session_id": session, "target": HTTP})
    assert (reply.status, reply.reason) == (409, "session-exists")


async def test_a_targets_secret_is_never_shown(client: Client) -> None:
    secret = "whsec_" + "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
    target = HTTP | {"secret": secret, "headers": {"X-Api-Key": "k-4711"}}
    opened = await client.post("/v1/sessions", {"session_id": "s1", "target": target})
    replies = [opened, await client.get("/v1/sessions/s1"), await client.get("/v1/sessions")]
    replies.append(await client.request("PATCH", "/v1/sessions/s1", {"title": "x"}))
    for reply in replies:
        assert reply.status in (200, 201)
        assert secret.encode() not in reply.body
        assert b"k-4711" not in reply.body


async def test_ids_of_any_text_work_in_paths(client: Client) -> None:
    for session_id in ("a/b", "a b", "a%2Fb", "..", ".", "ü/😀", "?x#y", "a;b", "keys/close", "100%"):
        assert (await client.post("/v1/sessions", {"session_id": session_id, "target": HTTP})).status == 201
        path = f"/v1/sessions/{quote(session_id, safe='')}"
        assert (await client.get(path)).json()["session_id"] == session_id
        assert (await client.request("PATCH", path, {"title": "t"})).json()["title"] == "t"
        assert (await client.post(f"{path}/close")).json() == {"expired": 0}


async def test_a_change_leaves_alone_what_it_does_not_name(client: Client, session: str) -> None:
    channels = [{"origin": "telegram", "channel_id": "42"}]
    changed = await client.request("PATCH", f"/v1/sessions/{session}", {"title": "New", "channels": channels})
    assert (changed.status, changed.json()["channels"]) == (200, channels)
    emptied = (await client.request("PATCH", f"/v1/sessions/{session}", {"title": None})).json()
    assert (emptied["title"], emptied["channels"]) == (None, channels)
    assert (await client.request("PATCH", "/v1/sessions/unknown", {})).reason == "not-found"
    bad: list[tuple[Any, list[str]]] = [
        ({"session_id": "s2"}, ["session_id"]),
        ({"channels": [{"origin": "x"}]}, ["channels.0.channel_id"]),
        ({"lifecycle_status": "gone"}, ["lifecycle_status"]),
        ({"lifecycle_status": None}, ["lifecycle_status"]),
        ({"target": {"kind": "http"}}, ["target.url"]),
    ]
    for body, fields in bad:
        assert (await client.request("PATCH", f"/v1/sessions/{session}", body)).fields == fields


async def test_a_closed_session_takes_no_more(client: Client, session: str) -> None:
    for number in range(3):
        await client.post("/v1/inbound", {"session_id": session, "origin": "t", "content": str(number)})
    assert (await client.get(f"/v1/sessions/{session}")).json()["queue"]["pending"] == 3
    assert (await client.post(f"/v1/sessions/{session}/close", {})).json() == {"expired": 3}
    assert (await client.post(f"/v1/sessions/{session}/close")).json() == {"expired": 0}
    refused = await client.post("/v1/inbound", {"session_id": session, "origin": "t", "content": "late"})
    assert (refused.status, refused.reason) == (409, "session-closed")
    assert (await client.request("PATCH", f"/v1/sessions/{session}", {"title": "x"})).reason == "session-closed"
    assert (await client.post("/v1/sessions/unknown/close")).reason == "not-found"
    assert (await client.post(f"/v1/sessions/{session}/close", {"force": True})).fields == ["force"]


async def test_sessions_are_listed_in_pages_and_by_status(client: Client) -> None:
    for number in range(5):
        await client.post("/v1/sessions", {"session_id": f"s{number}", "target": HTTP})
    await client.post("/v1/sessions/s3/close")
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await client.get(f"/v1/sessions?limit=2&cursor={cursor}")).json()
        seen += [item["session_id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert seen == ["s0", "s1", "s2", "s3", "s4"]
    closed = (await client.get("/v1/sessions?lifecycle_status=closed")).json()
    assert [item["session_id"] for item in closed["items"]] == ["s3"]
    assert (await client.get("/v1/sessions?lifecycle_status=gone")).fields == ["lifecycle_status"]


async def test_instants_are_in_utc_whatever_the_servers_time_zone(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "DO $$BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET timezone TO ''-05'''; END$$"
        )
    async with Pillarbox.open(postgres_url, settings=Settings()) as box:
        client = Client(create_app(box, admin_key=ADMIN_KEY))
        await client.post("/v1/sessions", {"session_id": "s1", "target": HTTP})
        assert (await client.get("/v1/sessions/s1")).json()["created_at"].endswith("Z")
        assert (await client.get("/v1/sessions")).json()["items"][0]["created_at"].endswith("Z")
