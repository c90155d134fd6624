import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from pillarbox.box import Pillarbox
from tests.api.client import Client, Reply
from tests.api.running import until, working
from tests.api.test_health import unwritable

EMAIL = {"channel": "email", "to": "New.User@Example.com", "subject": "Welcome", "text": "Hello.", "html": "<b>Hi</b>"}
ITEM = [
    *("message_id", "tenant_id", "channel", "to_address", "subject", "status", "attempt_count", "max_attempts"),
    *("priority", "next_attempt_at", "last_attempt_at", "sent_at", "delivered_at", "failed_at", "error_message"),
    *("provider", "provider_msg_id", "category", "tags", "created_at", "updated_at"),
]
ATTEMPT = ["attempt", "started_at", "finished_at", "outcome", "status_code", "error", "provider", "request", "response"]


async def post(client: Client, path: str, *, key: str | None = None, **fields: Any) -> Reply:
    headers = [] if key is None else [("Idempotency-Key", key)]
    return await client.post(f"{path}/messages", EMAIL | fields, headers=headers)


async def queue(client: Client, path: str, **fields: Any) -> str:
    reply = await post(client, path, **fields)
    assert reply.status == 202, reply.body
    message_id: str = reply.json()["message_id"]
    return message_id


async def ids(client: Client, path: str, query: str = "") -> list[str]:
    reply = await client.get(f"{path}/messages?{query}")
    assert reply.status == 200, reply.body
    return [item["message_id"] for item in reply.json()["items"]]


async def test_a_message_is_on_disk_before_the_answer(client: Client, acme: str) -> None:
    reply = await post(client, acme, tags=["welcome"])
    assert (reply.status, list(reply.json()), reply.json()["status"]) == (202, ["message_id", "status"], "pending")
    shown = (await client.get(f"{acme}/messages/{reply.json()['message_id']}")).json()
    assert sorted(shown) == sorted([*ITEM, "body_text", "body_html", "attempts", "events"])
    assert (shown["tenant_id"], shown["to_address"], shown["subject"]) == ("acme", "new.user@example.com", "Welcome")
    assert (shown["body_text"], shown["body_html"], shown["tags"]) == ("Hello.", "<b>Hi</b>", ["welcome"])
    assert (shown["status"], shown["attempt_count"], shown["attempts"]) == ("pending", 0, [])
    assert [event["type"] for event in shown["events"]] == ["queued"]
    assert (await client.get("/v1/status")).json()["outbound"]["pending"] == 1
    assert b"pillarbox_msg_queue_length 1.0" in (await client.get("/metrics")).body


async def test_list_items_carry_no_bodies_attempts_or_events(client: Client, acme: str) -> None:
    await queue(client, acme)
    (item,) = (await client.get(f"{acme}/messages")).json()["items"]
    assert sorted(item) == sorted(ITEM)


async def test_a_sent_message_shows_its_attempts(box: Pillarbox, client: Client, acme: str) -> None:
    async with working(box):
        sent, failed = await queue(client, acme), await queue(client, acme, to="fail@example.com")
        shown = await until(client, f"{acme}/messages/{sent}", lambda message: message["status"] == "sent")
        ended = await until(client, f"{acme}/messages/{failed}", lambda message: message["status"] == "failed")
    assert [list(attempt) for attempt in shown["attempts"]] == [ATTEMPT]
    assert (shown["attempt_count"], shown["provider"], shown["attempts"][0]["outcome"]) == (1, "sandbox", "accepted")
    assert (ended["attempts"][0]["outcome"], ended["attempts"][0]["status_code"]) == ("rejected", 400)
    assert ended["error_message"]
    assert await ids(client, acme, "status=failed") == [failed]
    assert await ids(client, acme, "status=sent") == [sent]


