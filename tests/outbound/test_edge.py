import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillarbox.errors import InvalidInput
from pillarbox.outbound.edge import check_message, check_sender
from pillarbox.outbound.model import CHANNELS, Checked, NewAttachment, NewMessage

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
MIB = 1024 * 1024
SENDERS = {"email": "Acme <hello@acme.example>", "sms": "+15005550006"}
TO = {
    "email": "alice@example.com",
    "sms": "+15005550009",
    "push": "device-token",
    "webhook": "https://partner.example.com/lead",
    "voice": "+15005550009",
    "whatsapp": "+15005550009",
    "telegram": "12345",
    "discord": "81384788765712384",
    "slack": "C024BE91L",
    "inapp": "user-1",
}


def message(channel: str, **fields: Any) -> NewMessage:
    content = {} if channel == "webhook" or "text" in fields else {"text": "Hello."}
    asked: dict[str, Any] = {"channel": channel, "to": TO[channel], **content, **fields}
    return NewMessage(**asked)


def checked(new: NewMessage, **context: Any) -> Checked:
    given: dict[str, Any] = {
        "sender": SENDERS.get(new.channel),
        "sender_required": True,
        "trusted": frozenset({"http://127.0.0.1:9000"}),
        "attachment_roots": ["/srv/files", "/data/"],
        "now": NOW,
    }
    return check_message(new, **{**given, **context})


