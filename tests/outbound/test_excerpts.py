"""What was asked and answered is kept in short, and no provider can make us keep what it should not have said."""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from random import Random
from urllib.parse import quote

import pytest

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.outbound.excerpts import with_exchange
from pillarbox.outbound.messages import Email, Message, Sms, Webhook
from pillarbox.outbound.model import Attempt
from pillarbox.outbound.provider import Account, Outgoing, Request, Response, Verdict
from tests.api.client import ADMIN_KEY, Client
from tests.outbound.disguised import DISGUISES, told
from tests.outbound.end_to_end import CREDENTIALS, SIGNING_SECRET, TENANT, drained, sending_box
from tests.servers.provider_servers import Answer, Call, ProviderServer, provider_server

MAILBOX, COPY, NUMBER = "ann.the.recipient@people.example", "bob.copied@people.example", "+14155550171"
HEADER, TEXT = "the-value-of-a-header-9f2", "These are the words of the message."
MAIL = Email(to=MAILBOX, cc=[COPY], subject="A subject of its own", text=TEXT)
SMS = Sms(to=NUMBER, text=TEXT)


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with provider_server() as server:
        yield server


@pytest.fixture
async def box(database_url: str, server: ProviderServer) -> AsyncIterator[Pillarbox]:
    async with sending_box(database_url, server) as box:
        yield box


async def attempt_of(box: Pillarbox, message: Message) -> Attempt:
    message_id = await box.outbound.send(TENANT, message)
    await drained(box)
    (attempt,) = (await box.outbound.get(message_id)).attempts
    return attempt


def webhook(server: ProviderServer) -> Webhook:
    url = f"{server.origin}/hooks/orders?token=query-of-the-url"
    return Webhook(url=url, body={"said": TEXT}, headers={"Authorization": f"Bearer {HEADER}", "X-Own": HEADER})


async def test_an_attempt_shows_what_was_asked_and_the_beginning_of_the_answer(
    box: Pillarbox, server: ProviderServer
) -> None:
    shown = {"Content-Type": "text/plain", "Retry-After": "7", "X-Request-Id": "req-1"}
    server.arrange = lambda call: Answer(503, {**shown, "Set-Cookie": "a=b", "X-Own": "c"}, b"try later " * 200)
    attempt = await attempt_of(box, SMS)
    assert attempt.request == f"POST {server.origin}/2010-04-01/Accounts/***/Messages.json"
    head, _, body = (attempt.response or "").partition("\n\n")
    assert head.split("\n") == ["503", *(f"{name.lower()}: {value}" for name, value in shown.items())]
    assert (body.startswith("try later try"), len(body), body[-1]) == (True, 500, "…")
    attempt = await attempt_of(box, webhook(server))
    assert attempt.request == f"POST {server.origin}/hooks/orders"
    assert attempt.response == f"{head}\n\n(2000 bytes that are not kept, as they may quote the message)"


async def test_an_accepted_attempt_keeps_no_more_than_its_status(box: Pillarbox) -> None:
    attempt = await attempt_of(box, SMS)
    assert (attempt.outcome, attempt.request, attempt.response) == ("accepted", None, None)
    assert attempt.status_code is not None


async def test_what_got_no_answer_shows_what_was_asked(box: Pillarbox, server: ProviderServer) -> None:
    server.arrange = lambda call: Answer(way="reset")
    attempt = await attempt_of(box, webhook(server))
    assert (attempt.request, attempt.response) == (f"POST {server.origin}/hooks/orders", None)


KNOWN = {
    "sendgrid": [CREDENTIALS["E2E_SENDGRID_KEY"], MAILBOX, MAILBOX.upper(), MAILBOX.partition("@")[0], COPY, TEXT],
    "twilio": [
        *(CREDENTIALS["E2E_TWILIO_SID"], CREDENTIALS["E2E_TWILIO_TOKEN"], TEXT),
        *(NUMBER, NUMBER[1:], "(415) 555-0171", "415.555.0171", "+1 415 555 01 71"),
    ],
    "webhook": [SIGNING_SECRET, HEADER, TEXT, "query-of-the-url"],
}


def echoing() -> Callable[[Call], Answer]:
    """One thing after another that came with a request, or that is known of the tenant and the message."""
    turns = {name: iter(range(10_000)) for name in KNOWN}

    def answer(call: Call) -> Answer:
        came = [*call.headers.values(), call.target, call.body.decode()]
        said = [form(text) for text in [*KNOWN[call.provider], *came] for form in DISGUISES.values()]
        parts = [said[next(turns[call.provider]) % len(said)] for _ in range(4)]
        body = "".join(f'{{"error": "{part}"}} <p>{part}</p>' for part in sorted(parts, key=len))
        return Answer(400, {"X-Request-Id": quote(parts[0])}, body.encode())

    return answer


