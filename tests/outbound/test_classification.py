"""What users get for every answer a provider can give, through a whole box: status, attempts, codes and the next time."""

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from email.utils import formatdate
from functools import partial
from itertools import pairwise
from typing import Literal, get_args

import pytest
import trustme

from pillarbox.box import Pillarbox
from pillarbox.errors import OptedOut
from pillarbox.outbound.client import Client
from pillarbox.outbound.messages import Email, Message, Sms, Webhook
from pillarbox.outbound.model import OutboundMessage
from tests.outbound.answer_tables import (
    CANARY,
    COMPUTED,
    RETRY_AFTER,
    SENDGRID,
    TWILIO,
    UNKNOWN,
    WEBHOOK,
    Ending,
    rejected,
    transient,
)
from tests.outbound.end_to_end import NUMBER, TENANT, drained, sending_box, until_ended
from tests.servers.provider_servers import Answer, ProviderServer, provider_server, twilio_error


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with provider_server() as server:
        yield server


def message_of(channel: str, label: str, origin: str) -> Message:
    match channel:
        case "email":
            return Email(to=f"{label}@example.com", subject="Hello", text="a body of the tests")
        case "sms":
            return Sms(to=NUMBER, text=label)
        case _:
            return Webhook(url=f"{origin}/{label}", body={"a": 1})


async def endings(
    box: Pillarbox, server: ProviderServer, channel: str, cases: Mapping[str, tuple[Answer, Ending]]
) -> tuple[dict[str, Ending], dict[str, Ending]]:
    """What became of a message for each case, and what should have."""
    answers = {f"case{n}": answer for n, (answer, _) in enumerate(cases.values())}
    server.arrange = lambda call: answers[call.label]
    ids = [await box.outbound.send(TENANT, message_of(channel, label, server.origin)) for label in answers]
    await drained(box)
    messages = [await box.outbound.get(message_id) for message_id in ids]
    expected = {name: ending for name, (_, ending) in cases.items()}
    found = {name: ending_of(message, expected[name]) for name, message in zip(cases, messages, strict=True)}
    for message in messages:
        check_books(message, channel)
    return found, expected


def ending_of(message: OutboundMessage, expected: Ending) -> Ending:
    [attempt] = message.attempts
    assert attempt.finished_at is not None
    wait = None
    if message.next_attempt_at is not None:
        least = (message.next_attempt_at - attempt.finished_at).total_seconds()
        most = (message.next_attempt_at - attempt.started_at).total_seconds()
        # The wait is counted from a moment within the attempt.
        wait = expected.wait if expected.wait is not None and least <= expected.wait <= most else round(most, 1)
    return Ending(message.status, str(attempt.outcome), attempt.status_code, wait)


def check_books(message: OutboundMessage, channel: str) -> None:
    """Whatever happened, the history tells one story and quotes nobody."""
    [attempt] = message.attempts
    accepted = attempt.outcome == "accepted"
    assert (message.attempt_count, attempt.attempt) == (1, 1)
    assert message.provider == attempt.provider == {"email": "sendgrid", "sms": "twilio"}.get(channel, "webhook")
    assert (message.sent_at is not None) is accepted
    assert (message.delivered_at is not None) is (message.status == "delivered")
    assert (message.failed_at is not None) is (message.status == "failed")
    assert (message.next_attempt_at is not None) is (message.status == "retrying")
    assert message.error_message == attempt.error
    assert (attempt.error is None) is accepted
    assert CANARY not in str(attempt.error)
    assert "127.0.0.1" not in str(attempt.error)


@pytest.mark.parametrize(
    ("channel", "cases"), [("email", SENDGRID), ("sms", TWILIO), ("webhook", WEBHOOK), ("webhook", RETRY_AFTER)]
)
async def test_every_documented_answer_ends_a_first_attempt_as_the_table_says(
    database_url: str, server: ProviderServer, channel: str, cases: dict[str, tuple[Answer, Ending]]
) -> None:
    async with sending_box(database_url, server, retry_after_max_seconds=3600) as box:
        found, expected = await endings(box, server, channel, cases)
    assert found == expected
    assert len(server.calls) == len(cases)