def refusal(new: NewMessage, **context: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        checked(new, **context)
    return caught.value


def file(**fields: Any) -> NewAttachment:
    return NewAttachment(**{"filename": "a.txt", **fields})


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_an_email_is_complete_and_canonical() -> None:
    new = message(
        "email",
        to=" Alice@Example.COM ",
        subject="Grüße",
        html="<p>Hello.</p>",
        cc=("Bob <Bob@Example.com>",),
        bcc=("carol@Bücher.example",),
        reply_to="Help <HELP@acme.example>",
        headers={"X-Campaign": "7"},
        attachments=(file(content=base64.b64encode(b"hi").decode()),),
        tags=("spring", "new"),
    )
    stored = checked(new)
    assert stored.to == "alice@example.com"
    assert stored.contacts == ("alice@example.com", "bob@example.com", "carol@xn--bcher-kva.example")
    assert stored.options == {
        "from": "Acme <hello@acme.example>",
        "cc": ["Bob <bob@example.com>"],
        "bcc": ["carol@xn--bcher-kva.example"],
        "reply_to": "Help <help@acme.example>",
        "headers": {"X-Campaign": "7"},
    }
    assert (stored.subject, stored.text, stored.html) == ("Grüße", "Hello.", "<p>Hello.</p>")
    assert (stored.attachments, stored.tags, stored.body) == (new.attachments, ("spring", "new"), None)
    assert (stored.priority, stored.max_attempts, stored.category) == (100, None, "transactional")


def test_a_webhooks_url_is_kept_as_it_was_given_and_its_headers_apart() -> None:
    new = message(
        "webhook",
        to="https://Partner.example.com:443/Lead?a=%7e",
        body={"name": "Zoë", "n": [1, None, 2.5]},
        headers={"Authorization": "Bearer canary"},
    )
    stored = checked(new)
    assert stored.to == "https://Partner.example.com:443/Lead?a=%7e"
    assert stored.contacts == ("https://partner.example.com/Lead?a=%7e",)
    assert stored.body == '{"name":"Zoë","n":[1,null,2.5]}'
    assert stored.secret_headers == {"Authorization": "Bearer canary"}
    assert stored.options == {"method": "POST"}


@pytest.mark.parametrize(
    ("method", "body", "sent"),
    [
        (None, None, "null"),
        ("POST", {}, "{}"),
        ("PUT", "x", '"x"'),
        ("PATCH", 0, "0"),
        ("GET", None, None),
        ("DELETE", None, None),
        ("DELETE", [1], "[1]"),
        ("GET", False, "false"),
    ],
)
def test_a_webhook_sends_its_body_by_any_method(method: str | None, body: Any, sent: str | None) -> None:
    stored = checked(message("webhook", method=method, body=body))
    assert stored.body == sent
    assert stored.options["method"] == (method or "POST")


def test_a_push_carries_its_platform_and_data() -> None:
    stored = checked(message("push", subject="Title", platform="iOS", data={"a": {"b": 1}}))
    assert stored.options == {"platform": "ios", "data": {"a": {"b": 1}}}


@pytest.mark.parametrize("channel", CHANNELS)
def test_every_channel_takes_a_plain_message(channel: str) -> None:
    assert checked(message(channel)).contacts == (TO[channel],)


@pytest.mark.parametrize(
    ("channel", "field", "value"),
    [
        ("sms", "html", "<p>x</p>"),
        ("sms", "subject", "x"),
        ("sms", "attachments", (file(content="aGk="),)),
        ("sms", "cc", ("a@b.example",)),
        ("sms", "headers", {"X-A": "b"}),
        ("sms", "body", {}),
        ("email", "body", {}),
        ("email", "method", "POST"),
        ("email", "platform", "ios"),
        ("email", "data", {}),
        ("webhook", "text", "x"),
        ("webhook", "html", "x"),
        ("webhook", "subject", "x"),
        ("webhook", "from_", "a@b.example"),
        ("webhook", "attachments", (file(content="aGk="),)),
        ("webhook", "bcc", ("a@b.example",)),
        ("webhook", "reply_to", "a@b.example"),
        ("push", "html", "x"),
        ("push", "from_", "a@b.example"),
        ("push", "headers", {"X-A": "b"}),
        ("telegram", "subject", "x"),
        ("inapp", "html", "x"),
        ("voice", "html", "x"),
        ("whatsapp", "attachments", (file(content="aGk="),)),
    ],
)
def test_a_field_of_another_channel_is_refused(channel: str, field: str, value: Any) -> None:
    assert refusal(message(channel, **{field: value})).field == field.rstrip("_")


@pytest.mark.parametrize("field", ["template", "locale", "variables"])
def test_templates_come_later(field: str) -> None:
    value: Any = {} if field == "variables" else "x"
    refused = refusal(message("email", **{field: value}))
    assert refused.field == field
    assert "templates come later" in refused.detail


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (message("email", text=None), "text"),
        (message("email", text="", html=""), "text"),
        (message("sms", text=None), "text"),
        (message("sms", text=""), "text"),
        (message("push", text=None), "text"),
        (message("push", text=None, data={}), "text"),
        (message("voice", text=None), "text"),
        (message("whatsapp", text=None), "text"),
        (message("telegram", text=None), "text"),
        (message("inapp", text=None), "text"),
        (message("email", to=""), "to"),
        (message("sms", to=""), "to"),
        (message("webhook", to=""), "to"),
        (message("push", to=""), "to"),
    ],
)
def test_what_is_missing_is_named(new: NewMessage, field: str) -> None:
    assert refusal(new).field == field


