import base64
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from pillarbox.errors import InvalidInput
from pillarbox.outbound.messages import Email, Push, Sms, Webhook, attached
from pillarbox.outbound.model import NewAttachment, NewMessage

LATER = datetime(2030, 1, 1, tzinfo=UTC)
COMMON: dict[str, Any] = {
    "priority": 5,
    "send_at": LATER,
    "expires_at": LATER.replace(year=2031),
    "max_attempts": 3,
    "category": "marketing",
    "tags": ("spring",),
}


def test_an_email_is_the_message_that_the_api_takes() -> None:
    email = Email(
        to="alice@example.com",
        subject="Welcome",
        text="Hello.",
        html="<p>Hello.</p>",
        from_="Acme <hello@acme.example>",
        cc=["bob@example.com"],
        bcc=("carol@example.com",),
        reply_to="help@acme.example",
        attachments=[attached("a.txt", b"hi", content_type="text/plain"), NewAttachment(filename="b", path="/b")],
        headers={"X-Campaign": "7"},
        **COMMON,
    )
    assert email.new_message() == NewMessage(
        channel="email",
        to="alice@example.com",
        subject="Welcome",
        text="Hello.",
        html="<p>Hello.</p>",
        from_="Acme <hello@acme.example>",
        cc=("bob@example.com",),
        bcc=("carol@example.com",),
        reply_to="help@acme.example",
        attachments=(
            NewAttachment(filename="a.txt", content_type="text/plain", content=base64.b64encode(b"hi").decode()),
            NewAttachment(filename="b", path="/b"),
        ),
        headers={"X-Campaign": "7"},
        **COMMON,
    )


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        (Email(to="a@b.example", text="x"), {"channel": "email", "to": "a@b.example", "text": "x"}),
        (
            Sms(to="+15005550006", text="Hi", from_="Acme"),
            {"channel": "sms", "to": "+15005550006", "text": "Hi", "from": "Acme"},
        ),
        (
            Push(to="token", subject="T", text="x", data={"a": [1]}, platform="ios"),
            {"channel": "push", "to": "token", "subject": "T", "text": "x", "data": {"a": [1]}, "platform": "ios"},
        ),
        (
            Webhook(url="https://x.example/", body={"name": "Alice"}, headers={"X": "y"}),
            {
                "channel": "webhook",
                "to": "https://x.example/",
                "body": {"name": "Alice"},
                "method": "POST",
                "headers": {"X": "y"},
            },
        ),
        (
            Webhook(url="https://x.example/", body=[], method="PUT"),
            {"channel": "webhook", "to": "https://x.example/", "body": [], "method": "PUT"},
        ),
    ],
)
def test_each_class_is_the_json_of_its_channel(message: Email | Sms | Push | Webhook, asked: dict[str, Any]) -> None:
    assert message.new_message() == msgspec.convert(asked, NewMessage)


@pytest.mark.parametrize("kind", [Sms, Push, Email])
def test_every_class_has_the_fields_of_all_messages(kind: Any) -> None:
    message = kind(to="x", text="y", **COMMON).new_message()
    assert {name: getattr(message, name) for name in COMMON} == COMMON
    webhook = Webhook(url="x", **COMMON).new_message()
    assert {name: getattr(webhook, name) for name in COMMON} == COMMON


def anything(**fields: Any) -> Any:
    return Email(**{"to": "a@b.example", **fields})


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (anything(to=None), "to"),
        (anything(subject=b"x"), "subject"),
        (anything(cc="bob@example.com"), "cc"),
        (anything(cc=[None]), "cc.0"),
        (anything(from_=1), "from"),
        (anything(headers={"X": 1}), "headers"),
        (anything(headers={1: "x"}), "headers"),
        (anything(attachments=[{"filename": 1}]), "attachments.0.filename"),
        (anything(attachments=["a.txt"]), "attachments.0"),
        (anything(priority=1.5), "priority"),
        (anything(priority=True), "priority"),
        (anything(send_at="tomorrow"), "send_at"),
        (anything(category="canary"), "category"),
        (anything(tags="news"), "tags"),
        (Push(to="x", data={1: 2}), "data"),  # type: ignore[dict-item]
        (Webhook(url="x", method="BREW"), "method"),  # type: ignore[arg-type]
    ],
)
def test_a_value_of_a_wrong_kind_is_refused_by_its_field(message: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        message.new_message()
    assert caught.value.field == field
    assert "canary" not in str(caught.value)
    assert "`" not in str(caught.value)
