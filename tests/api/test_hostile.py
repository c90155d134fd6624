"""What strangers and broken programs send: one answer on every database, never a 5xx, and nothing of it quoted."""

import json
import random
from typing import Any

from tests.api.client import ADMIN_KEY, Client

CANARY = "hush-c4n4ry"
LONG = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=5000))
WIDE = "".join(chr(random.Random(8 + index).randrange(0x10000, 0x1FFFF)) for index in range(500))


def message(**fields: Any) -> bytes:
    return json.dumps({"session_id": "s1", "origin": "test", "content": "x"} | fields).encode()


def raw(field: bytes, value: bytes) -> bytes:
    return b'{"session_id":"s1","origin":"test","content":"x","%s":%s}' % (field, value)


def event(**fields: Any) -> bytes:
    return json.dumps({"session_id": "s1", "event_type": "tool_use", "payload": {}} | fields).encode()


def raw_event(payload: bytes) -> bytes:
    return b'{"session_id":"s1","event_type":"tool_use","payload":%s}' % payload


def email(**fields: Any) -> bytes:
    return json.dumps({"channel": "email", "to": "a@example.com", "text": "x"} | fields).encode()


def webhook(**fields: Any) -> bytes:
    return json.dumps({"channel": "webhook", "to": "https://example.com/x"} | fields).encode()