async def test_a_reset_of_sendgrids_limit_puts_the_next_attempt_off(sqlite_url: str, server: ProviderServer) -> None:
    now = int(time.time())
    headers = {"Date": formatdate(now, usegmt=True), "X-RateLimit-Reset": str(now + 150)}
    over = headers | {"X-RateLimit-Reset": str(now - 150)}
    cases = {
        "a reset": (Answer(429, headers), transient(429, 150)),
        "a reset that is over": (Answer(429, over), transient(429)),
        "a reset without throttling": (Answer(500, headers), transient(500)),
        "Retry-After goes first": (Answer(429, headers | {"Retry-After": "90"}), transient(429, 90)),
    }
    async with sending_box(sqlite_url, server) as box:
        found, expected = await endings(box, server, "email", cases)
    assert found == expected


@pytest.mark.parametrize("channel", ["email", "sms", "webhook"])
async def test_no_answer_in_time_is_unknown_and_tried_again(
    sqlite_url: str, server: ProviderServer, channel: str
) -> None:
    cases = {
        "silence": (Answer(way="hang"), UNKNOWN),
        "an answer byte by byte": (Answer(way="drip"), UNKNOWN),
        "an answer too late": (Answer(after=30), UNKNOWN),
    }
    async with sending_box(sqlite_url, server, timeout_seconds=1) as box:
        found, expected = await endings(box, server, channel, cases)
        assert found == expected
        [message, *_] = await box.outbound.list()
    assert message.error_message == "No answer from the server within 1 s."


@pytest.mark.parametrize("answer", [Answer(way="reset"), Answer(way="hang up")], ids=["reset", "closed"])
async def test_an_unknown_attempt_is_repeated_under_the_same_id(
    sqlite_url: str, server: ProviderServer, answer: Answer
) -> None:
    server.arrange = lambda call: answer if len(server.of(str(call.message_id))) < 3 else None
    async with sending_box(sqlite_url, server, backoff_base_seconds=0.01) as box:
        for message in (message_of("webhook", "hook", server.origin), message_of("email", "someone", "")):
            ended = await until_ended(box, await box.outbound.send(TENANT, message))
            assert [attempt.outcome for attempt in ended.attempts] == ["unknown", "unknown", "accepted"]
            assert ended.attempt_count == len(server.of(ended.message_id)) == 3
            assert ended.error_message is None


Unkind = Literal["resets", "hangs up", "speaks no TLS"]


@asynccontextmanager
async def somebody_who(does: Unkind) -> AsyncIterator[str]:
    """A place for https that ends every connection at its first byte, before a request can have been read."""

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        match does:
            case "resets":
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            case "speaks no TLS":
                writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                await writer.drain()
        writer.close()

    listening = await asyncio.start_server(visit, "127.0.0.1", 0)
    async with listening:
        yield f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def knows_no_name(host: str, port: int) -> list[str]:
    raise socket.gaierror(socket.EAI_NONAME, "unknown")


def untrusted_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