@pytest.mark.parametrize(
    ("new", "field"),
    [
        # addresses
        (message("email", to="a@b.example, c@d.example"), "to"),
        (message("email", to="Alice <alice@example.com>"), "to"),
        (message("email", to="a@b.example\r\nBcc: c@d.example"), "to"),
        (message("email", cc=("bob@example.com", "nobody")), "cc.1"),
        (message("email", cc=("bob@example.com\nX: y",)), "cc.0"),
        (message("email", cc=("ALICE@example.com",)), "cc.0"),
        (message("email", cc=("bob@example.com",), bcc=("B <BOB@example.com>",)), "bcc.0"),
        (message("email", cc=tuple(f"u{n}@example.com" for n in range(100))), "cc"),
        (message("email", bcc=tuple(f"u{n}@example.com" for n in range(100))), "bcc"),
        (message("email", reply_to="a@b.example, c@d.example"), "reply_to"),
        (message("email", from_="Eve\r\nBcc: x@y.example <a@b.example>"), "from"),
        (message("email", from_=""), "from"),
        (message("sms", to="0476 12 34 56"), "to"),
        (message("sms", from_="nobody@example.com"), "from"),
        (message("sms", from_="A name much too long"), "from"),
        (message("sms", from_="Acme\n"), "from"),
        (message("push", to="two tokens"), "to"),
        # texts
        (message("email", subject="x" * 999), "subject"),
        (message("email", subject="a\r\nBcc: eve@example.com"), "subject"),
        (message("email", subject="a\x85b"), "subject"),
        (message("email", subject="a\u2028b"), "subject"),
        (message("email", subject="a\x7fb"), "subject"),
        (message("email", subject="a\tb"), "subject"),
        (message("push", subject="a\nb"), "subject"),
        (message("email", text="a\0b"), "text"),
        (message("email", text="a\ud800b"), "text"),
        (message("email", html="a\udfffb"), "html"),
        (message("email", text="x" * (MIB + 1)), "text"),
        (message("email", text="é" * (MIB // 2) + "x"), "text"),
        (message("email", html="€" * (MIB // 3) + "xx"), "html"),
        (message("sms", text="x" * 1601), "text"),
        (message("sms", text="a\0"), "text"),
        # JSON
        (message("webhook", body="x" * (MIB - 1)), "body"),
        (message("webhook", body="é" * (MIB // 2)), "body"),
        (message("webhook", body=deep(65)), "body"),
        (message("webhook", body={"a": ["\0"]}), "body.a.0"),
        (message("webhook", body={"a\ud800": 1}), "body.a\\ud800"),
        (message("webhook", body={"n": 2**64}), "body.n"),
        (message("webhook", body=float("nan")), "body"),
        (message("webhook", body=[float("inf")]), "body"),
        (message("webhook", body={1, 2}), "body"),
        (message("webhook", body=NOW), "body"),
        (message("webhook", body={(1, 2): 3}), "body"),
        (message("push", data={"a": "\0"}), "data.a"),
        (message("push", data={"a": deep(64)}), "data"),
        (message("push", data={"a": "x" * 65_536}), "data"),
        (message("push", platform="windows"), "platform"),
        # numbers, words, tags
        (message("email", priority=-1), "priority"),
        (message("email", priority=1001), "priority"),
        (message("email", priority=True), "priority"),
        (message("email", max_attempts=0), "max_attempts"),
        (message("email", max_attempts=21), "max_attempts"),
        (message("email", tags=("x",) * 51), "tags"),
        (message("email", tags=("ok", "")), "tags.1"),
        (message("email", tags=("x" * 65,)), "tags.0"),
        (message("email", tags=("a\nb",)), "tags.0"),
        (message("email", category="spam"), "category"),
        (message("webhook", method="BREW"), "method"),
        # instants
        (message("email", send_at=datetime(2030, 1, 1)), "send_at"),
        (message("email", expires_at=datetime(2030, 1, 1)), "expires_at"),
        (message("email", expires_at=NOW), "expires_at"),
        (message("email", expires_at=NOW - timedelta(days=1)), "expires_at"),
        (message("email", send_at=NOW + timedelta(2), expires_at=NOW + timedelta(1)), "expires_at"),
        (message("email", send_at=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))), "send_at"),
        (message("email", send_at=datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5)))), "send_at"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_its_field(new: NewMessage, field: str) -> None:
    assert refusal(new).field == field


@pytest.mark.parametrize(
    "new",
    [
        message("email", subject="x" * 998),
        message("email", subject=""),
        message("email", text="x" * MIB),
        message("email", text="é" * (MIB // 2)),
        message("email", text=None, html="<p>x</p>"),
        message("email", cc=tuple(f"u{n}@example.com" for n in range(99))),
        message("sms", text="x" * 1600),
        message("sms", text="ы" * 1600),
        message("webhook", body="x" * (MIB - 2)),
        message("webhook", body=deep(64)),
        message("webhook", body=2**64 - 1),
        message("push", text=None, subject="Title"),
        message("push", text=None, data={"a": "b"}),
        message("email", priority=0),
        message("email", priority=1000),
        message("email", max_attempts=1),
        message("email", max_attempts=20),
        message("email", tags=("x" * 64,) * 50),
        message("email", send_at=NOW - timedelta(days=1)),
        message("email", send_at=NOW + timedelta(1), expires_at=NOW + timedelta(1)),
        message("email", category="marketing"),
    ],
)
def test_every_limit_is_itself_allowed(new: NewMessage) -> None:
    assert checked(new).contacts[0] == TO[new.channel]


def test_instants_are_kept_in_utc() -> None:
    tokyo = timezone(timedelta(hours=9))
    stored = checked(message("email", send_at=datetime(2030, 1, 1, 9, tzinfo=tokyo)))
    assert stored.send_at == datetime(2030, 1, 1, tzinfo=UTC)
    assert stored.send_at is not None
    assert stored.send_at.tzinfo is UTC


@pytest.mark.parametrize(
    "url",
    [
        "http://partner.example.com/",
        "https://127.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://2130706433/",
        "https://user:canary@partner.example.com/",
        "ftp://partner.example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://exa\tmple.com/",
        "https://example.com\\@127.0.0.1/",
        " https://partner.example.com/",
        "https://partner.example.com/\r\nX: y",
        "https://" + "a" * 3000,
        "not a url",
    ],
)
def test_a_webhook_goes_nowhere_that_is_forbidden(url: str) -> None:
    for new, field in (
        (message("webhook", to=url), "to"),
        (message("email", attachments=(file(url=url),)), "attachments.0.url"),
    ):
        refused = refusal(new)
        assert refused.field == field
        assert "canary" not in str(refused)


def test_a_trusted_destination_is_taken() -> None:
    assert checked(message("webhook", to="http://127.0.0.1:9000/x")).to == "http://127.0.0.1:9000/x"
    assert refusal(message("webhook", to="http://127.0.0.1:9001/x")).field == "to"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Host",
            "content-length",
            "Transfer-Encoding",
            "Connection",
            "Keep-Alive",
            "TE",
            "Trailer",
            "Upgrade",
            "Expect",
        ),
        *("Proxy-Authorization", "Proxy-Connection", "webhook-id", "Webhook-Signature", "webhook-anything"),
    ],
)
def test_a_webhook_may_not_set_what_frames_or_signs_the_request(name: str) -> None:
    assert refusal(message("webhook", headers={name: "x"})).field == f"headers.{name}"


@pytest.mark.parametrize(
    "name",
    [
        *("From", "to", "CC", "Bcc", "Sender", "Reply-To", "Subject", "Date", "Message-ID", "Return-Path", "Received"),
        *("MIME-Version", "Content-Type", "content-disposition", "List-Unsubscribe", "list-unsubscribe-post"),
        *("Resent-Bcc", "DKIM-Signature", "X-Pillarbox-Id"),
    ],
)
def test_an_email_may_not_set_what_addresses_or_shapes_it(name: str) -> None:
    assert refusal(message("email", headers={name: "x"})).field == f"headers.{name}"


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"X-A": "b\r\nBcc: eve@example.com"}, "headers.X-A"),
        ({"X-A": "b\nc"}, "headers.X-A"),
        ({"X-A": "b\0c"}, "headers.X-A"),
        ({"X-A": "b\x85c"}, "headers.X-A"),
        ({"X-A": "b\u2028c"}, "headers.X-A"),
        ({"X-A": "\ud800"}, "headers.X-A"),
        ({"X-A\r\nB": "c"}, "headers.X-A\\u000d\\u000aB"),
        ({"X A": "b"}, "headers.X A"),
        ({"X-A:": "b"}, "headers.X-A:"),
        ({"": "b"}, "headers."),
        ({"X-Ä": "b"}, "headers.X-Ä"),
        ({"X-A": "b", "x-a": "c"}, "headers.x-a"),
        ({"X-A": "x" * 8190}, "headers.X-A"),
        ({"X-A": "é" * 4095}, "headers.X-A"),
        ({f"X-{n}": "b" for n in range(65)}, "headers"),
    ],
)
@pytest.mark.parametrize("channel", ["email", "webhook"])
def test_a_header_that_could_be_another_is_refused(channel: str, headers: dict[str, str], field: str) -> None:
    assert refusal(message(channel, headers=headers)).field == field


@pytest.mark.parametrize("channel", ["email", "webhook"])
def test_ordinary_headers_are_taken(channel: str) -> None:
    headers = {"X-A": "x" * 8189, "In-Reply-To": "<a@b>", "Authorization": "Basic eDp5", "X-Empty": ""}
    headers |= {f"X-{n}": "é" for n in range(60)}
    stored = checked(message(channel, headers=headers))
    assert (stored.secret_headers or stored.options["headers"]) == headers


@pytest.mark.parametrize(
    ("attachment", "field"),
    [
        (file(), ""),
        (file(content="aGk=", path="/srv/files/a"), ""),
        (file(content="aGk=", url="https://example.com/a"), ""),
        (file(path="/srv/files/a", url="https://example.com/a"), ""),
        (file(content="aGk"), ".content"),
        (file(content="aGk=\n"), ".content"),
        (file(content="a Gk="), ".content"),
        (file(content="aGk=aGk="), ".content"),
        (file(content="-_-_"), ".content"),
        (file(content="é==="), ".content"),
        (file(content="===="), ".content"),
        (file(content="aGk=\0"), ".content"),
        (file(content="A" * 20 * MIB), ".content"),
        (file(content="aGk=", filename=""), ".filename"),
        (file(content="aGk=", filename=".."), ".filename"),
        (file(content="aGk=", filename=" . "), ".filename"),
        (file(content="aGk=", filename="../../etc/passwd"), ".filename"),
        (file(content="aGk=", filename="a/b"), ".filename"),
        (file(content="aGk=", filename="a\\b"), ".filename"),
        (file(content="aGk=", filename="a\r\nb"), ".filename"),
        (file(content="aGk=", filename="a\0.txt"), ".filename"),
        (file(content="aGk=", filename="a\u2029b"), ".filename"),
        (file(content="aGk=", filename="x" * 256), ".filename"),
        (file(content="aGk=", content_type="text"), ".content_type"),
        (file(content="aGk=", content_type="text/plain\r\nX: y"), ".content_type"),
        (file(content="aGk=", content_type='text/plain; a="b\r\nX: y"'), ".content_type"),
        (file(content="aGk=", content_type="multipart/mixed"), ".content_type"),
        (file(content="aGk=", content_type=""), ".content_type"),
        (file(path="a.txt"), ".path"),
        (file(path="files/a.txt"), ".path"),
        (file(path="/etc/passwd"), ".path"),
        (file(path="/srv/files"), ".path"),
        (file(path="/srv/files/"), ".path"),
        (file(path="/srv/filesystem/a"), ".path"),
        (file(path="/srv/files/../secret"), ".path"),
        (file(path="/srv/files/a/.."), ".path"),
        (file(path="/srv/files/a\0b"), ".path"),
        (file(path="/srv/files/a\nb"), ".path"),
        (file(path=""), ".path"),
    ],
)
def test_an_attachment_that_must_not_be_sent_is_refused(attachment: NewAttachment, field: str) -> None:
    good = file(content="aGk=")
    assert refusal(message("email", attachments=(good, attachment))).field == f"attachments.1{field}"


@pytest.mark.parametrize(
    "attachment",
    [
        file(content=""),
        file(content="aGk=", filename="Rechnung März.pdf", content_type="application/pdf"),
        file(content="aGk=", content_type='text/plain; charset="utf-8"; format=flowed'),
        file(path="/srv/files/a.txt"),
        file(path="/data/x/..y/a.txt"),
        file(url="https://example.com/a.txt"),
        file(url="http://127.0.0.1:9000/a.txt"),
    ],
)
def test_ordinary_attachments_are_taken(attachment: NewAttachment) -> None:
    assert checked(message("email", attachments=(attachment,))).attachments == (attachment,)


def test_attachments_are_10_mib_in_all() -> None:
    half = base64.b64encode(bytes(5 * MIB)).decode()
    more = base64.b64encode(bytes(5 * MIB + 1)).decode()
    assert len(checked(message("email", attachments=(file(content=half), file(content=half)))).attachments) == 2
    assert refusal(message("email", attachments=(file(content=half), file(content=more)))).field == (
        "attachments.1.content"
    )
    assert refusal(message("email", attachments=(file(content="aGk="),) * 101)).field == "attachments"


def test_without_roots_no_file_is_read() -> None:
    new = message("email", attachments=(file(path="/srv/files/a.txt"),))
    assert refusal(new, attachment_roots=[]).field == "attachments.0.path"


@pytest.mark.parametrize("channel", ["email", "sms"])
def test_a_message_without_any_sender_is_refused_unless_nothing_is_sent(channel: str) -> None:
    assert refusal(message(channel), sender=None).field == "from"
    assert "from" not in checked(message(channel), sender=None, sender_required=False).options


@pytest.mark.parametrize("channel", ["push", "webhook", "voice", "telegram", "inapp"])
def test_other_channels_need_no_sender(channel: str) -> None:
    assert "from" not in checked(message(channel), sender=None).options


def test_the_messages_own_sender_comes_before_the_tenants() -> None:
    assert checked(message("email", from_="Other <X@acme.example>")).options["from"] == "Other <x@acme.example>"
    assert checked(message("sms", from_="+1 500 555 0001")).options["from"] == "+15005550001"


@pytest.mark.parametrize("sender", ["Acme", "ACME Shop-1", "12345", "MG" + "0a" * 16, "+15005550006"])
def test_a_text_may_come_from_a_name_a_short_code_or_a_service(sender: str) -> None:
    assert check_sender("from", "sms", sender) == sender


texts = st.text(max_size=30) | st.sampled_from(
    ["a@b.example", "+15005550006", "https://x.example/", "A <a@b.example>", ""]
)
words = st.none() | texts
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates() | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=6,
)
instants = st.none() | st.datetimes(timezones=st.none() | st.timezones())
attachments = st.builds(NewAttachment, filename=texts, content_type=words, content=words, path=words, url=words)
messages = st.builds(
    NewMessage,
    channel=st.sampled_from(CHANNELS),
    to=texts,
    subject=words,
    text=words,
    html=words,
    body=json_values,
    from_=words,
    cc=st.lists(texts, max_size=3).map(tuple),
    bcc=st.lists(texts, max_size=3).map(tuple),
    reply_to=words,
    attachments=st.lists(attachments, max_size=2).map(tuple),
    headers=st.dictionaries(texts, texts, max_size=3),
    method=st.none() | st.sampled_from(["POST", "GET"]),
    platform=words,
    data=st.none() | st.dictionaries(st.text(max_size=3), json_values, max_size=3),
    template=st.none(),
    priority=st.integers(),
    send_at=instants,
    expires_at=instants,
    max_attempts=st.none() | st.integers(),
    tags=st.lists(texts, max_size=3).map(tuple),
)


@settings(max_examples=300)
@given(messages, words)
def test_any_message_is_taken_or_refused_by_a_field(new: NewMessage, sender: str | None) -> None:
    try:
        stored = checked(new, sender=sender)
    except InvalidInput:
        return
    assert_storable(stored)


sparse = st.fixed_dictionaries(
    {"channel": st.sampled_from(CHANNELS), "to": texts},
    optional={
        "subject": texts,
        "text": texts,
        "html": texts,
        "body": json_values,
        "data": st.dictionaries(texts, json_values),
    },
)


@settings(max_examples=300)
@given(sparse, st.booleans())
def test_any_small_message_is_taken_or_refused_by_a_field(fields: dict[str, Any], usual: bool) -> None:
    new = NewMessage(**{**fields, "to": TO[fields["channel"]]} if usual else fields)
    try:
        stored = checked(new)
    except InvalidInput:
        return
    assert_storable(stored)


def assert_storable(stored: Checked) -> None:
    text = json.dumps(
        [stored.to, stored.contacts, stored.subject, stored.text, stored.body, stored.options, stored.tags]
    )
    assert "\\u0000" not in text
    assert stored.contacts[0]
    assert len(set(stored.contacts)) == len(stored.contacts)
    json.dumps(stored.options, ensure_ascii=False).encode()
    assert stored.body is None or json.loads(stored.body) == json.loads(stored.body.encode().decode())