async def test_messages_are_listed_newest_first_and_by_every_filter(client: Client, acme: str) -> None:
    made = [await queue(client, acme, tags=[f"t{number % 2}"]) for number in range(4)]
    sms = (await client.post(f"{acme}/messages", {"channel": "sms", "to": "+15005550006", "text": "x"})).json()
    newest = [sms["message_id"], *reversed(made)]
    assert await ids(client, acme) == newest
    assert await ids(client, acme, "status=pending") == newest
    assert await ids(client, acme, "status=delivered") == []
    assert await ids(client, acme, "channel=sms") == newest[:1]
    assert await ids(client, acme, "to=" + quote("+1 (500) 555-0006")) == newest[:1]
    assert await ids(client, acme, "to=NEW.user%40example.com&channel=email") == newest[1:]
    assert await ids(client, acme, "to=other%40example.com") == []
    assert await ids(client, acme, "tag=t1") == [made[3], made[1]]
    assert await ids(client, acme, "tag=t") == []
    now = datetime.now(UTC)
    for since, before, expected in ((-60, 60, newest), (60, 120, []), (-120, -60, [])):
        period = [quote((now + timedelta(seconds=shift)).isoformat()) for shift in (since, before)]
        assert await ids(client, acme, f"since={period[0]}&until={period[1]}") == expected


async def test_a_long_list_goes_on_behind_its_cursor(client: Client, acme: str) -> None:
    made = [await queue(client, acme) for _ in range(5)]
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = (await client.get(f"{acme}/messages?limit=2&cursor={cursor}")).json()
        seen += (item["message_id"] for item in page["items"])
        cursor = page["next_cursor"]
    assert seen == made[::-1]


async def test_the_same_key_and_body_get_the_first_answer_and_one_message(client: Client, acme: str) -> None:
    first = await post(client, acme, key="order-1")
    assert "idempotency-replayed" not in first.headers
    for spelling in ("order-1", '"order-1"', ' "order-1" '):
        again = await post(client, acme, key=spelling)
        assert (again.status, again.body) == (first.status, first.body)
        assert again.headers["idempotency-replayed"] == "true"
    assert len(await ids(client, acme)) == 1


async def test_a_replay_is_the_first_answer_also_when_the_message_has_gone_on(client: Client, acme: str) -> None:
    first = await post(client, acme, key="k")
    await client.post(f"{acme}/messages/{first.json()['message_id']}/cancel")
    again = await post(client, acme, key="k")
    assert (again.status, again.body) == (202, first.body)


async def test_the_same_key_with_another_body_is_422(client: Client, acme: str) -> None:
    await post(client, acme, key="k")
    refused = await post(client, acme, key="k", text="Goodbye.")
    assert (refused.status, refused.reason) == (422, "idempotency-mismatch")
    assert refused.json()["errors"][0]["field"] == "Idempotency-Key"
    assert len(await ids(client, acme)) == 1


async def test_the_key_of_one_tenant_means_nothing_to_another(client: Client, acme: str) -> None:
    await client.request("PUT", "/v1/tenants/other", {"providers": {"email": {"provider": "sandbox"}}})
    first, second = await post(client, acme, key="k"), await post(client, "/v1/tenants/other", key="k", text="Else.")
    assert (first.status, second.status) == (202, 202)
    assert first.json() != second.json()


async def test_without_a_key_two_calls_are_two_messages(client: Client, acme: str) -> None:
    assert await queue(client, acme) != await queue(client, acme)


async def test_keys_as_long_as_they_may_be_are_taken_and_others_refused(client: Client, acme: str) -> None:
    for key in ("k" * 255, '"' + '\\"' * 255 + '"', "a b;c=\\d", "\u00e9".encode().decode("latin-1")):
        assert (key, (await post(client, acme, key=key)).status) == (key, 202)
    for key in ("", '""', "k" * 256, '"' + "k" * 256 + '"', '"k', '"a"b', '"a";p=1', '"a\\b"', "a\tb", "\xff", "a\x7f"):
        refused = await post(client, acme, key=key)
        assert (key, refused.status, refused.fields) == (key, 422, ["Idempotency-Key"])
    twice = await client.post(f"{acme}/messages", EMAIL, headers=[("idempotency-key", "a"), ("idempotency-key", "a")])
    assert twice.fields == ["Idempotency-Key"]


async def test_a_second_request_with_the_key_is_409_while_the_first_runs(
    client: Client, acme: str, database_url: str
) -> None:
    assert (await client.get(f"{acme}/messages")).status == 200
    with unwritable(database_url):
        both = [asyncio.create_task(post(client, acme, key="k")) for _ in range(2)]
        done, running = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED, timeout=20)
        (second,), (first,) = done, running
        refused = second.result()
        assert (refused.status, refused.reason, refused.headers["retry-after"]) == (409, "idempotency-busy", "1")
    answered = await first
    assert answered.status == 202
    assert (await post(client, acme, key="k")).body == answered.body


