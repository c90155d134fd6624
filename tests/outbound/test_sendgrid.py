import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pillarbox.errors import InvalidInput
from pillarbox.outbound.provider import Attachment
from pillarbox.outbound.providers.sendgrid import SendGrid
from tests.outbound.provider_contract import MESSAGE_ID, Stage, documented

SCHEMA = json.loads((Path(__file__).parents[1] / "specs" / "sendgrid_mail_send.json").read_text())
STAGE = Stage(SendGrid(), documented("sendgrid"))


def mail(**changes: Any) -> Any:
    return json.loads(STAGE.request(**changes).body)


def test_a_mail_is_posted_with_the_tenants_key() -> None:
    request = STAGE.request()
    assert (request.method, request.url) == ("POST", "https://provider.example/base/v3/mail/send")
    assert request.headers["authorization"] == "Bearer SG.canary-of-the-api-key"
    assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"html": None},
        {"text": None},
        {"subject": None},
        {"sender": "hello@acme.example"},
        {
            "cc": ["Bob <bob@example.com>"],
            "bcc": ["eve@example.com"],
            "reply_to": "Help <help@acme.example>",
            "headers": {"X-Campaign": "spring"},
            "attachments": [Attachment("a.pdf", "application/pdf", b"%PDF")],
            "unsubscribe_url": "https://acme.example/u/abc",
        },
    ],
)
def test_every_mail_fits_the_published_description(changes: dict[str, Any]) -> None:
    assert [fault.message for fault in Draft202012Validator(SCHEMA).iter_errors(mail(**changes))] == []


def test_the_description_would_notice_an_unknown_field() -> None:
    assert not Draft202012Validator(SCHEMA).is_valid({**mail(), "tags": []})


def test_a_mail_carries_its_people_text_and_id() -> None:
    sent = mail(cc=["Bob <bob@example.com>"], bcc=["eve@example.com"], reply_to="Help <help@acme.example>")
    assert sent["personalizations"] == [
        {
            "to": [{"email": "ada@example.com"}],
            "cc": [{"email": "bob@example.com", "name": "Bob"}],
            "bcc": [{"email": "eve@example.com"}],
        }
    ]
    assert sent["from"] == {"email": "hello@acme.example", "name": "Acme"}
    assert sent["reply_to"] == {"email": "help@acme.example", "name": "Help"}
    assert sent["subject"] == "Hello"
    assert sent["content"] == [
        {"type": "text/plain", "value": "Hello Ada"},
        {"type": "text/html", "value": "<p>Hello Ada</p>"},
    ]
    assert sent["custom_args"] == {"message_id": MESSAGE_ID}


def test_nobody_is_named_twice_which_sendgrid_would_refuse() -> None:
    sent = mail(cc=["ADA@example.com", "bob@example.com", "bob@example.com"], bcc=["Bob <bob@example.com>"])
    assert sent["personalizations"] == [{"to": [{"email": "ada@example.com"}], "cc": [{"email": "bob@example.com"}]}]


def test_files_go_along_in_base64() -> None:
    (file,) = mail(attachments=[Attachment("Zoë.pdf", "application/pdf", b"\x00\xff")])["attachments"]
    assert file == {
        "content": b64encode(b"\x00\xff").decode(),
        "type": "application/pdf",
        "filename": "Zoë.pdf",
        "disposition": "attachment",
    }


def test_a_marketing_mail_can_be_unsubscribed_with_one_click() -> None:
    headers = mail(unsubscribe_url="https://acme.example/u/abc", headers={"list-unsubscribe": "<mailto:x>"})["headers"]
    assert headers["List-Unsubscribe"] == "<https://acme.example/u/abc>"
    assert headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert "list-unsubscribe" not in headers


def test_a_transactional_mail_offers_no_unsubscription() -> None:
    assert not any(name.lower().startswith("list-") for name in mail()["headers"])


def test_callers_headers_stay_and_ours_are_added() -> None:
    headers = mail(headers={"X-Campaign": "spring", "auto-submitted": "auto-replied"})["headers"]
    assert headers == {"X-Campaign": "spring", "auto-submitted": "auto-replied", "X-Pillarbox-Id": MESSAGE_ID}
    assert mail()["headers"]["Auto-Submitted"] == "auto-generated"


@pytest.mark.parametrize("to", ["a@b.example, e@x.example", "g: a@b.example, c@d.example;", "nobody", ""])
def test_one_field_holds_one_mailbox(to: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        mail(to=to)
    assert refused.value.field == "to"


def test_a_mail_from_nobody_is_refused_by_the_fields_name() -> None:
    with pytest.raises(InvalidInput) as refused:
        mail(sender=None)
    assert refused.value.field == "from"
