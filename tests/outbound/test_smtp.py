import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pillarbox.errors import InvalidInput
from pillarbox.outbound.excerpts import with_own_words
from pillarbox.outbound.mail_replies import queue_id
from pillarbox.outbound.provider import Account, Attachment, Outgoing, Verdict
from pillarbox.outbound.providers.smtp import Smtp
from tests.outbound.provider_contract import at_once
from tests.servers.smtp import (
    CUT,
    PASSWORD,
    SILENT,
    USERNAME,
    Authority,
    MailServer,
    Reply,
    Talker,
    authority,
    cut,
    drop,
    hang,
    reply,
    serve_mail,
    serve_replies,
)

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
MESSAGE = Outgoing(
    message_id="m-1",
    tenant_id="acme",
    channel="email",
    to="ann@example.com",
    attempt=1,
    at=NOON,
    created_at=NOON,
    sender="Acme <hello@acme.example>",
    subject="Welcome",
    text="Hello.",
)
CREDENTIALS = {"username": USERNAME, "password": PASSWORD}
PATIENT = 15.0
HASTY = 0.3


@pytest.fixture(scope="module")
def vouching(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
async def smtp(vouching: Authority) -> AsyncIterator[Smtp]:
    smtp = Smtp(ca_file=str(vouching.file))
    yield smtp
    await smtp.close()


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with serve_mail() as server:
        yield server


@pytest.fixture
async def secure(vouching: Authority) -> AsyncIterator[MailServer]:
    async with serve_mail(starttls=vouching.server("localhost")) as server:
        yield server


def plainly(server: MailServer | Talker, **options: Any) -> Account:
    """Without encryption, to a destination the operator trusts."""
    trusted = frozenset({f"smtp://127.0.0.1:{server.port}"})
    return Account("", {"host": "127.0.0.1", "port": server.port, "tls": "none", "trusted": trusted} | options)


def securely(server: MailServer | Talker, host: str = "localhost", **options: Any) -> Account:
    trusted = frozenset({f"smtp://{host}:{server.port}"})
    return Account("", {"host": host, "port": server.port, "trusted": trusted} | options, CREDENTIALS)


async def test_a_message_arrives_whole(server: MailServer, smtp: Smtp) -> None:
    text = ".\r\n..two\n.hidden\nbare\rcr\n" + "x" * 3000
    verdict = await smtp.send(replace(MESSAGE, text=text), plainly(server), deadline=PATIENT, begin=at_once)
    assert verdict == Verdict(judgement="accepted", status_code=250, provider_msg_id="<m-1@acme.example>")
    [taken] = server.taken
    assert (taken.sender, taken.recipients) == ("hello@acme.example", ["ann@example.com"])
    assert taken.parsed["Message-ID"] == "<m-1@acme.example>"
    assert taken.parsed.get_content().split() == text.split()
    assert b"\n" not in taken.content.replace(b"\r\n", b"")


async def test_ten_megabytes_of_attachments_arrive(server: MailServer, smtp: Smtp) -> None:
    content = bytes(range(256)) * 40_000
    message = replace(MESSAGE, attachments=(Attachment("big.bin", "application/octet-stream", content),))
    assert (await smtp.send(message, plainly(server), deadline=PATIENT, begin=at_once)).judgement == "accepted"
    [file] = server.taken[0].parsed.iter_attachments()
    assert file.get_payload(decode=True) == content


async def test_a_message_too_large_for_the_server_is_refused_before_it_is_sent(smtp: Smtp) -> None:
    async with serve_mail(data_size_limit=1000) as server:
        verdict = await smtp.send(replace(MESSAGE, text="x" * 2000), plainly(server), deadline=PATIENT, begin=at_once)
        told = "The server answered 552: the message is too large or the mailbox is full."
        assert (verdict.judgement, verdict.error) == ("rejected", told)
        assert server.taken == []


async def test_copies_are_sent_and_blind_ones_stay_blind(server: MailServer, smtp: Smtp) -> None:
    message = replace(MESSAGE, cc=("Bob <bob@example.com>",), bcc=("eve@example.com",))
    await smtp.send(message, plainly(server), deadline=PATIENT, begin=at_once)
    [taken] = server.taken
    assert taken.recipients == ["ann@example.com", "bob@example.com", "eve@example.com"]
    assert b"eve" not in taken.content


class TestEncryption:
    async def test_starttls_comes_before_credentials_and_mail(self, secure: MailServer, smtp: Smtp) -> None:
        assert (await smtp.send(MESSAGE, securely(secure), deadline=PATIENT, begin=at_once)).judgement == "accepted"
        [taken] = secure.taken
        assert (taken.encrypted, taken.username) == (True, USERNAME)

    async def test_implicit_tls(self, vouching: Authority, smtp: Smtp) -> None:
        async with serve_mail(implicit=vouching.server("localhost"), auth_require_tls=False) as server:
            verdict = await smtp.send(MESSAGE, securely(server, tls="implicit"), deadline=PATIENT, begin=at_once)
            assert verdict.judgement == "accepted"
            assert (server.taken[0].encrypted, server.taken[0].username) == (True, USERNAME)

    async def test_a_server_without_starttls_gets_nothing(self, server: MailServer, smtp: Smtp) -> None:
        verdict = await smtp.send(MESSAGE, securely(server, "127.0.0.1"), deadline=PATIENT, begin=at_once)
        told = "The mail server does not offer STARTTLS, and nothing is sent without it."
        assert verdict == Verdict(judgement="transient", error=told)
        assert (server.taken, server.commands) == ([], [])

    @pytest.mark.parametrize("answer", [b"454 4.7.0 not now\r\n", b"502 no\r\n"])
    async def test_a_refused_starttls_is_tried_again_later(self, answer: bytes, smtp: Smtp) -> None:
        async with serve_replies({"EHLO": b"250-mail.test\r\n250 STARTTLS\r\n", "STARTTLS": answer}) as talker:
            verdict = await smtp.send(MESSAGE, securely(talker, "127.0.0.1"), deadline=PATIENT, begin=at_once)
        assert verdict.judgement == "transient"
        assert [line.split()[0] for line in talker.heard] == ["EHLO", "STARTTLS"]

    @pytest.mark.parametrize("tls", ["starttls", "implicit"])
    @pytest.mark.parametrize("fault", ["unknown authority", "another name"])
    async def test_a_certificate_that_does_not_verify_stops_it(
        self, fault: str, tls: str, vouching: Authority, tmp_path: Path, smtp: Smtp
    ) -> None:
        authority_at_fault = authority(tmp_path) if fault == "unknown authority" else vouching
        context = authority_at_fault.server("localhost" if fault == "unknown authority" else "other.test")
        async with serve_mail(**{tls: context}) as server:
            verdict = await smtp.send(MESSAGE, securely(server, tls=tls), deadline=PATIENT, begin=at_once)
            told = "The mail server's TLS certificate was not accepted; nothing was sent."
            assert verdict == Verdict(judgement="transient", error=told)
            assert (server.taken, server.commands) == ([], [])

    async def test_a_server_that_speaks_no_tls(self, server: MailServer, smtp: Smtp) -> None:
        verdict = await smtp.send(MESSAGE, securely(server, tls="implicit"), deadline=PATIENT, begin=at_once)
        assert (verdict.judgement, server.taken) == ("transient", [])

    async def test_an_unreadable_ca_file_is_told(self, secure: MailServer, tmp_path: Path) -> None:
        verdict = await Smtp(ca_file=str(tmp_path / "missing")).send(
            MESSAGE, securely(secure), deadline=PATIENT, begin=at_once
        )
        assert verdict.judgement == "transient"
        assert "ca_file" in str(verdict.error)

    async def test_a_wrong_password_is_tried_once_and_rejected(self, secure: MailServer, smtp: Smtp) -> None:
        account = replace(securely(secure), secrets={"username": USERNAME, "password": "wrong"})
        verdict = await smtp.send(MESSAGE, account, deadline=PATIENT, begin=at_once)
        told = "The server answered 535 5.7.8: the user name or password was not accepted."
        assert verdict == Verdict(judgement="rejected", error=told, status_code=535)
        assert secure.commands == [b"AUTH"]
        await secure.until(lambda: not secure.connections[0].open)

    @pytest.mark.parametrize(
        ("auth", "judgement", "told"),
        [
            (b"454 4.7.0 later\r\n", "transient", "The server answered 454 4.7.0: refused for security or policy."),
            (b"454 later\r\n", "transient", "The server answered 454: authentication is not available now."),
            (
                b"534 5.7.9 weak\r\n",
                "rejected",
                "The server answered 534 5.7.9: the way of authenticating is too weak.",
            ),
        ],
    )
    async def test_other_ends_of_signing_in(
        self, auth: bytes, judgement: str, told: str, vouching: Authority, smtp: Smtp
    ) -> None:
        replies = {"EHLO": b"250-mail.test\r\n250 AUTH PLAIN\r\n", "AUTH": auth}
        async with serve_replies(replies, tls=vouching.server("localhost")) as talker:
            verdict = await smtp.send(MESSAGE, securely(talker, tls="implicit"), deadline=PATIENT, begin=at_once)
        assert (verdict.judgement, verdict.error) == (judgement, told)

    async def test_a_server_without_authentication_gets_no_mail(self, vouching: Authority, smtp: Smtp) -> None:
        async with serve_replies({}, tls=vouching.server("localhost")) as talker:
            verdict = await smtp.send(MESSAGE, securely(talker, tls="implicit"), deadline=PATIENT, begin=at_once)
        assert verdict.judgement == "transient"
        assert [line.split()[0] for line in talker.heard] == ["EHLO"]


class TestAccounts:
    @pytest.mark.parametrize(
        ("options", "secrets", "field"),
        [
            ({"trusted": ()}, {}, "host"),
            ({"host": "mail.example.com", "trusted": ()}, {}, "tls"),
            ({}, CREDENTIALS, "tls"),
            ({"tls": "starttls"}, {"username": "u"}, "credentials"),
            ({"tls": "starttls"}, {"password": "p"}, "credentials"),
            ({"tls": "ssl"}, {}, "tls"),
            ({"host": ""}, {}, "host"),
            ({"host": "a\r\nb"}, {}, "host"),
            ({"port": "25"}, {}, "port"),
            ({"port": 0}, {}, "host"),
        ],
    )
    async def test_an_unsafe_or_senseless_account_never_connects(
        self, options: dict[str, Any], secrets: dict[str, str], field: str, server: MailServer, smtp: Smtp
    ) -> None:
        account = replace(plainly(server, **options), secrets=secrets)
        with pytest.raises(InvalidInput) as refused:
            await smtp.send(MESSAGE, account, deadline=PATIENT, begin=at_once)
        assert refused.value.field == field
        assert server.connections == []
        config = {**account.options, "credentials": dict.fromkeys(secrets, "env:NAME")}
        with pytest.raises(InvalidInput) as refused_when_set:
            smtp.check_options("providers.email", config, frozenset(account.options["trusted"]))
        assert refused_when_set.value.field == f"providers.email.{field}"

    async def test_a_name_that_leads_to_a_forbidden_address_is_rejected(self, server: MailServer) -> None:
        async def lookup(host: str, port: int) -> list[str]:
            return ["203.0.114.1", "127.0.0.1"]

        account = Account("", {"host": "mail.example.com", "port": server.port})
        verdict = await Smtp(lookup=lookup).send(MESSAGE, account, deadline=PATIENT, begin=at_once)
        told = "The destination is a loopback address, which nothing is sent to."
        assert verdict == Verdict(judgement="rejected", error=told)
        assert server.connections == []

    async def test_trust_never_opens_link_local_addresses(self) -> None:
        async def lookup(host: str, port: int) -> list[str]:
            return ["169.254.169.254"]

        account = Account("", {"host": "mail.test", "port": 2525, "trusted": frozenset({"smtp://mail.test:2525"})})
        verdict = await Smtp(lookup=lookup).send(MESSAGE, account, deadline=PATIENT, begin=at_once)
        assert verdict.judgement == "rejected"

    async def test_the_judged_address_is_the_one_connected_to(self, vouching: Authority) -> None:
        asked = []

        async def lookup(host: str, port: int) -> list[str]:
            asked.append(host)
            return ["127.0.0.1"]

        async with serve_mail(starttls=vouching.server("mail.test")) as server:
            smtp = Smtp(ca_file=str(vouching.file), lookup=lookup)
            verdict = await smtp.send(MESSAGE, securely(server, "mail.test"), deadline=PATIENT, begin=at_once)
            assert (verdict.judgement, asked) == ("accepted", ["mail.test"])
            await smtp.close()

    async def test_the_next_address_is_tried_when_one_does_not_answer(self, server: MailServer) -> None:
        async def lookup(host: str, port: int) -> list[str]:
            return ["127.0.0.2" if host == "mail.test" else "", "127.0.0.1"]

        smtp = Smtp(lookup=lookup)
        trusted = frozenset({f"smtp://mail.test:{server.port}"})
        verdict = await smtp.send(
            MESSAGE, plainly(server, host="mail.test", trusted=trusted), deadline=PATIENT, begin=at_once
        )
        assert verdict.judgement == "accepted"
        await smtp.close()

    async def test_tenants_share_no_connection_that_is_not_the_same_in_all(
        self, secure: MailServer, smtp: Smtp
    ) -> None:
        await smtp.send(MESSAGE, securely(secure), deadline=PATIENT, begin=at_once)
        wrong = replace(securely(secure), secrets={"username": USERNAME, "password": "guess"})
        assert (await smtp.send(MESSAGE, wrong, deadline=PATIENT, begin=at_once)).judgement == "rejected"
        with pytest.raises(InvalidInput):
            await smtp.send(MESSAGE, securely(secure, "127.0.0.1", trusted=()), deadline=PATIENT, begin=at_once)
        assert len(secure.taken) == 1


CODES = [
    ("421 4.3.2 closing", "transient", "The server answered 421 4.3.2: the mail system takes no messages now.", None),
    ("450 4.2.1 busy", "transient", "The server answered 450 4.2.1: the mailbox is disabled.", None),
    (
        "450 4.7.1 greylisted",
        "transient",
        "The server answered 450 4.7.1: the delivery is not permitted by policy.",
        300.0,
    ),
    ("451 4.7.500 slow down", "transient", "The server answered 451 4.7.500: an error in the mail server.", 300.0),
    ("451 local", "transient", "The server answered 451: an error in the mail server.", None),
    ("452 4.5.3 many", "transient", "The server answered 452 4.5.3: too many recipients.", None),
    ("454 no", "transient", "The server answered 454: authentication is not available now.", None),
    ("471 odd", "transient", "The server answered 471.", None),
    ("500 what", "rejected", "The server answered 500: the command was not understood.", None),
    ("503 5.5.1 order", "rejected", "The server answered 503 5.5.1: the command was not valid.", None),
    ("530 5.7.0 auth", "rejected", "The server answered 530 5.7.0: refused for security or policy.", None),
    ("550 5.1.1 ann@example.com unknown", "rejected", "The server answered 550 5.1.1: no such mailbox.", None),
    ("550 5.1.10 null mx", "rejected", "The server answered 550 5.1.10: the recipient's domain takes no mail.", None),
    ("550 no such user", "rejected", "The server answered 550: the mailbox is not available.", None),
    ("551 elsewhere", "rejected", "The server answered 551: the recipient is not here.", None),
    ("552 5.2.2 full", "rejected", "The server answered 552 5.2.2: the mailbox is full.", None),
    ("552 5.3.4 big", "rejected", "The server answered 552 5.3.4: the message is too large.", None),
    ("553 5.1.3 bad", "rejected", "The server answered 553 5.1.3: the recipient's address is malformed.", None),
    ("554 5.7.1 spam", "rejected", "The server answered 554 5.7.1: the delivery is not permitted by policy.", None),
    ("554 5.99.99 odd", "rejected", "The server answered 554 5.99.99: the transaction failed.", None),
    ("599 odd", "rejected", "The server answered 599.", None),
    ("550 4.2.2 full for now", "transient", "The server answered 550 4.2.2: the mailbox is full.", None),
    ("450 5.1.1 never", "rejected", "The server answered 450 5.1.1: no such mailbox.", None),
    ("550 2.0.0 odd", "rejected", "The server answered 550: the mailbox is not available.", None),
]


@pytest.mark.parametrize("verb", ["MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize(("said", "judgement", "told", "wait"), CODES)
async def test_the_code_decides(
    verb: str, said: str, judgement: str, told: str, wait: float | None, server: MailServer, smtp: Smtp
) -> None:
    server.then(verb, reply(said))
    verdict = await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)
    expected = Verdict(judgement=judgement, error=told, status_code=int(said[:3]), retry_after=wait)  # type: ignore[arg-type]
    assert verdict == expected
    assert (verdict.request or "").startswith("SMTP 127.0.0.1:")
    assert verdict.response == said
    assert server.taken == []


@pytest.mark.parametrize(
    ("replies", "judgement"),
    [
        ({"greeting": b"421 busy\r\n"}, "transient"),
        ({"greeting": b"554 5.7.1 blocked\r\n"}, "rejected"),
        ({"greeting": b"SSH-2.0-OpenSSH_9.6\r\n"}, "transient"),
        ({"greeting": b"220 " + b"x" * 50_000}, "transient"),
        ({"greeting": CUT}, "transient"),
        ({"EHLO": CUT}, "transient"),
        ({"EHLO": b"421 bye\r\n"}, "transient"),
        ({"EHLO": b"502 what\r\n"}, "accepted"),
        ({"EHLO": b"502 what\r\n", "HELO": b"550 no\r\n"}, "rejected"),
        ({"MAIL": CUT}, "transient"),
        ({"MAIL": b"nonsense\r\n"}, "transient"),
        ({"RCPT": CUT}, "transient"),
        ({"RCPT": b"251 elsewhere\r\n"}, "accepted"),
        ({"DATA": CUT}, "transient"),
        ({"DATA": b"250 odd\r\n"}, "transient"),
        ({"DATA": b"451 4.3.0 not now\r\n"}, "transient"),
        ({".": CUT}, "unknown"),
        ({".": b"nonsense\r\n"}, "unknown"),
        ({".": b"354 more\r\n"}, "unknown"),
        ({".": b"421 4.3.2 closing\r\n"}, "transient"),
        ({".": b"550 5.7.1 spam\r\n"}, "rejected"),
        ({".": b"250-two\r\n250 lines\r\n"}, "accepted"),
    ],
)
async def test_only_the_dot_makes_an_outcome_unknown(replies: dict[str, bytes], judgement: str, smtp: Smtp) -> None:
    async with serve_replies(replies) as talker:
        verdict = await smtp.send(MESSAGE, plainly(talker), deadline=PATIENT, begin=at_once)
        await smtp.close()
    assert verdict.judgement == judgement
    assert (verdict.error is None) == (judgement == "accepted")


@pytest.mark.parametrize(
    ("silent_at", "judgement"),
    [("greeting", "transient"), ("EHLO", "transient"), ("MAIL", "transient"), ("DATA", "transient"), (".", "unknown")],
)
async def test_a_silent_server_meets_the_deadline(silent_at: str, judgement: str, smtp: Smtp) -> None:
    async with serve_replies({silent_at: SILENT}) as talker:
        verdict = await smtp.send(MESSAGE, plainly(talker), deadline=HASTY, begin=at_once)
    tail = " after the message was handed over." if judgement == "unknown" else "; nothing was sent."
    assert (verdict.judgement, verdict.error) == (judgement, f"The mail server did not answer within 0.3 s{tail}")


async def test_a_message_that_could_not_all_be_written_was_certainly_not_taken(smtp: Smtp) -> None:
    """The server reads nothing after DATA, so that most of the message, and its dot, never leave."""
    stuck = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (b"220 hi\r\n", b"250 hi\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"):
            writer.write(answer)
            if not answer.startswith(b"354"):
                await reader.readline()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await stuck.wait()
        writer.transport.abort()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    talker = Talker(port=server.sockets[0].getsockname()[1])
    files = (Attachment("big.bin", "application/octet-stream", bytes(10_000_000)),)
    verdict = await smtp.send(replace(MESSAGE, attachments=files), plainly(talker), deadline=2.0, begin=at_once)
    stuck.set()
    server.close()
    await server.wait_closed()
    assert verdict.judgement == "transient"


async def test_a_server_that_is_not_there(smtp: Smtp) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    verdict = await smtp.send(MESSAGE, plainly(Talker(port=port)), deadline=PATIENT, begin=at_once)
    told = "The mail server could not be reached (ECONNREFUSED)."
    assert verdict == Verdict(judgement="transient", error=told)


async def test_a_name_that_nobody_knows() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    verdict = await Smtp(lookup=lookup).send(
        MESSAGE, Account("", {"host": "mail.example.com"}), deadline=PATIENT, begin=at_once
    )
    assert verdict == Verdict(judgement="transient", error="The mail server's host name could not be resolved.")


class TestSeveralRecipients:
    MESSAGE = replace(MESSAGE, cc=("bob@example.com",), bcc=("eve@example.com",))

    async def test_if_the_recipient_is_refused_nobody_gets_it(self, server: MailServer, smtp: Smtp) -> None:
        server.then("RCPT", reply("550 5.1.1 no"))
        verdict = await smtp.send(self.MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)
        assert (verdict.judgement, server.taken) == ("rejected", [])

    @pytest.mark.parametrize("said", ["550 5.1.1 no", "450 4.7.1 later"])
    async def test_a_refused_copy_does_not_keep_it_from_the_others(
        self, said: str, server: MailServer, smtp: Smtp
    ) -> None:
        server.then("RCPT", reply("250 OK"), reply(said))
        verdict = await smtp.send(self.MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)
        assert server.taken[0].recipients == ["ann@example.com", "eve@example.com"]
        told = "1 of 3 recipients were refused; the message went to the others."
        assert (verdict.judgement, verdict.error) == ("accepted", told)


class TestReuse:
    async def test_messages_follow_each_other_on_one_connection(self, secure: MailServer, smtp: Smtp) -> None:
        for _ in range(5):
            assert (await smtp.send(MESSAGE, securely(secure), deadline=PATIENT, begin=at_once)).judgement == "accepted"
        assert {taken.connection for taken in secure.taken} == {0}
        assert secure.commands == [b"AUTH"]

    async def test_messages_at_once_have_connections_of_their_own_and_no_more_than_sixteen(
        self, server: MailServer, smtp: Smtp
    ) -> None:
        messages = [replace(MESSAGE, message_id=f"m-{at}", text=f"text {at}") for at in range(60)]
        verdicts = await asyncio.gather(
            *(smtp.send(one, plainly(server), deadline=PATIENT, begin=at_once) for one in messages)
        )
        assert {verdict.judgement for verdict in verdicts} == {"accepted"}
        assert len(server.connections) <= 16
        got = {taken.parsed["X-Pillarbox-Id"]: taken.parsed.get_content().strip() for taken in server.taken}
        assert got == {f"m-{at}": f"text {at}" for at in range(60)}

    async def test_after_a_refusal_the_connection_starts_afresh(self, server: MailServer, smtp: Smtp) -> None:
        server.then("RCPT", reply("550 5.1.1 no"))
        await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)
        assert (await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)).judgement == "accepted"
        assert (server.taken[0].connection, server.taken[0].recipients) == (0, ["ann@example.com"])
        assert server.commands == [b"RSET"]

    @pytest.mark.parametrize("verb", ["MAIL", "RCPT"])
    @pytest.mark.parametrize("end", [drop(), reply("421 4.3.2 enough messages")])
    async def test_a_connection_that_went_stale_is_replaced(
        self, end: Reply, verb: str, server: MailServer, smtp: Smtp
    ) -> None:
        await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)
        server.then(verb, end)
        assert (await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)).judgement == "accepted"
        assert [taken.connection for taken in server.taken] == [0, 1]

    async def test_it_is_replaced_only_once(self, server: MailServer, smtp: Smtp) -> None:
        await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)
        server.then("MAIL", drop(), drop())
        assert (await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)).judgement == "transient"
        assert len(server.connections) == 2

    async def test_after_the_dot_nothing_is_sent_again(self, server: MailServer, smtp: Smtp) -> None:
        await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)
        server.then("DATA", drop())
        assert (await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)).judgement == "unknown"
        assert len(server.connections) == 1

    async def test_a_connection_the_server_closed_is_not_used(self, server: MailServer, smtp: Smtp) -> None:
        await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)
        cut(server.connections[0])
        await server.until(lambda: not server.connections[0].open)
        assert (await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)).judgement == "accepted"

    async def test_a_kept_connection_that_fails_its_check_is_replaced(self, smtp: Smtp) -> None:
        async with serve_replies({"RCPT": b"550 5.1.1 no\r\n", "RSET": CUT}) as talker:
            await smtp.send(MESSAGE, plainly(talker), deadline=PATIENT, begin=at_once)
            assert (await smtp.send(MESSAGE, plainly(talker), deadline=PATIENT, begin=at_once)).judgement == "rejected"
            assert talker.connections == 2

    async def test_an_idle_connection_is_closed_with_a_goodbye(self, server: MailServer) -> None:
        smtp = Smtp(idle_seconds=0.01)
        await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)
        await server.until(lambda: not server.connections[0].open)
        assert server.commands == [b"QUIT"]
        assert (await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)).judgement == "accepted"
        await smtp.close()

    async def test_closing_says_goodbye(self, server: MailServer, smtp: Smtp) -> None:
        await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)
        await smtp.close()
        await server.until(lambda: not server.connections[0].open)
        assert server.commands == [b"QUIT"]

    @pytest.mark.parametrize("verb", ["MAIL", "DATA"])
    async def test_a_cancelled_send_leaves_no_connection_behind(
        self, verb: str, server: MailServer, smtp: Smtp
    ) -> None:
        server.then(verb, hang())
        sending = asyncio.create_task(smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once))
        await server.until(lambda: bool(server.connections) and not server.script[verb])
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await server.until(lambda: not server.connections[0].open)
        assert (await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)).judgement == "accepted"