async def test_many_at_once_with_one_key_make_one_message(client: Client, acme: str) -> None:
    replies = await asyncio.gather(*(post(client, acme, key="k") for _ in range(50)))
    assert {reply.status for reply in replies} <= {202, 409}
    assert len({reply.body for reply in replies if reply.status == 202}) == 1
    assert len(await ids(client, acme)) == 1


async def test_an_opted_out_recipient_is_409_with_the_canceled_record(client: Client, acme: str) -> None:
    await client.post(f"{acme}/opt-outs", {"contact": "new.user@example.com", "channel": "email"})
    answers = []
    for key in (None, "k", "k"):
        refused = await post(client, acme, key=key)
        answers.append(refused)
        assert (refused.status, refused.reason) == (409, "opted-out")
        kept = (await client.get(f"{acme}/messages/{refused.json()['message_id']}")).json()
        assert (kept["status"], kept["attempt_count"]) == ("canceled", 0)
        assert b"example.com" not in refused.body
    assert len(await ids(client, acme)) == 2
    assert answers[1].body == answers[2].body
    assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, None, "true"]
    retried = await client.post(f"{acme}/messages/{kept['message_id']}/retry")
    assert (retried.status, retried.reason) == (409, "opted-out")
    assert retried.json()["message_id"] == kept["message_id"]


async def test_a_marketing_email_is_refused_where_nobody_could_unsubscribe(client: Client, acme: str) -> None:
    sendgrid = {"provider": "sendgrid", "from": "a@example.com", "credentials": {"api_key": "env:NOWHERE"}}
    await client.request("PUT", "/v1/tenants/real", {"providers": {"email": sendgrid}})
    refused = await post(client, "/v1/tenants/real", category="marketing")
    assert (refused.status, refused.fields) == (422, ["category"])
    assert (await post(client, "/v1/tenants/real")).status == 202
    assert (await post(client, acme, category="marketing")).status == 202


async def test_a_waiting_message_is_canceled_once_and_can_be_sent_again(client: Client, acme: str) -> None:
    path = f"{acme}/messages/{await queue(client, acme)}"
    refused = await client.post(f"{path}/retry")
    assert (refused.status, refused.reason) == (409, "not-retryable")
    canceled = await client.post(f"{path}/cancel")
    assert (canceled.status, canceled.json()["status"]) == (200, "canceled")
    again = await client.post(f"{path}/cancel", {})
    assert (again.status, again.reason) == (409, "not-cancelable")
    retried = await client.post(f"{path}/retry")
    assert (retried.status, retried.json()["status"]) == (202, "pending")
    assert [event["type"] for event in retried.json()["events"]] == ["queued", "canceled", "retried"]
    assert (await client.post(f"{path}/cancel", {"why": 1})).fields == ["why"]


async def test_a_failed_message_goes_on_counting_when_it_is_tried_again(
    box: Pillarbox, client: Client, acme: str
) -> None:
    async with working(box):
        path = f"{acme}/messages/{await queue(client, acme, to='fail@example.com')}"
        await until(client, path, lambda message: message["status"] == "failed")
        assert (await client.post(f"{path}/retry")).status == 202
        again = await until(client, path, lambda message: message["attempt_count"] == 2 and message["failed_at"])
    assert [attempt["attempt"] for attempt in again["attempts"]] == [1, 2]


async def test_messages_of_an_unknown_tenant_are_404(client: Client) -> None:
    for method, path in (("GET", ""), ("POST", ""), ("GET", "/x"), ("POST", "/x/cancel"), ("POST", "/x/retry")):
        body = EMAIL if (method, path) == ("POST", "") else None
        reply = await client.request(method, f"/v1/tenants/nobody/messages{path}", body)
        assert (method, path, reply.status, reply.reason) == (method, path, 404, "not-found")


async def test_the_values_of_a_webhooks_headers_are_never_shown(client: Client, acme: str) -> None:
    new = {"channel": "webhook", "to": "https://example.com/x", "body": {"a": 1}, "headers": {"X-Token": "c4n4ry"}}
    queued = await client.post(f"{acme}/messages", new)
    shown = await client.get(f"{acme}/messages/{queued.json()['message_id']}")
    assert shown.json()["body_text"] == '{"a":1}'
    for reply in (queued, shown, await client.get(f"{acme}/messages")):
        assert b"c4n4ry" not in reply.body