async def test_what_certainly_never_left_is_transient(
    sqlite_url: str, server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pillarbox.outbound.pipe.Client", partial(Client, lookup=knows_no_name))
    async with AsyncExitStack() as stack:
        unverified = stack.enter_context(provider_server(tls=untrusted_tls()))
        unkind = [await stack.enter_async_context(somebody_who(does)) for does in get_args(Unkind)]
        places = [unverified.origin, f"http://127.0.0.1:{closed_port()}", *unkind]
        box = await stack.enter_async_context(sending_box(sqlite_url, server, trusted=places))
        urls = [f"{place}/hook" for place in (*places, "https://nobody.example")]
        ids = [await box.outbound.send(TENANT, Webhook(url=url)) for url in urls]
        await drained(box)
        messages = [await box.outbound.get(message_id) for message_id in ids]
        assert unverified.calls == []
    assert [ending_of(message, transient()) for message in messages] == [transient()] * len(ids)
    assert "certificate" in str(messages[0].error_message).lower()


@pytest.mark.parametrize("channel", ["email", "sms"])
async def test_a_provider_that_does_not_verify_gets_nothing_and_is_tried_again(sqlite_url: str, channel: str) -> None:
    with provider_server(tls=untrusted_tls()) as secure:
        async with sending_box(sqlite_url, secure) as box:
            message_id = await box.outbound.send(TENANT, message_of(channel, "someone", ""))
            await drained(box)
            message = await box.outbound.get(message_id)
    assert ending_of(message, transient()) == transient()
    assert secure.calls == []


async def test_a_redirect_is_never_followed(sqlite_url: str, server: ProviderServer) -> None:
    with provider_server() as elsewhere:
        places = [elsewhere.origin, "http://169.254.169.254/latest", "file:///etc/passwd", "//" + elsewhere.origin[7:]]
        statuses = (301, 302, 303, 307, 308)
        cases = {f"{status} {n}": (Answer(status, {"Location": place}), rejected(status))
                 for status in statuses for n, place in enumerate(places)}  # fmt: skip
        async with sending_box(sqlite_url, server, trusted=[elsewhere.origin]) as box:
            for channel in ("webhook", "email", "sms"):
                found, expected = await endings(box, server, channel, cases)
                assert found == expected
        assert elsewhere.calls == []
        assert elsewhere.connections == 0


async def test_attempts_end_with_the_last_one_and_waits_double(sqlite_url: str, server: ProviderServer) -> None:
    server.arrange = lambda call: Answer(503)
    async with sending_box(sqlite_url, server, backoff_base_seconds=0.05, max_attempts=4) as box:
        ended = await until_ended(box, await box.outbound.send(TENANT, Webhook(url=f"{server.origin}/hook")))
    assert (ended.status, ended.attempt_count, ended.next_attempt_at) == ("failed", 4, None)
    assert [attempt.status_code for attempt in ended.attempts] == [503] * 4 == [503] * len(server.calls)
    began = [call.at for call in server.calls]
    gaps = [later - earlier for earlier, later in pairwise(began)]
    assert all(gap >= least for gap, least in zip(gaps, (0.05, 0.1, 0.2), strict=True)), gaps


async def test_an_unknown_error_of_twilio_has_one_more_chance(sqlite_url: str, server: ProviderServer) -> None:
    server.arrange = lambda call: twilio_error(400, 30008)
    async with sending_box(sqlite_url, server, backoff_base_seconds=0.01) as box:
        ended = await until_ended(box, await box.outbound.send(TENANT, Sms(to=NUMBER, text="hello")))
    assert (ended.status, ended.attempt_count, ended.max_attempts) == ("failed", 2, 5)
    assert len(server.calls) == 2


async def test_a_recipient_who_unsubscribed_at_twilio_is_opted_out_here(
    database_url: str, server: ProviderServer
) -> None:
    server.arrange = lambda call: twilio_error(400, 21610)
    async with sending_box(database_url, server) as box:
        ended = await until_ended(box, await box.outbound.send(TENANT, Sms(to=NUMBER, text="hello")))
        assert (ended.status, ended.attempt_count) == ("failed", 1)
        [opt_out] = await box.outbound.opt_outs(TENANT)
        assert (opt_out.contact, opt_out.channel) == (NUMBER, "sms")
        with pytest.raises(OptedOut):
            await box.outbound.send(TENANT, Sms(to="+1 (500) 555-0009", text="again"))
    assert len(server.calls) == 1


async def test_what_was_accepted_keeps_the_providers_id(sqlite_url: str, server: ProviderServer) -> None:
    async with sending_box(sqlite_url, server) as box:
        ids = [await box.outbound.send(TENANT, message_of(channel, "someone", "")) for channel in ("email", "sms")]
        await drained(box)
        mail, text = [await box.outbound.get(message_id) for message_id in ids]
    assert mail.provider_msg_id is not None
    assert mail.provider_msg_id.startswith("sg-")
    assert text.provider_msg_id is not None
    assert text.provider_msg_id.startswith("SM")
    assert {call.provider for call in server.calls} == {"sendgrid", "twilio"}


async def test_a_credential_that_is_missing_is_transient_and_nothing_is_sent(
    sqlite_url: str, server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sending_box(sqlite_url, server) as box:
        monkeypatch.delenv("E2E_SENDGRID_KEY")
        message_id = await box.outbound.send(TENANT, message_of("email", "someone", ""))
        await drained(box)
        message = await box.outbound.get(message_id)
        assert ending_of(message, transient()) == transient()
        assert server.calls == []
        monkeypatch.setenv("E2E_SENDGRID_KEY", "SG.back-again")
        assert message.next_attempt_at is not None
        assert message.next_attempt_at - message.created_at >= timedelta(seconds=COMPUTED)