FORBIDDEN = [
    *CREDENTIALS.values(),
    SIGNING_SECRET[6:],
    MAILBOX[:17],
    COPY[:10],
    "5550171",
    HEADER,
    TEXT,
    "query-of-the-url",
]


async def test_no_echo_of_a_secret_an_address_or_the_words_is_kept(box: Pillarbox, server: ProviderServer) -> None:
    server.arrange = echoing()
    ids = []
    for _ in range(60):
        for message in (MAIL, SMS, webhook(server)):
            ids.append(await box.outbound.send(TENANT, message))
    await drained(box)
    kept = [attempt for each in ids for attempt in (await box.outbound.get(each)).attempts]
    assert all(attempt.request and attempt.response for attempt in kept)
    assert max(len(attempt.response or "") for attempt in kept) < 1000
    for text in (f"{attempt.request}\n{attempt.response}" for attempt in kept):
        assert told(text, FORBIDDEN) == [], text


async def test_what_is_cut_in_two_is_not_kept_in_half(box: Pillarbox, server: ProviderServer) -> None:
    token = CREDENTIALS["E2E_TWILIO_TOKEN"]
    for cut in range(2, len(token), 3):
        # Only the first 1024 bytes of an answer are looked at, and they end within the last token.
        said = f"{token} " * 40
        said = " " * (1024 - cut - len(said)) + said + token * 3
        server.arrange = lambda call, said=said: Answer(400, {}, said.encode())  # type: ignore[misc]
        attempt = await attempt_of(box, SMS)
        assert attempt.response is not None
        assert token[:2] not in attempt.response.removeprefix("400")


async def test_an_answer_that_is_no_text_is_counted(box: Pillarbox, server: ProviderServer) -> None:
    server.arrange = lambda call: Answer(400, {}, bytes(range(256)) * 4)
    assert (await attempt_of(box, SMS)).response == "400\n\n(1024 bytes that are no text)"


async def test_operators_are_shown_it_tenants_are_not_and_it_is_forgotten_with_the_person(
    box: Pillarbox, server: ProviderServer
) -> None:
    server.arrange = lambda call: Answer(400, {}, b"no such number")
    message_id = await box.outbound.send(TENANT, SMS)
    await drained(box)
    admin = Client(create_app(box, admin_key=ADMIN_KEY))
    tenant = admin.with_key((await box.keys.create(tenant=TENANT)).key)
    path = f"/v1/tenants/{TENANT}/messages/{message_id}"
    (shown,), (hidden,) = [(await client.get(path)).json()["attempts"] for client in (admin, tenant)]
    assert (shown["response"], hidden["request"], hidden["response"]) == ("400\n\nno such number", None, None)
    assert hidden["error"] == shown["error"]
    await box.outbound.forget(TENANT, NUMBER)
    (left,) = (await admin.get(path)).json()["attempts"]
    assert (left["request"], left["response"], left["error"]) == (None, None, None)


PIECES = (
    *(
        "%",
        "\\u",
        "&#",
        "@",
        "+",
        "://",
        "bearer ",
        "=",
        "\0",
        "é",
        "==",
        "\\/",
        "1",
        "a",
        "%ff",
        "_-",
        '"',
        "\n",
        "\\ud83d",
    ),
    *("%E2%80%AE", CREDENTIALS["E2E_TWILIO_TOKEN"], NUMBER, MAILBOX),
)


def test_whatever_is_answered_can_be_kept_and_names_nobody() -> None:
    chance, at = Random(20261115), datetime(2026, 1, 1, tzinfo=UTC)
    account = Account("", {}, {"auth_token": CREDENTIALS["E2E_TWILIO_TOKEN"]})
    request = Request("POST", "https://provider.example/send?x=y", {"authorization": "Basic abc"})
    for _ in range(400):
        said = "".join(chance.choice(PIECES) for _ in range(chance.randrange(120)))
        body = chance.randbytes(chance.randrange(60)) + said.encode() * chance.randrange(30)
        message = Outgoing(
            message_id="m", tenant_id="t", channel="sms", to=NUMBER, attempt=1, at=at, created_at=at, text=said
        )
        answer = Response(500, {"content-type": said[:200]}, body)
        verdict = with_exchange(Verdict(judgement="unknown"), message, account, request, answer)
        kept = f"{verdict.request}\n{verdict.response}"
        assert kept.encode(), "it is text that can be stored"
        assert [word for word in (CREDENTIALS["E2E_TWILIO_TOKEN"], NUMBER, MAILBOX, "\0") if word in kept] == []
        assert len(kept) < 2000


@pytest.mark.parametrize("depth", [480, 900, 1800])
async def test_however_an_answer_is_nested_a_refusal_is_one(box: Pillarbox, server: ProviderServer, depth: int) -> None:
    server.arrange = lambda call: Answer(400, {"Content-Type": "application/json"}, b"[" * depth + b"]" * depth)
    attempt = await attempt_of(box, SMS)
    assert (attempt.outcome, attempt.status_code) == ("rejected", 400)
