import hmac
from base64 import b64decode
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook as Receiver

from pillarbox.errors import InvalidInput
from pillarbox.outbound.provider import Account, Request
from pillarbox.outbound.providers.webhook import Webhook
from tests.outbound.provider_contract import AT, MESSAGE_ID, Stage, documented

STAGE = Stage(Webhook(), documented("webhook"))
CURRENT, PREVIOUS = STAGE.documented["secrets"].values()


def request(account: Account, **changes: Any) -> Request:
    return Webhook().request(STAGE.message(**changes), account)


def signed_by(**secrets: str) -> Account:
    return Account("", {}, secrets)


def test_the_url_the_method_and_the_bytes_go_out_as_given() -> None:
    url = "https://hooks.example.com/a%2Fb//c/../d?x=%20&x=+"
    sent = request(signed_by(), to=url, method="PUT", body=b'{"a": 1.0}')
    assert (sent.method, sent.url, sent.body) == ("PUT", url, b'{"a": 1.0}')


def test_callers_headers_go_along_and_the_body_is_json() -> None:
    sent = request(signed_by(), headers={"Authorization": "Token t", "X-Note": "Zoë"})
    assert sent.headers == {
        "Authorization": "Token t",
        "X-Note": "Zoë",
        "content-type": "application/json",
        "webhook-id": MESSAGE_ID,
        "webhook-timestamp": str(int(AT.timestamp())),
    }


def test_a_caller_may_say_what_the_body_is() -> None:
    sent = request(signed_by(), headers={"Content-Type": "application/cloudevents+json"})
    assert [value for name, value in sent.headers.items() if name.lower() == "content-type"] == [
        "application/cloudevents+json"
    ]


def test_a_request_without_a_body_names_no_content_type() -> None:
    sent = request(signed_by(), method="GET", body=None)
    assert sent.body == b""
    assert "content-type" not in sent.headers


@given(body=st.text().map(str.encode))
def test_a_signature_verifies_over_the_exact_bytes(body: bytes) -> None:
    sent = request(signed_by(signing_secret=CURRENT), body=body, at=datetime.now(UTC))
    Receiver(CURRENT).verify(sent.body, dict(sent.headers), json_parse=False)
    with pytest.raises(Exception, match="No matching signature"):
        Receiver(CURRENT).verify(sent.body + b" ", dict(sent.headers), json_parse=False)


def test_while_a_secret_is_changed_both_verify_and_the_current_one_comes_first() -> None:
    sent = request(signed_by(previous_signing_secret=PREVIOUS, signing_secret=CURRENT), at=datetime.now(UTC))
    for secret in (CURRENT, PREVIOUS):
        Receiver(secret).verify(sent.body, dict(sent.headers), json_parse=False)
    first, second = sent.headers["webhook-signature"].split(" ")
    alone = request(signed_by(signing_secret=CURRENT), at=STAGE.message().at).headers["webhook-signature"]
    both = request(signed_by(previous_signing_secret=PREVIOUS, signing_secret=CURRENT)).headers["webhook-signature"]
    assert both.split(" ")[0] == alone
    assert first != second


def test_each_attempt_has_its_own_time_and_the_same_id() -> None:
    account = signed_by(signing_secret=CURRENT)
    first, second = request(account), request(account, attempt=2, at=AT.replace(minute=1))
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == MESSAGE_ID
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 60
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


def test_without_a_secret_nothing_is_signed() -> None:
    headers = request(replace(signed_by(), options={"signature_header": "X-Acme-Signature"})).headers
    assert not {"webhook-signature", "X-Acme-Signature"} & set(headers)


def test_a_tenant_may_have_a_plain_hmac_of_the_body_in_a_header_of_its_choice() -> None:
    sent = STAGE.request()
    key = b64decode(CURRENT.removeprefix("whsec_"))
    assert sent.headers["X-Acme-Signature"] == hmac.new(key, sent.body, sha256).hexdigest()


@pytest.mark.parametrize("name", ["Webhook-Id", "WEBHOOK-SIGNATURE", "webhook-timestamp", "x-acme-signature"])
def test_no_caller_can_forge_what_we_say(name: str) -> None:
    sent = STAGE.request(headers={name: "forged"})
    assert "forged" not in sent.headers.values()


@pytest.mark.parametrize("padded", ["whsec_Y2FuYXJ5IQ==", "whsec_Y2FuYXJ5IQ"])
def test_a_secret_may_come_with_or_without_padding(padded: str) -> None:
    sent = request(signed_by(signing_secret=padded), at=datetime.now(UTC))
    Receiver(b"canary!").verify(sent.body, dict(sent.headers), json_parse=False)


@pytest.mark.parametrize("secret", ["Y2FuYXJ5IQ==", "whsec_", "whsec_ä", "whsec_a b c", "whsk_Y2FuYXJ5IQ=="])
def test_a_secret_that_is_none_is_refused_without_being_quoted(secret: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        request(signed_by(signing_secret=secret))
    assert refused.value.field == "credentials.signing_secret"
    assert secret not in str(refused.value).replace("whsec_ followed", "")


@pytest.mark.parametrize(
    "url", ["https://hooks.example.com/a b", "https://hooks.example.com/\n", "https://höoks.example"]
)
def test_a_url_that_would_break_the_request_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        request(signed_by(), to=url)