class TestAddressesBeyondAscii:
    MESSAGE = replace(MESSAGE, to="jörg@bücher.example")

    async def test_they_are_sent_where_the_server_offers_it(self, server: MailServer, smtp: Smtp) -> None:
        assert (await smtp.send(self.MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)).judgement == "accepted"
        assert server.taken[0].recipients == ["jörg@xn--bcher-kva.example"]
        assert "SMTPUTF8" in server.taken[0].options

    async def test_elsewhere_they_are_rejected_in_clear_words(self, smtp: Smtp) -> None:
        async with serve_mail(enable_SMTPUTF8=False) as server:
            verdict = await smtp.send(self.MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)
            told = "The mail server does not offer SMTPUTF8, which an address of this message needs."
            assert (verdict, server.taken) == (Verdict(judgement="rejected", error=told), [])

    async def test_nobody_else_needs_it(self, smtp: Smtp) -> None:
        async with serve_mail(enable_SMTPUTF8=False) as server:
            message = replace(MESSAGE, to="ann@bücher.example", subject="Grüße", text="Grüße")
            assert (await smtp.send(message, plainly(server), deadline=PATIENT, begin=at_once)).judgement == "accepted"
            assert server.taken[0].content.isascii()


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("2.0.0 Ok: queued as 4XyZ12abc", "4XyZ12abc"),
        ("OK id=1t9XyZ-0000Ab-Cd", "1t9XyZ-0000Ab-Cd"),
        ("2.0.0 4AFCkVb8012345 Message accepted for delivery", "4AFCkVb8012345"),
        (
            "Ok 0100018f2d6e7c3a-5d8a6c1e-1111-2222-3333-444455556666-000000",
            "0100018f2d6e7c3a-5d8a6c1e-1111-2222-3333-444455556666-000000",
        ),
        ("OK", None),
        ("2.0.0 queued as <ann@example.com>", None),
        ("queued as 4XyZ for ann@example.com", None),
    ],
)
def test_a_queue_id_is_read_where_its_form_is_known(said: str, found: str | None) -> None:
    assert queue_id(said) == found


