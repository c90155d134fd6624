"""What operators ask for and do over HTTP: the log, actions on all that match, the audit, nodes, the sandbox, links."""

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

from pillarbox.box import Pillarbox
from tests.api.client import Client
from tests.api.running import until

EMAIL = {"channel": "email", "to": "ann@example.com", "subject": "Hello", "text": "Hi."}


async def queue(client: Client, path: str, **fields: Any) -> str:
    reply = await client.post(f"{path}/messages", EMAIL | fields)
    assert reply.status == 202, reply.body
    return str(reply.json()["message_id"])


async def listed(client: Client, path: str, text: str, **query: object) -> list[Any]:
    """Every page of a list by a filter."""
    items: list[Any] = []
    cursor = ""
    while True:
        more = "".join(f"&{name}={value}" for name, value in query.items())
        reply = await client.get(f"{path}?filter={quote(text)}&cursor={cursor}{more}")
        assert reply.status == 200, reply.body
        items += reply.json()["items"]
        cursor = reply.json()["next_cursor"]
        if cursor is None:
            return items


@pytest.fixture
async def tenant_key(client: Client, acme: str) -> str:
    return str((await client.post("/v1/keys", {"tenant": "acme"})).json()["key"])


async def test_the_log_shows_both_directions_by_filter_and_page(client: Client, acme: str, session: str) -> None:
    mail = await queue(client, acme, tags=["vip"])
    await client.post("/v1/inbound", {"session_id": session, "origin": "chat", "content": "hello there"})
    found = await listed(client, "/v1/messages", "", limit=1)
    assert [(item["pipe"], item["summary"]) for item in found] == [("inbound", "hello there"), ("outbound", "Hello")]
    assert [item["id"] for item in await listed(client, "/v1/messages", "tag:vip status:pending")] == [mail]
    assert await listed(client, "/v1/messages", "status:failed") == []
    items = await listed(client, f"{acme}/messages", "channel:email tag:vip")
    assert [(item["message_id"], item["to_address"]) for item in items] == [(mail, "ann@example.com")]
    assert await listed(client, f"{acme}/messages", "tenant:rival") == []
    assert len(await listed(client, f"{acme}/messages", "to:ANN@example.com")) == 1


async def test_a_filter_or_cursor_that_cannot_be_read_names_its_field(client: Client, acme: str) -> None:
    await queue(client, acme)
    await queue(client, acme)
    cursor = (await client.get("/v1/messages?limit=1")).json()["next_cursor"]
    for target, field in (
        ("/v1/messages?filter=colour:red", "filter"),
        ("/v1/messages?filter=to:ann@example.com", "filter"),
        ("/v1/messages?cursor=x", "cursor"),
        (f"/v1/messages?filter=status:sent&cursor={cursor}", "cursor"),
        (f"{acme}/messages?filter=status:sent&channel=sms", "channel"),
        (f"{acme}/messages?filter=hello", "filter"),
        ("/v1/audit?subject_kind=message", "subject_id"),
    ):
        assert (await client.get(target)).fields == [field], target


async def test_all_that_match_are_counted_then_canceled_and_the_progress_is_there(client: Client, acme: str) -> None:
    first, second = await queue(client, acme), await queue(client, acme, tags=["keep"])
    request = {"action": "cancel", "filter": "tenant:acme -tag:keep"}
    counted = await client.post("/v1/messages/actions", request | {"dry_run": True})
    assert (counted.status, counted.json()) == (200, {"matching": 1, "exact": True})
    begun = await client.post("/v1/messages/actions", request)
    assert (begun.status, begun.json()["total"]) == (202, 1)
    path = f"/v1/operations/{begun.json()['operation_id']}"
    done = await until(client, path, lambda operation: operation["state"] == "done")
    assert (done["done"], done["refused"], done["who"]) == (1, 0, "key:configured")
    shown = [(await client.get(f"{acme}/messages/{each}")).json()["status"] for each in (first, second)]
    assert shown == ["canceled", "pending"]
    assert (await client.post(f"{path}/stop")).json()["state"] == "done"
    assert [each["operation_id"] for each in (await client.get("/v1/operations")).json()["items"]] == [
        done["operation_id"]
    ]
    assert (await client.get("/v1/operations/nowhere")).status == 404
    assert (await client.post("/v1/messages/actions", {"action": "explode", "filter": ""})).fields == ["action"]
    assert (await client.post("/v1/messages/actions", {"action": "retry"})).fields == ["filter"]


