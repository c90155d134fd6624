import json
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from pillarbox.errors import InvalidInput
from pillarbox.outbound.providers.twilio import CODES, Twilio
from tests.outbound.provider_contract import Stage, documented

FIELDS = json.loads((Path(__file__).parents[1] / "specs" / "twilio_create_message.json").read_text())
STAGE = Stage(Twilio(), documented("twilio"))
SERVICE = "MG" + "a1" * 16


def form(**changes: Any) -> dict[str, list[str]]:
    return parse_qs(STAGE.request(**changes).body.decode(), strict_parsing=True)


def test_a_text_is_posted_to_the_accounts_messages() -> None:
    request = STAGE.request()
    sid, token = STAGE.documented["secrets"].values()
    assert (request.method, request.url) == (
        "POST",
        f"https://provider.example/base/2010-04-01/Accounts/{sid}/Messages.json",
    )
    assert b64decode(request.headers["authorization"].removeprefix("Basic ")).decode() == f"{sid}:{token}"
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"


def test_the_form_says_to_from_and_body() -> None:
    assert form(text="Grüße & 1+1=2 🎉") == {
        "To": ["+15551234567"],
        "From": ["+15005550006"],
        "Body": ["Grüße & 1+1=2 🎉"],
    }


@pytest.mark.parametrize("sender", ["+15005550006", "ACME", "55555", "MGshort"])
def test_a_number_a_short_code_and_a_name_are_senders(sender: str) -> None:
    assert form(sender=sender)["From"] == [sender]


def test_a_messaging_service_is_named_as_one() -> None:
    sent = form(sender=SERVICE)
    assert sent["MessagingServiceSid"] == [SERVICE]
    assert "From" not in sent


def test_a_tenant_may_ask_for_status_callbacks() -> None:
    account = replace(STAGE.account(), options={"status_callback": "https://acme.example/status?a=1&b=2"})
    body = Twilio().request(STAGE.message(), account).body.decode()
    assert parse_qs(body)["StatusCallback"] == ["https://acme.example/status?a=1&b=2"]


def test_every_field_is_one_that_twilio_describes() -> None:
    account = replace(STAGE.account(), options={"status_callback": "https://acme.example/status"})
    for sender in ("+15005550006", SERVICE):
        sent = parse_qs(Twilio().request(STAGE.message(sender=sender), account).body.decode())
        assert set(FIELDS["required"]) <= set(sent) <= set(FIELDS["fields"])


def test_an_account_cannot_lead_to_another_path() -> None:
    url = Twilio().request(STAGE.message(), STAGE.account(account_sid="../../x?y#z")).url
    assert url == "https://provider.example/base/2010-04-01/Accounts/..%2F..%2Fx%3Fy%23z/Messages.json"


def test_a_text_from_nobody_is_refused_by_the_fields_name() -> None:
    with pytest.raises(InvalidInput) as refused:
        form(sender=None)
    assert refused.value.field == "from"


def test_every_code_of_the_table_has_a_documented_answer() -> None:
    answered = {answer["body"].get("code") for answer in STAGE.documented["answers"] if "body" in answer}
    assert set(CODES) <= answered


def test_only_an_unsubscribed_recipient_is_opted_out_and_only_an_unknown_error_gets_one_last_chance() -> None:
    assert [code for code, meaning in CODES.items() if meaning.opt_out] == [21610]
    assert [code for code, meaning in CODES.items() if meaning.last_chance] == [30008]
