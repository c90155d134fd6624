"""Requests that carry what we deliver: over kept connections, answered within bounds, troubles told in our own words."""

from __future__ import annotations

import asyncio
import errno
import io
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

# aiohttp takes most of a second to import on a busy machine, which a command that delivers nothing must not pay.
if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_CONNECT_SECONDS = 10.0
# Common servers drop a connection that is idle for five seconds, and a POST that meets the drop is a lost attempt.
_KEEPALIVE_SECONDS = 4.0
_LEFTOVER_SECONDS = 1.0
_MOST_READ = 64 * 1024
# aiohttp writes a larger body piece by piece only when it is given as a file.
_LARGEST_AT_ONCE = 512 * 1024
_HEADERS = {"Content-Type": "application/json", "User-Agent": "Pillarbox", "Accept-Encoding": "identity"}


class Unreached(Exception):
    """There was no answer; the text says why and may be shown to anyone."""


class Reply:
    """An answer: its status, and as much of its body as anyone should read."""

    def __init__(self, response: ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.retry_after = response.headers.get("Retry-After")

    async def read(self) -> bytes:
        """Read the first part of the body."""
        return await _read(self._response)


class Poster:
    """Posts over connections that are kept for the next request; whoever calls sets the deadline.

    What is left of an answer is read in the background, a little of it, or its connection is closed. No redirect is followed.
    """

    def __init__(self) -> None:
        self._session: ClientSession | None = None
        self._leftovers: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> AsyncIterator[Reply]:
        """The answer to one POST, or `Unreached`."""
        from aiohttp import ClientError
        from yarl import URL

        try:
            # Encoded, so that the URL is requested as the operator wrote it.
            response = await self._client().post(
                URL(url, encoded=True), headers=headers, data=in_pieces(body), allow_redirects=False
            )
        except (ClientError, OSError) as error:
            raise Unreached(trouble(error, "target")) from error
        try:
            yield Reply(response)
        finally:
            self._let_go(response)

    async def close(self) -> None:
        """Close every connection, idle or not."""
        for task in self._leftovers:
            task.cancel()
        await asyncio.gather(*self._leftovers, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _client(self) -> ClientSession:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

        if self._session is None:
            self._session = ClientSession(
                # Without a limit of its own: the drain's slots are the limit, and a wait in here would be charged
                # to a target that had no part in it.
                connector=TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_SECONDS),
                timeout=ClientTimeout(total=None, connect=_CONNECT_SECONDS),
                cookie_jar=DummyCookieJar(),
                headers=_HEADERS,
                trust_env=False,
                auto_decompress=False,
                read_bufsize=_MOST_READ,
            )
        return self._session

    def _let_go(self, response: ClientResponse) -> None:
        """Give the connection back once the answer is read; most answers have been by now."""
        if response.closed:
            return

        def done(task: asyncio.Task[None]) -> None:
            # Here and not in the task, which may be cancelled before it began. What was given back stays so.
            response.close()
            self._leftovers.discard(task)

        task = asyncio.create_task(_read_leftover(response))
        self._leftovers.add(task)
        task.add_done_callback(done)


async def _read_leftover(response: ClientResponse) -> None:
    with suppress(Exception):
        async with asyncio.timeout(_LEFTOVER_SECONDS):
            await _read(response)


async def _read(response: ClientResponse) -> bytes:
    body = bytearray()
    while len(body) < _MOST_READ and (part := await response.content.read(_MOST_READ - len(body))):
        body += part
    return bytes(body)


def in_pieces(body: bytes) -> bytes | io.BytesIO:
    """A body as aiohttp writes it without holding up everyone else."""
    return body if len(body) <= _LARGEST_AT_ONCE else io.BytesIO(body)


def trouble(error: Exception, party: str) -> str:
    """What went wrong between us and the other party, in our words alone: an error's own text may quote URL or answer."""
    import aiohttp

    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"The {party}'s host name could not be resolved."
        case aiohttp.ClientConnectorCertificateError():
            return f"The {party}'s TLS certificate was not accepted."
        case aiohttp.ClientSSLError():
            return f"TLS could not be agreed upon with the {party}."
        case TimeoutError():
            return f"No connection to the {party} within {_CONNECT_SECONDS:g} s."
        case aiohttp.ClientConnectorError():
            return f"The {party} could not be reached{error_kind(error)}."
        case aiohttp.ServerDisconnectedError():
            return f"The {party} closed the connection without an answer."
        case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError():
            return f"The {party}'s answer was not valid HTTP."
        case OSError():
            return f"The connection to the {party} broke{error_kind(error)}."
        case _:
            return f"The request to the {party} failed ({type(error).__name__})."


def error_kind(error: Exception) -> str:
    """The name of a system error, in brackets, or nothing."""
    name = errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else None
    return f" ({name})" if name else ""