async def test_the_audit_names_the_key_that_acted(client: Client, acme: str, tenant_key: str) -> None:
    message = await queue(client, acme)
    assert (await client.with_key(tenant_key).post(f"{acme}/messages/{message}/cancel")).status == 200
    assert (await client.post(f"{acme}/messages/{message}/cancel")).status == 409
    found = (await client.get(f"/v1/audit?subject_kind=message&subject_id={message}")).json()["items"]
    assert [(act["action"], act["outcome"]) for act in found] == [("cancel", "not-cancelable"), ("cancel", "done")]
    key_id = (await client.get("/v1/keys")).json()["items"][0]["key_id"]
    assert [act["who"] for act in found] == ["key:configured", f"key:{key_id}"]
    pages = [(await client.get("/v1/audit?limit=1")).json()]
    while pages[-1]["next_cursor"]:
        pages.append((await client.get(f"/v1/audit?limit=1&cursor={pages[-1]['next_cursor']}")).json())
    assert [page["items"][0]["action"] for page in pages] == ["cancel", "cancel", "key.create", "tenant.put"]
    assert "ann@example.com" not in repr(pages)


async def test_nodes_attention_and_the_sandbox_are_there_for_admins_alone(
    box: Pillarbox, client: Client, acme: str, tenant_key: str
) -> None:
    await box.nodes.beat()
    (node,) = (await client.get("/v1/nodes")).json()["items"]
    assert (node["name"], node["state"], node["role"]) == ("here", "alive", "embedded")
    assert (await client.get("/v1/attention")).json()["items"] == []
    made = await client.post("/v1/sandbox", {"trouble": "fail", "channel": "email", "times": 2})
    assert (made.status, made.json()["remaining"]) == (201, 2)
    message = await queue(client, acme)
    await asyncio.gather(box.outbound.drain.step())
    assert (await client.get(f"{acme}/messages/{message}")).json()["status"] == "failed"
    (control,) = (await client.get("/v1/sandbox")).json()["items"]
    assert control["remaining"] == 1
    assert [each["message_id"] for each in await listed_mailbox(client)] == [message]
    assert (await client.request("DELETE", "/v1/sandbox")).status == 204
    assert (await client.get("/v1/sandbox")).json()["items"] == []
    assert (await client.post("/v1/sandbox", {"trouble": "explode"})).fields == ["trouble"]
    for path in ("/v1/messages", "/v1/operations", "/v1/audit", "/v1/nodes", "/v1/attention", "/v1/sandbox"):
        assert (await client.with_key(tenant_key).get(path)).status == 404


async def listed_mailbox(client: Client) -> list[Any]:
    items: list[Any] = (await client.get("/v1/sandbox/mailbox")).json()["items"]
    return items


async def test_a_tenant_makes_and_revokes_links_to_its_own_messages(
    box: Pillarbox, client: Client, acme: str, tenant_key: str
) -> None:
    tenant = client.with_key(tenant_key)
    made = await tenant.post(f"{acme}/embed-links", {"expires_in": 60})
    assert made.status == 201
    assert made.json()["url"].endswith(f"/embed/{made.json()['token']}")
    assert (await box.embeds.open(made.json()["token"])) is not None
    assert (await tenant.request("DELETE", f"{acme}/embed-links")).status == 204
    assert (await box.embeds.open(made.json()["token"])) is None
    assert (await client.post(f"{acme}/embed-links", {"expires_in": 86_401})).fields == ["expires_in"]
    assert (await client.post("/v1/tenants/nobody/embed-links", {})).status == 404
    assert (await tenant.post("/v1/tenants/rival/embed-links", {})).status == 404