async def test_the_servers_own_id_is_kept(server: MailServer, smtp: Smtp) -> None:
    server.then("DATA", reply("250 2.0.0 Ok: queued as 4XyZ12abc"))
    assert (await smtp.send(MESSAGE, plainly(server), deadline=PATIENT, begin=at_once)).provider_msg_id == "4XyZ12abc"


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("mail").setLevel(logging.CRITICAL)  # the server's own log
        yield caplog
        logging.getLogger("mail").setLevel(logging.NOTSET)


@pytest.mark.parametrize("verb", ["AUTH", "MAIL", "RCPT", "DATA", ".", "greeting"])
async def test_neither_secrets_nor_addresses_nor_the_servers_words_are_told(
    verb: str, vouching: Authority, smtp: Smtp, everything_logged: pytest.LogCaptureFixture
) -> None:
    canaries = ["canary-secret", "canary-user", "canary-box", "canary-sender", "canary-words", "canary-text"]
    for answer in (b"550 5.1.1 canary-words canary-box@example.com\r\n", b"canary-words\r\n", CUT):
        replies = {"EHLO": b"250-x\r\n250 AUTH PLAIN\r\n", "AUTH": b"235 ok\r\n", verb: answer}
        async with serve_replies(replies, tls=vouching.server("localhost")) as talker:
            message = replace(
                MESSAGE, to="canary-box@example.com", sender="canary-sender@x.example", text="canary-text"
            )
            secrets = {"username": "canary-user", "password": "canary-secret"}
            account = replace(securely(talker, tls="implicit"), secrets=secrets)
            verdict = await smtp.send(message, account, deadline=PATIENT, begin=at_once)
        assert verdict.error
        told = repr(verdict) + everything_logged.text
        assert not [canary for canary in canaries if canary in told]
        kept = with_own_words(verdict, message, account)
        shown = f"{kept.request}\n{kept.response}"
        assert [canary for canary in canaries if canary in shown] in ([], ["canary-words"]), (
            "but for what it said itself"
        )