NOT_JSON = [
    b"",
    b"{",
    b"nonsense",
    b"{}{}",
    message() + b"x",
    b"\xef\xbb\xbf" + message(),
    message().decode().encode("utf-16"),
    raw(b"content", b'"\xff"'),
    raw(b"content", b'"\xed\xa0\x80"'),
    raw(b"content", b'"\xc0\x80"'),
    raw(b"content", b'"\x00"'),
    raw(b"content", b'"\n"'),
    raw(b"payload", b"NaN"),
    raw(b"payload", b"Infinity"),
    raw(b"payload", b"1e999"),
    raw(b"payload", b"9" * 5000),
    raw(b"payload", b"[" * 100_000 + b"]" * 100_000),
    raw(b"payload", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    b"[" * 100_000,
    raw(b"nothing", b"[" * 100_000),
    raw(b"payload", b"[" * 50_000 + b'"\\ud800"'),
]

BAD_FIELDS: list[tuple[bytes, str]] = [
    (b"[]", ""),
    (b"null", ""),
    (b'"text"', ""),
    (b"1", ""),
    (b"{}", "session_id"),
    (message(session_id=None), "session_id"),
    (message(session_id=1), "session_id"),
    (message(session_id=""), "session_id"),
    (message(session_id="s1\n"), "session_id"),
    (message(session_id="s" * 201), "session_id"),
    (message(origin=""), "origin"),
    (message(origin=LONG), "origin"),
    (b'{"session_id":"s1","origin":"test"}', "content"),
    (message(content=None), "content"),
    (message(content={}), "content"),
    (message(content="\0"), "content"),
    (raw(b"content", b'"\\ud800"'), "content"),
    (raw(b"content", b'"\\udc00\\ud800"'), "content"),
    (raw(b"payload", b'{"a": ["\\uDFFF"]}'), "payload.a.0"),
    (raw(b"payload", b'{"a\\ud800": 1}'), "payload.a\\ud800"),
    (raw(b"\\ud800", b"1"), "\\ud800"),
    (message(payload={"a": {"b": "\0"}}), "payload.a.b"),
    (message(payload={"\0": 1}), "payload.\\u0000"),
    (message(payload=10**30), "payload"),
    (raw(b"payload", b"[" * 100 + b"]" * 100), "payload"),
    (message(message_type=CANARY), "message_type"),
    (message(source_message_id=LONG), "source_message_id"),
    (message(actor_name=LONG), "actor_name"),
    (message(actor_avatar_url="\0"), "actor_avatar_url"),
    (message(status="delivered"), "status"),
    (message(id=1), "id"),
    (message(**{"x\x1b[31m": 1}), "x\\u001b[31m"),
    (message(**{LONG: 1}), LONG[:79] + "…"),
    (message(**{"a` - at `$.b": 1}), "b.a"),
]

NOT_JSON_EVENTS = [
    b"",
    b"{",
    b"\xef\xbb\xbf" + event(),
    raw_event(b'{"a":"\xff"}'),
    raw_event(b'{"a":NaN}'),
    raw_event(b'{"a":1e999}'),
    raw_event(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
]

BAD_EVENTS: list[tuple[bytes, str]] = [
    (b"[]", ""),
    (b"null", ""),
    (b"{}", "session_id"),
    (b'{"session_id":"s1"}', "event_type"),
    (event(session_id=None), "session_id"),
    (event(session_id=""), "session_id"),
    (event(session_id="s" * 201), "session_id"),
    (event(session_id="s\0"), "session_id"),
    (event(event_type=""), "event_type"),
    (event(event_type=1), "event_type"),
    (event(event_type=LONG), "event_type"),
    (event(event_type="x\nid: 1"), "event_type"),
    (event(event_type="x\r"), "event_type"),
    (event(event_type="x\u2028"), "event_type"),
    (event(payload=None), "payload"),
    (event(payload=[]), "payload"),
    (event(payload=CANARY), "payload"),
    (event(payload={"a": ["\0"]}), "payload.a.0"),
    (event(payload={"\0": 1}), "payload.\\u0000"),
    (event(payload={"a": 10**30}), "payload.a"),
    (event(payload={"a": "x" * 2**20}), "payload"),
    (raw_event(b'{"a":"\\ud800"}'), "payload.a"),
    (raw_event(b'{"a":' * 100 + b"1" + b"}" * 100), "payload"),
    (event(status="delivered"), "status"),
    (event(id=1), "id"),
    (event(**{LONG: 1}), LONG[:79] + "…"),
]

BAD_FOLLOWERS = [
    ("last_event_id=x", "last_event_id"),
    ("last_event_id=-1", "last_event_id"),
    ("last_event_id=1.0", "last_event_id"),
    ("last_event_id=%D9%A3", "last_event_id"),
    ("last_event_id=9223372036854775808", "last_event_id"),
    ("last_event_id=" + "9" * 5000, "last_event_id"),
    ("session_id=%00", "session_id"),
    ("session_id=" + "s" * 201, "session_id"),
    ("event_type=%0A", "event_type"),
    ("event_type=" + "x" * 65, "event_type"),
    ("limit=1", "limit"),
    ("session_id=a&session_id=b", "query"),
    ("session_id=%ff", "query"),
]

BAD_MESSAGES: list[tuple[bytes, str]] = [
    (b"[]", ""),
    (b"null", ""),
    (b"{}", "channel"),
    (b'{"channel":"email"}', "to"),
    (email(channel=CANARY), "channel"),
    (email(channel=None), "channel"),
    (email(to=None), "to"),
    (email(to=""), "to"),
    (email(to="a@example.com, b@example.com"), "to"),
    (email(to="a@example.com\r\nBcc: b@example.com"), "to"),
    (email(to="a\0@example.com"), "to"),
    (email(to="a@" + LONG), "to"),
    (email(to=["a@example.com"]), "to"),
    (email(text=None), "text"),
    (email(text="\0"), "text"),
    (email(text="x" * (2**20 + 1)), "text"),
    (email(html="\u00e9" * (2**19 + 1)), "html"),
    (email(subject="x\r\nBcc: b@example.com"), "subject"),
    (email(subject="x\u2028"), "subject"),
    (email(subject="x" * 999), "subject"),
    (email(cc="a@example.com"), "cc"),
    (email(cc=["b@example.com", "no"]), "cc.1"),
    (email(headers={"Bcc": "b@example.com"}), "headers.Bcc"),
    (email(headers={"X-A": "b\r\nBcc: c"}), "headers.X-A"),
    (email(headers={"X-A": 1}), "headers"),
    (email(attachments=[{}]), "attachments.0.filename"),
    (email(attachments=[{"filename": "a", "content": "%%%"}]), "attachments.0.content"),
    (email(attachments=[{"filename": "a", "path": "/etc/passwd"}]), "attachments.0.path"),
    (email(attachments=[{"filename": "a", "url": "https://127.0.0.1/"}]), "attachments.0.url"),
    (email(tags=["x"] * 51), "tags"),
    (email(tags=[""]), "tags.0"),
    (email(tags=["x" * 65]), "tags.0"),
    (email(priority=-1), "priority"),
    (email(priority=1001), "priority"),
    (email(priority=10**30), "priority"),
    (email(priority=1.5), "priority"),
    (email(priority=True), "priority"),
    (email(max_attempts=0), "max_attempts"),
    (email(max_attempts=21), "max_attempts"),
    (email(send_at="tomorrow"), "send_at"),
    (email(send_at="2030-01-01T00:00:00"), "send_at"),
    (email(send_at=2**70), "send_at"),
    (email(expires_at="2000-01-01T00:00:00Z"), "expires_at"),
    (email(send_at="2040-01-01T00:00:00Z", expires_at="2039-01-01T00:00:00Z"), "expires_at"),
    (email(category=CANARY), "category"),
    (email(template="welcome"), "template"),
    (email(body={}), "body"),
    (email(method="POST"), "method"),
    (email(tenant="other"), "tenant"),
    (email(message_id="x"), "message_id"),
    (email(**{LONG: 1}), LONG[:79] + "\u2026"),
    (webhook(to="http://example.com/"), "to"),
    (webhook(to="https://127.0.0.1/"), "to"),
    (webhook(to="https://2130706433/"), "to"),
    (webhook(to="https://[::ffff:10.0.0.1]/"), "to"),
    (webhook(to=f"https://{CANARY}:x@example.com/"), "to"),
    (webhook(to="file:///etc/passwd"), "to"),
    (webhook(to="https://example.com/\r\nX: y"), "to"),
    (webhook(headers={"Host": "other"}), "headers.Host"),
    (webhook(headers={"webhook-id": "x"}), "headers.webhook-id"),
    (webhook(headers={"A": CANARY + "\n"}), "headers.A"),
    (webhook(body="x" * 2**20), "body"),
    (webhook(body={"a": ["\0"]}), "body.a.0"),
    (webhook(body=10**30), "body"),
    (webhook(method="BREW"), "method"),
    (webhook(text="x"), "text"),
    (b'{"channel":"webhook","to":"https://example.com/","body":' + b"[" * 100 + b"]" * 100 + b"}", "body"),
    (b'{"channel":"email","to":"a@example.com","text":"\\ud800"}', "text"),
    (b'{"channel":"sms","to":"0123","text":"x"}', "to"),
    (b'{"channel":"sms","to":"+15005550006","text":"' + b"x" * 1601 + b'"}', "text"),
]

MESSAGE_QUERIES = [
    ("status=gone", "status"),
    ("channel=fax", "channel"),
    ("to=%00", "to"),
    ("to=a%40b%40c", "to"),
    ("to=x&channel=sms", "to"),
    ("tag=%00", "tag"),
    ("since=yesterday", "since"),
    ("since=2030-01-01T00:00:00", "since"),
    ("until=2030-01-01T00:00:00+01:00", "until"),
]

TARGETS: list[tuple[Any, str]] = [
    (None, "target"),
    ([], "target"),
    ({}, "target.kind"),
    ({"kind": "nothing"}, "target.kind"),
    ({"kind": []}, "target.kind"),
    ({"kind": "http"}, "target.url"),
    ({"kind": "http", "url": "file:///etc/passwd"}, "target.url"),
    ({"kind": "http", "url": f"http://{LONG}/"}, "target.url"),
    ({"kind": "http", "url": "http://[::1"}, "target.url"),
    ({"kind": "http", "url": "http://x:99999/"}, "target.url"),
    ({"kind": "http", "url": "http://x/\0"}, "target.url"),
    ({"kind": "http", "url": "http://x/", "headers": {"a\r\nb": "c"}}, "target.headers.a\\u000d\\u000ab"),
    ({"kind": "http", "url": "http://x/", "extra": 1}, "target.extra"),
    ({"kind": "command", "argv": []}, "target.argv"),
    ({"kind": "command", "argv": [LONG]}, "target.argv.0"),
    ({"kind": "command", "argv": ["x"], "stdin": CANARY}, "target.stdin"),
    ({"kind": "python", "name": LONG}, "target.name"),
    ({"kind": "python", "name": "\ud800"}, "target.name"),
]

QUERIES = [
    ("limit=0", "limit"),
    ("limit=-1", "limit"),
    ("limit=1001", "limit"),
    ("limit=99999999999999999999", "limit"),
    ("limit=" + "9" * 5000, "limit"),
    ("limit=ten", "limit"),
    ("limit=1.5", "limit"),
    ("limit=NaN", "limit"),
    ("cursor=x", "cursor"),
    ("cursor=%00", "cursor"),
    ("cursor=%C3%A9", "cursor"),
    ("cursor=" + "A" * 60_000, "cursor"),
    ("cursor=aWQ6LTE", "cursor"),
    ("cursor=aWQ6OTk5OTk5OTk5OTk5OTk5OTk5OTk", "cursor"),
    ("cursor=c2Vzc2lvbjoA", "cursor"),
    ("nothing=1", "nothing"),
    ("limit=1&limit=2", "query"),
    ("limit=%ff", "query"),
    ("&".join(f"a{number}=1" for number in range(100)), "query"),
]


NOWHERE = [
    "/v1/inbound/0",
    "/v1/inbound/-1",
    "/v1/inbound/9223372036854775807",
    "/v1/inbound/9223372036854775808",
    "/v1/inbound/" + "9" * 5000,
    "/v1/inbound/1e3",
    "/v1/inbound/%D9%A3",
    "/v1/inbound/",
    "/v1/inbound/1/",
    "/v1/inbound/1%00",
    "/v1/hooks/0",
    "/v1/hooks/-1",
    "/v1/hooks/9223372036854775808",
    "/v1/hooks/%D9%A3",
    "/v1/hooks/",
    "/v1/hooks/1%00",
    "/v1/sessions/",
    "/v1/sessions//",
    "/v1/sessions/%00",
    "/v1/sessions/a%00b",
    "/v1/sessions/%ff",
    "/v1/sessions/%ed%a0%80",
    "/v1/sessions/%zz",
    "/v1/sessions/%",
    "/v1/sessions/%0a",
    "/v1/sessions/" + LONG,
    "/v1/sessions/..%2f..%2fetc%2fpasswd",
    "/v1/sessions/../keys",
    "/v1/keys/%00",
    "/v1/tenants/",
    "/v1/tenants/none",
    "/v1/tenants/%00",
    "/v1/tenants/%ff/messages",
    "/v1/tenants/" + LONG,
    "/v1/tenants/none/messages/x",
    "/v1/tenants/acme/messages/",
    "/v1/tenants/acme/messages/0",
    "/v1/tenants/acme/messages/" + LONG,
    "/v1/tenants/acme/messages/%F0%9F%93%AE",
    "/v1/tenants/acme/messages/%25",
    "/v1/tenants/acme/opt-outs/x",
    "/v1/tenants/acme/opt-outs/" + LONG,
    "/v1/tenants/acme/opt-outs/%00",
    "//v1/sessions",
    "/v1;x/sessions",
    "/V1/sessions",
]


async def test_what_is_not_json_is_400(client: Client, session: str) -> None:
    for body in NOT_JSON:
        reply = await client.post("/v1/inbound", body)
        assert (body[:80], reply.status, reply.reason) == (body[:80], 400, "not-json")


async def test_a_bad_message_is_422_and_names_its_field(client: Client, session: str) -> None:
    for body, field in BAD_FIELDS:
        reply = await client.post("/v1/inbound", body)
        assert (body[:80], reply.status, reply.fields) == (body[:80], 422, [field])
        assert CANARY.encode() not in reply.body
        assert len(reply.body) < 600


async def test_a_bad_event_is_refused_and_names_its_field(client: Client, session: str) -> None:
    for body in NOT_JSON_EVENTS:
        reply = await client.post("/v1/hooks", body)
        assert (body[:80], reply.status, reply.reason) == (body[:80], 400, "not-json")
    for body, field in BAD_EVENTS:
        reply = await client.post("/v1/hooks", body)
        assert (body[:80], reply.status, reply.fields) == (body[:80], 422, [field])
        assert CANARY.encode() not in reply.body
        assert len(reply.body) < 600
    assert (await client.get("/v1/hooks")).json()["items"] == []


async def test_whoever_follows_events_by_a_bad_query_or_header_is_told_which(client: Client) -> None:
    for query, field in BAD_FOLLOWERS:
        assert (query[:80], (await client.get(f"/v1/events?{query}")).fields) == (query[:80], [field])
    for values in (["x"], ["1 2"], ["1", "2"], ["\xb2"], ["9223372036854775808"], ["9" * 5000]):
        headers = [("Last-Event-ID", value) for value in values]
        assert (values, (await client.get("/v1/events", headers=headers)).fields) == (values, ["Last-Event-ID"])


async def test_a_bad_target_is_422_and_names_its_field(client: Client) -> None:
    for target, field in TARGETS:
        reply = await client.post("/v1/sessions", {"target": target})
        assert (target, reply.status, reply.fields) == (target, 422, [field])
        assert CANARY.encode() not in reply.body


async def test_a_bad_query_is_422_and_names_its_parameter(client: Client, acme: str) -> None:
    lists = (
        "/v1/sessions",
        "/v1/inbound",
        "/v1/hooks",
        "/v1/keys",
        "/v1/tenants",
        f"{acme}/messages",
        f"{acme}/opt-outs",
    )
    for query, field in QUERIES:
        for path in lists:
            assert (query[:80], (await client.get(f"{path}?{query}")).fields) == (query[:80], [field])


async def test_a_bad_message_to_a_tenant_names_its_field(client: Client, acme: str) -> None:
    for body in (b"", b"{", b"\xef\xbb\xbf" + email(), email() + b"x", b"[" * 100_000):
        reply = await client.post(f"{acme}/messages", body)
        assert (body[:80], reply.status, reply.reason) == (body[:80], 400, "not-json")
    for body, field in BAD_MESSAGES:
        reply = await client.post(f"{acme}/messages", body)
        assert (body[:80], reply.status, reply.fields) == (body[:80], 422, [field])
        assert CANARY.encode() not in reply.body
        assert len(reply.body) < 600
    assert (await client.get(f"{acme}/messages")).json()["items"] == []


async def test_a_bad_query_of_messages_names_its_parameter(client: Client, acme: str) -> None:
    for query, field in MESSAGE_QUERIES:
        assert (query, (await client.get(f"{acme}/messages?{query}")).fields) == (query, [field])
    for query in ("tag=%25", "tag=%22%5D", "tag=" + "%F0%9F%93%AE" * 100, "since=0001-01-01T00:00:00Z", "limit=1000"):
        assert (query, (await client.get(f"{acme}/messages?{query}")).status) == (query, 200)


async def test_acting_on_a_message_of_no_tenant_is_404(client: Client, acme: str) -> None:
    for message_id in ("0", LONG, "%F0%9F%93%AE", "%25", "%27"):
        for verb in ("cancel", "retry"):
            assert (await client.post(f"{acme}/messages/{message_id}/{verb}")).reason == "not-found"


async def test_a_path_that_names_nothing_is_404(client: Client, acme: str) -> None:
    for path in NOWHERE:
        for method in ("GET", "HEAD", "POST", "PATCH", "DELETE"):
            reply = await client.request(method, path, {})
            allowed = reply.headers.get("allow", method).split(", ")
            assert (path[:80], method, reply.status) == (path[:80], method, 404 if method in allowed else 405)


async def test_acting_on_a_message_that_cannot_be_is_404(client: Client) -> None:
    for number in ("0", "9223372036854775807", "9223372036854775808", "x"):
        assert (await client.post(f"/v1/inbound/{number}/retry")).reason == "not-found"
        assert (await client.post(f"/v1/inbound/{number}/expire")).reason == "not-found"
        assert (await client.post(f"/v1/hooks/{number}/retry")).reason == "not-found"


async def test_ids_as_long_as_they_may_be_work_on_every_database(client: Client) -> None:
    target = {"kind": "python", "name": WIDE[:100]}
    assert (await client.post("/v1/sessions", {"session_id": WIDE[:200], "target": target})).status == 201
    new = {"session_id": WIDE[:200], "origin": WIDE[:64], "content": "x", "source_message_id": WIDE + WIDE[:12]}
    assert (await client.post("/v1/inbound", new)).status == 202
    assert (await client.post("/v1/inbound", new)).status == 200
    stored = await client.post("/v1/hooks", {"session_id": WIDE[:200], "event_type": WIDE[:64]})
    assert stored.status == 202
    assert (await client.get(f"/v1/hooks/{stored.json()['id']}")).json()["event_type"] == WIDE[:64]


async def test_duplicate_keys_and_integral_floats_are_taken(client: Client, session: str) -> None:
    body = b'{"session_id":"zz","session_id":"s1","origin":"test","content":"x","payload":{"n":2.0}}'
    stored = (await client.post("/v1/inbound", body)).json()
    assert (await client.get(f"/v1/inbound/{stored['id']}")).json()["payload_json"] == '{"n": 2.0}'


async def test_headers_beyond_64_kib_are_431(client: Client) -> None:
    reply = await client.get("/v1/sessions", headers=[("x-long", "x" * 65_536)])
    assert (reply.status, reply.reason) == (431, "headers-too-large")
    many = await client.get("/v1/sessions", headers=[(f"x-{number}", "x" * 50) for number in range(1200)])
    assert many.status == 431
    assert (await client.get("/v1/sessions", headers=[("x-long", "x" * 60_000)])).status == 200


async def test_a_body_beyond_16_mib_is_413_however_it_comes(client: Client, session: str) -> None:
    declared = [("host", "localhost"), ("authorization", f"Bearer {ADMIN_KEY}"), ("content-length", str(2**24 + 1))]
    refused = await client.exchange("POST", b"/v1/inbound", declared, [])
    assert (refused.status, refused.reason, refused.headers["connection"]) == (413, "too-large", "close")
    chunked = await client.exchange("POST", b"/v1/inbound", declared[:2], [b" " * 2**20] * 17)
    assert chunked.status == 413
    lied = [*declared[:2], ("content-length", "9" * 40)]
    assert (await client.exchange("POST", b"/v1/inbound", lied, [b"{}"])).status == 413


async def test_a_body_of_just_16_mib_is_read(client: Client, session: str) -> None:
    body = message(content="x" * (2**24 - len(message()) + 1))
    assert len(body) == 2**24
    assert (await client.post("/v1/inbound", body)).status == 202
