"""Connections to mail servers: every address judged, encrypted and signed in before use, kept for the next message."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

from pillarbox.outbound.names import Lookup, addresses
from pillarbox.posting import error_kind

# Kept out of the start of commands that send nothing.
if TYPE_CHECKING:
    from aiosmtplib import SMTP

Tls = Literal["starttls", "implicit", "none"]

_MOST_AT_ONCE = 16
# A connection idle for longer is asked whether it still lives.
_FRESH_SECONDS = 1.0
_CONNECT_SECONDS = 5.0
_CHECK_SECONDS = 2.0
_QUIT_SECONDS = 1.0
# Over a verified connection the plain ones are as good, and work with servers that keep no passwords.
_WAYS_TO_SIGN_IN = ("plain", "login", "cram-md5")


class NotReady(Exception):
    """No connection fit for sending; nothing left. The text says why and may be shown to anyone."""


@dataclass(frozen=True, slots=True)
class Route:
    """A mail server and how it is used; messages share a connection only if all of it is the same."""

    host: str
    port: int
    tls: Tls
    trusted: bool
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class Line:
    """One open connection, used by one message at a time."""

    client: SMTP
    kept: bool = False
    clean: bool = True
    """Whether the last transaction ended, so that the next may begin."""
    idle_since: float = 0.0
    timer: asyncio.TimerHandle | None = None

    def cut(self) -> None:
        """Close at once: nothing that waits to be written leaves any more."""
        if self.client.transport is not None:
            cast(asyncio.WriteTransport, self.client.transport).abort()
        self.client.close()


@dataclass(slots=True)
class _Shelf:
    free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MOST_AT_ONCE))
    users: int = 0
    idle: deque[Line] = field(default_factory=deque)


class MailConnections:
    """At most sixteen connections for each route; an idle one is closed after a while."""

    def __init__(self, *, ca_file: str | None, lookup: Lookup, idle_seconds: float) -> None:
        self._ca_file = ca_file
        self._idle_seconds = idle_seconds
        self._lookup = lookup
        self._tls: ssl.SSLContext | None = None
        self._shelves: dict[Route, _Shelf] = {}
        self._goodbyes: set[asyncio.Task[None]] = set()
        self._closed = False

    @asynccontextmanager
    async def place(self, route: Route) -> AsyncIterator[None]:
        """Room for one more message on a route, as soon as there is."""
        shelf = self._shelves.setdefault(route, _Shelf())
        shelf.users += 1
        try:
            async with shelf.free:
                yield
        finally:
            shelf.users -= 1
            self._tidy(route)

    async def take(self, route: Route) -> Line:
        """A kept connection that still lives, or a new one."""
        idle = self._shelves[route].idle
        while idle:
            line = idle.pop()
            if line.timer is not None:
                line.timer.cancel()
            if await _lives(line):
                return line
        return await self.open(route)

    async def open(self, route: Route) -> Line:
        """A new connection, or `Blocked`, `NotReady`, or an error of the library's."""
        from aiosmtplib import SMTP

        try:
            found = await addresses(route.host, route.port, trusted=route.trusted, lookup=self._lookup)
        except OSError:
            raise NotReady("The mail server's host name could not be resolved.") from None
        tls = self._context() if route.tls != "none" else None
        connected = await _connect(found, route.port)
        line = Line(
            SMTP(
                hostname=route.host,
                sock=connected,
                local_hostname=_own_name(connected),
                timeout=None,
                use_tls=route.tls == "implicit",
                start_tls=False,
                tls_context=tls,
            )
        )
        try:
            await _prepare(line.client, route)
        except BaseException:
            line.cut()
            raise
        return line

    def keep(self, route: Route, line: Line) -> None:
        """Put a connection back for the next message."""
        shelf = self._shelves[route]
        if self._closed or not line.client.is_connected:
            line.cut()
            return
        loop = asyncio.get_running_loop()
        line.kept = True
        line.idle_since = loop.time()
        line.timer = loop.call_later(self._idle_seconds, self._retire, route, line)
        shelf.idle.append(line)

    async def close(self) -> None:
        """Say goodbye on every idle connection; one in use is closed when it comes back."""
        self._closed = True
        for route, shelf in list(self._shelves.items()):
            for line in list(shelf.idle):
                self._retire(route, line)
        await asyncio.gather(*self._goodbyes, return_exceptions=True)

    def _retire(self, route: Route, line: Line) -> None:
        if line.timer is not None:
            line.timer.cancel()
        self._shelves[route].idle.remove(line)
        task = asyncio.get_running_loop().create_task(_say_goodbye(line))
        self._goodbyes.add(task)
        task.add_done_callback(self._goodbyes.discard)
        self._tidy(route)

    def _tidy(self, route: Route) -> None:
        shelf = self._shelves.get(route)
        if shelf is not None and not shelf.users and not shelf.idle:
            del self._shelves[route]

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            context = ssl.create_default_context()
            if self._ca_file is not None:
                try:
                    context.load_verify_locations(cafile=self._ca_file)
                except OSError:
                    raise NotReady("The file that providers.smtp.ca_file names could not be read.") from None
            self._tls = context
        return self._tls


