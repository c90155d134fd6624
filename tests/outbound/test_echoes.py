"""Whatever a server says again, however it writes it: no secret, no address and nothing of the message is kept."""

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pillarbox.outbound.excerpts import with_exchange, with_own_words
from pillarbox.outbound.model import Channel
from pillarbox.outbound.provider import Account, Attachment, Outgoing, Request, Response, Verdict
from tests.outbound.disguised import DISGUISES, told

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
REFUSED = Verdict(judgement="rejected", error="Refused.", status_code=400)
SECRETS = {"api_key": 'p"a\\s+s/w', "auth_token": 'SG.a"key\\of+the/tests'}
NAME, PASSWORD, COOKIE, OTHER = "joe.signs.in", 'hunter2"p\\w+', "topsecret99", "Ab3+Cd9/x"
MAILBOX, NUMBER = "ann.recipient@people.example", "+14155550171"
HEADERS = {
    "Authorization": f"Basic {b64encode(f'{NAME}:{PASSWORD}'.encode()).decode()}",
    "Cookie": f"theme=1; session={COOKIE}",
    "X-Pin": "482177",
}
CODE, LINE, IBAN, CARD = "482913", "Your code is 482913, dear Ann Smith.", "DE8937", 4111111111111111
MESSAGES: dict[Channel, Outgoing] = {
    "email": Outgoing(
        message_id="m",
        tenant_id="t",
        channel="email",
        to=f"Ann Smith <{MAILBOX}>",
        attempt=1,
        at=NOON,
        created_at=NOON,
        subject="Hofmann & Partner",
        text=LINE,
        html=f"<p>{LINE}</p>",
        attachments=(Attachment("Kündigung.txt", "text/plain", b"Notice of termination"),),
    ),
    "sms": Outgoing(
        message_id="m", tenant_id="t", channel="sms", to=NUMBER, attempt=1, at=NOON, created_at=NOON, text=CODE
    ),
    "push": Outgoing(
        message_id="m",
        tenant_id="t",
        channel="push",
        to="device-token-of-ann",
        attempt=1,
        at=NOON,
        created_at=NOON,
        text="4829",
        data={"balance": "EUR 12000 on account", "pin": 7351},
    ),
    "webhook": Outgoing(
        message_id="m",
        tenant_id="t",
        channel="webhook",
        to="https://receiver.example/hook",
        attempt=1,
        at=NOON,
        created_at=NOON,
        headers=HEADERS,
        body=json.dumps({"card": CARD, "iban": IBAN, "note": 'say "hello" to Ann Smith', "type": "vip"}).encode(),
    ),
}
SAID: dict[Channel, list[str]] = {
    "email": ["Hofmann & Partner", LINE, LINE[:20], "Ann Smith", MAILBOX, "ann.recipient", "Notice of termination"],
    "sms": [CODE, NUMBER, NUMBER[1:], "(415) 555-0171"],
    "push": ["4829", "EUR 12000 on account", "7351", "device-token-of-ann"],
    "webhook": [str(CARD), IBAN, 'say "hello" to Ann Smith', "vip"],
}
PROOFS = [*SECRETS.values(), NAME, PASSWORD, f"{NAME}:{PASSWORD}", COOKIE, OTHER, "S3cretTokn", "482177"]
# A word of a few letters is known only where it stands by itself.
SHORT, BROKEN = 6, ("in base64 after another letter", "in base64 after two letters", "in two lines")
PLACES: dict[str, Callable[[str], str]] = {
    "in a sentence": lambda text: f"Refused because of {text} in it",
    "in JSON": lambda text: json.dumps({"error": {"code": text, "detail": text}}),
    "as a name in JSON": lambda text: json.dumps({text: ["is not wanted"]}),
    "in a page": lambda text: f"<p title='{text}'>{text}</p>",
}


def kept(channel: Channel, body: str, request_id: str = "req-1") -> str:
    request = Request("POST", f"https://receiver.example/hook?S3cretTokn&sig={OTHER}", HEADERS)
    answer = Response(400, {"x-request-id": request_id.replace("\n", " ")}, body.encode())
    verdict = with_exchange(REFUSED, MESSAGES[channel], Account("", {}, SECRETS), request, answer)
    return f"{verdict.request}\n{verdict.response}"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("channel", MESSAGES)
def test_nothing_that_was_told_to_a_server_is_kept_of_its_answer(channel: Channel, place: str) -> None:
    for word in [*PROOFS, *SAID[channel]]:
        for name, disguise in DISGUISES.items():
            if len(word) < SHORT and name in BROKEN:
                continue
            text = kept(channel, PLACES[place](disguise(word)), request_id=disguise(word))
            assert told(text, [word]) == [], (word, name, text)


def test_each_disguise_would_be_seen_through() -> None:
    for word in [*PROOFS, LINE]:
        for name, disguise in DISGUISES.items():
            seen = told(disguise(word), [word]) or told(disguise(word), ["".join(filter(str.isalnum, word))])
            assert seen, (word, name)
    assert told("Nothing of it stands here", [*PROOFS, LINE]) == []


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_mail_server_that_quotes_the_mail_is_remembered_by_its_codes(disguise: str) -> None:
    message, account = MESSAGES["email"], Account("", {}, SECRETS)
    for word in (LINE, "Hofmann & Partner"):
        said = f"554 5.7.1 Refused: {DISGUISES[disguise](word)}"
        response = with_own_words(replace(REFUSED, response=said), message, account).response
        assert response is not None
        assert response.startswith("554 5.7.1 (")
        assert told(response, [word, "Hofmann"]) == []


def test_what_a_provider_says_of_its_own_accord_is_kept() -> None:
    answer = {"code": 21211, "message": "The 'To' number is not valid.", "more_info": "https://t.example/21211"}
    assert kept("sms", json.dumps(answer)).endswith(json.dumps(answer))
    assert kept("email", "550 no such mailbox").endswith("\n550 no such mailbox")
    quoting = kept("sms", json.dumps({**answer, "body": f"<{CODE}>"}))
    assert quoting.endswith(json.dumps({**answer, "body": "***"}))


def test_of_a_webhook_only_the_codes_are_kept() -> None:
    answer = {"error": {"code": "rate_limited", "status": 429, "type": "vip", "text": "whatever"}, "echo": "anything"}
    assert kept("webhook", json.dumps(answer)).endswith('\n{"error": {"code": "rate_limited", "status": 429}}')
    assert kept("webhook", "whatever").endswith("\n(8 bytes that are not kept, as they may quote the message)")


def test_what_is_too_much_to_be_looked_for_is_not_kept_at_all() -> None:
    words = {f"X-{number}": " ".join(f"word-{number}-{each}" for each in range(60)) for number in range(64)}
    request = Request("POST", "https://receiver.example/hook", words)
    answer = Response(400, {"x-request-id": "word-9-1"}, b"word-63-59")
    verdict = with_exchange(REFUSED, MESSAGES["sms"], Account("", {}, SECRETS), request, answer)
    assert verdict.response == "400\nx-request-id: ***\n\n***"
    mail = replace(MESSAGES["email"], text="x" * 40_000 + "the end of it")
    plain = Request("POST", "https://receiver.example/hook", {})
    verdict = with_exchange(REFUSED, mail, Account(""), plain, Response(400, {}, b"the end of it"))
    assert verdict.response == "400\n\n(13 bytes that are not kept, as they may quote the message)"
