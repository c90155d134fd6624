"""Real mail servers on loopback: one that takes mail as others do, and one that says exactly what it is told to say."""

import asyncio
import ssl
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from pathlib import Path
from typing import Any, cast

import trustme
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USERNAME = "acme"
PASSWORD = "correct horse"

Reply = Callable[[SMTP], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Taken:
    """One message, as it came."""

    sender: str
    recipients: list[str]
    content: bytes
    options: list[str]
    encrypted: bool
    username: str | None
    connection: int

    @property
    def parsed(self) -> EmailMessage:
        parsed = message_from_bytes(self.content, policy=SMTP_POLICY)
        assert isinstance(parsed, EmailMessage)
        return parsed


@dataclass(slots=True)
class MailServer:
    """What came, and what to answer next to MAIL, RCPT and DATA: each scripted reply once, then yes."""

    port: int = 0
    taken: list[Taken] = field(default_factory=list)
    connections: list["_Connection"] = field(default_factory=list)
    commands: list[bytes] = field(default_factory=list)
    script: dict[str, deque[Reply]] = field(default_factory=lambda: defaultdict(deque))
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def then(self, verb: str, *replies: Reply) -> None:
        self.script[verb].extend(replies)

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.changed.clear()
            await self.changed.wait()

    def notice(self) -> None:
        self.changed.set()

    async def said(self, verb: str, server: SMTP, otherwise: str) -> str:
        self.notice()
        return await self.script[verb].popleft()(server) if self.script[verb] else otherwise

    async def handle_MAIL(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        reply = await self.said("MAIL", server, "250 OK")
        if reply.startswith("250"):
            envelope.mail_from = address
            envelope.mail_options.extend(options)
        return reply

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        reply = await self.said("RCPT", server, "250 OK")
        if reply.startswith("25"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert envelope.original_content is not None
        signed_in: LoginPassword | None = session.auth_data
        user = signed_in.login.decode() if signed_in is not None else None
        assert server.transport is not None
        encrypted = server.transport.get_extra_info("sslcontext") is not None
        assert envelope.mail_from is not None
        reply = await self.said("DATA", server, "250 OK")
        if reply.startswith("250"):
            self.taken.append(
                Taken(
                    envelope.mail_from,
                    list(envelope.rcpt_tos),
                    envelope.original_content,
                    list(envelope.mail_options),
                    encrypted,
                    user,
                    self.connections.index(server),  # type: ignore[arg-type]
                )
            )
        return reply


class _Connection(SMTP):
    def __init__(self, seen: MailServer, **options: Any) -> None:
        super().__init__(seen, **options)
        self._seen = seen
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self not in self._seen.connections:
            self._seen.connections.append(self)
        self.open = True
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        self._seen.notice()
        super().connection_lost(error)

    async def smtp_RSET(self, arg: str) -> None:  # noqa: N802
        self._seen.commands.append(b"RSET")
        await super().smtp_RSET(arg)

    async def smtp_QUIT(self, arg: str) -> None:  # noqa: N802
        self._seen.commands.append(b"QUIT")
        await super().smtp_QUIT(arg)

    async def smtp_AUTH(self, arg: str) -> None:  # noqa: N802
        self._seen.commands.append(b"AUTH")
        await super().smtp_AUTH(arg)


def reply(text: str) -> Reply:
    async def give(server: SMTP) -> str:
        return text

    return give


def hang() -> Reply:
    """Never answer."""

    async def give(server: SMTP) -> str:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    return give


def cut(server: SMTP) -> None:
    if server.transport is not None:
        cast(asyncio.WriteTransport, server.transport).abort()


def drop() -> Reply:
    """Cut the connection instead of answering."""

    async def give(server: SMTP) -> str:
        cut(server)
        return "250 too late"

    return give


def check_password(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, auth_data: LoginPassword
) -> AuthResult:
    right = (auth_data.login, auth_data.password) == (USERNAME.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=False, auth_data=auth_data)


@dataclass(frozen=True, slots=True)
class Authority:
    """A CA that nobody trusts by default, and what servers it vouches for."""

    ca: trustme.CA
    file: Path

    def server(self, *names: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names).configure_cert(context)
        return context


def authority(directory: Path) -> Authority:
    ca = trustme.CA()
    file = directory / "ca.pem"
    ca.cert_pem.write_to_path(str(file))
    return Authority(ca, file)


@asynccontextmanager
async def serve_mail(
    *, starttls: ssl.SSLContext | None = None, implicit: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[MailServer]:
    """A mail server on a free port of loopback, gone at the end with all its connections."""
    seen = MailServer()
    options = {"hostname": "mail.test", "data_size_limit": 64 * 1024 * 1024, "enable_SMTPUTF8": True} | options
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Connection(seen, tls_context=starttls, authenticator=check_password, loop=loop, **options),
        "127.0.0.1",
        0,
        ssl=implicit,
    )
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for connection in seen.connections:
            cut(connection)
        await server.wait_closed()


@dataclass(slots=True)
class Talker:
    """A server that answers by the first word of what it hears; `.` ends what follows DATA."""

    port: int = 0
    heard: list[str] = field(default_factory=list)
    connections: int = 0


SILENT = b""
CUT = b"cut"
_POLITE = {
    "greeting": b"220 mail.test\r\n",
    "EHLO": b"250 mail.test\r\n",
    "HELO": b"250 mail.test\r\n",
    "MAIL": b"250 OK\r\n",
    "RCPT": b"250 OK\r\n",
    "RSET": b"250 OK\r\n",
    "DATA": b"354 go on\r\n",
    ".": b"250 OK\r\n",
    "QUIT": b"221 bye\r\n",
}


@asynccontextmanager
async def serve_replies(replies: Mapping[str, bytes], *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Talker]:
    """A server that says these bytes after these words; with `SILENT` it says nothing more, with `CUT` it hangs up."""
    talker = Talker()
    said = {**_POLITE, **replies}
    open_writers: set[asyncio.StreamWriter] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talker.connections += 1
        open_writers.add(writer)
        with suppress(ConnectionError, ssl.SSLError):
            await _converse(reader, writer, talker, said)
        writer.transport.abort()
        open_writers.discard(writer)

    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    talker.port = server.sockets[0].getsockname()[1]
    try:
        yield talker
    finally:
        server.close()
        for writer in list(open_writers):
            writer.transport.abort()
        await server.wait_closed()


async def _converse(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, talker: Talker, said: Mapping[str, bytes]
) -> None:
    word, in_content = "greeting", False
    while True:
        answer = said.get(word, b"502 5.5.1 what\r\n")
        if answer == CUT:
            return
        if answer == SILENT:
            await reader.read()
            return
        writer.write(answer)
        await writer.drain()
        in_content = word == "DATA" and answer.startswith(b"354")
        while line := await reader.readline():
            if not in_content or line == b".\r\n":
                break
        if not line:
            return
        talker.heard.append(line.decode().rstrip())
        word = line.decode().split()[0].upper() if line.strip() else ""