async def _lives(line: Line) -> bool:
    from aiosmtplib import SMTPException

    if not line.client.is_connected:
        return False
    if line.clean and asyncio.get_running_loop().time() - line.idle_since < _FRESH_SECONDS:
        return True
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await line.client.rset()
    except (SMTPException, OSError):
        line.cut()
        return False
    except BaseException:
        line.cut()
        raise
    line.clean = True
    return True


async def _connect(found: Sequence[str], port: int) -> socket.socket:
    """A socket to the first address that answers: these addresses were judged, so no name is looked up again."""
    trouble: OSError | None = None
    for address in found:
        connected = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        connected.setblocking(False)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(connected, (address, port))
        except OSError as error:
            connected.close()
            trouble = error
        except BaseException:
            connected.close()
            raise
        else:
            return connected
    raise NotReady(f"The mail server could not be reached{error_kind(trouble) if trouble else ''}.") from None


def _own_name(connected: socket.socket) -> str:
    """Our end of the connection as an address literal: a host name would have to be looked up, and is often a wrong one."""
    address = str(connected.getsockname()[0]).partition("%")[0]
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


async def _prepare(client: SMTP, route: Route) -> None:
    """Greet, encrypt, greet again, sign in."""
    from aiosmtplib import SMTPConnectError, SMTPException

    try:
        await client.connect()
    except SMTPConnectError as error:
        # Without its text, which names the host; TLS errors are its cause.
        raise error.__cause__ if isinstance(error.__cause__, OSError | SMTPException) else error from None
    await _greet(client)
    if route.tls == "starttls":
        await _encrypt(client)
        await _greet(client)
    if route.username is not None and route.password is not None:
        await _sign_in(client, route.username, route.password)


async def _greet(client: SMTP) -> None:
    from aiosmtplib import SMTPHeloError

    try:
        await client.ehlo()
    except SMTPHeloError as refused:
        if refused.code < 500 or not client.is_connected:
            raise
        await client.helo()


async def _encrypt(client: SMTP) -> None:
    from aiosmtplib import SMTPResponseException

    if not client.supports_extension("starttls"):
        raise NotReady("The mail server does not offer STARTTLS, and nothing is sent without it.")
    try:
        await client.starttls()
    except SMTPResponseException:
        raise NotReady("The mail server refused STARTTLS, and nothing is sent without it.") from None


async def _sign_in(client: SMTP, username: str, password: str) -> None:
    """Once, in the best way the server offers: one wrong password tried in several ways could lock the account."""
    way = next((way for way in _WAYS_TO_SIGN_IN if way in client.server_auth_methods), None)
    match way:
        case "plain":
            await client.auth_plain(username, password)
        case "login":
            await client.auth_login(username, password)
        case "cram-md5":
            await client.auth_crammd5(username, password)
        case _:
            raise NotReady("The mail server offers no way to authenticate that is known here.")


async def _say_goodbye(line: Line) -> None:
    with suppress(Exception):
        async with asyncio.timeout(_QUIT_SECONDS):
            await line.client.quit()
    line.cut()
