"""The target behind a URL."""

from __future__ import annotations

import asyncio
import errno
import io
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pillarbox.clock import Clock
from pillarbox.engine import Delivered, Failed, Outcome, Retry, Skipped
from pillarbox.inbound.model import InboundMessage
from pillarbox.inbound.targets.envelope import document, identity_headers, signature_headers
from pillarbox.inbound.targets.placement import HttpTarget, is_signing_secret

# aiohttp takes most of a second to import on a busy machine, which a command that delivers nothing must not pay.
if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_CONNECT_SECONDS = 10.0
# Common servers drop a connection that is idle for five seconds, and a POST that meets the drop is a lost attempt.
_KEEPALIVE_SECONDS = 4.0
_STALE_SECONDS = 5.0
_LEFTOVER_SECONDS = 1.0
_MOST_READ = 64 * 1024
_LARGEST_SECRET = 4096
# aiohttp writes a larger body piece by piece only when it is given as a file.
_LARGEST_AT_ONCE = 512 * 1024
_HEADERS = {"Content-Type": "application/json", "User-Agent": "Pillarbox", "Accept-Encoding": "identity"}


class HttpDeliverer:
    """Posts messages over connections that are kept for the next one; whoever calls sets the deadline.

    The status alone decides, but for 409, so a target that answers 2xx has the message even if the rest of its answer
    never comes. What is left of an answer is read in the background, a little of it, or its connection is closed.
    """

    def __init__(self, *, node: str, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._session: ClientSession | None = None
        self._leftovers: set[asyncio.Task[None]] = set()

    async def deliver(self, spec: HttpTarget, message: InboundMessage) -> Outcome:
        """Post a message once and judge the answer; no redirect is followed."""
        body = document(message, node=self._node)
        headers = {**spec.headers, **identity_headers(message, node=self._node)}
        if spec.secret is not None:
            secret = await _signing_secret(spec.secret)
            if isinstance(secret, Retry):
                return secret
            at = self._clock.shown(self._clock.now())
            headers |= signature_headers(message, body, secret=secret, at=at)
        return await self._post(spec.url, headers, body)

    async def close(self) -> None:
        """Close every connection, idle or not."""
        for task in self._leftovers:
            task.cancel()
        await asyncio.gather(*self._leftovers, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, url: str, headers: dict[str, str], body: bytes) -> Outcome:
        from aiohttp import ClientError
        from yarl import URL

        data = body if len(body) <= _LARGEST_AT_ONCE else io.BytesIO(body)
        try:
            # Encoded, so that the URL is requested as the operator wrote it.
            response = await self._client().post(
                URL(url, encoded=True), headers=headers, data=data, allow_redirects=False
            )
        except (ClientError, OSError) as error:
            return Retry(_trouble(error))
        try:
            return await _judge(response)
        finally:
            self._let_go(response)

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


async def _judge(response: ClientResponse) -> Outcome:
    match response.status:
        case status if 200 <= status < 300:
            return Delivered()
        case 409 if await _is_stale(response):
            return Skipped("The target refused the token as stale.")
        case 410:
            return Failed("The target answered 410 Gone.")
        case status:
            return Retry(f"The target answered HTTP {status}.")


async def _is_stale(response: ClientResponse) -> bool:
    """Whether a 409 says that the token was refused; an answer that cannot be read says nothing."""
    try:
        async with asyncio.timeout(_STALE_SECONDS):
            answer = msgspec.json.decode(await _read(response))
    except Exception:
        return False
    return isinstance(answer, dict) and answer.get("stale") is True


async def _read_leftover(response: ClientResponse) -> None:
    with suppress(Exception):
        async with asyncio.timeout(_LEFTOVER_SECONDS):
            await _read(response)


async def _read(response: ClientResponse) -> bytes:
    body = bytearray()
    while len(body) < _MOST_READ and (part := await response.content.read(_MOST_READ - len(body))):
        body += part
    return bytes(body)


async def _signing_secret(given: str) -> str | Retry:
    """The secret itself, or what it refers to at this moment on this node."""
    kind, _, name = given.partition(":")
    if kind not in ("env", "file"):
        return given
    try:
        secret = os.environ.get(name, "") if kind == "env" else await asyncio.to_thread(_start_of_file, name)
    except (OSError, ValueError) as error:
        return Retry(f"The target's secret {given} cannot be read on this node{_kind(error)}.")
    if not is_signing_secret(secret):
        return Retry(f"The target's secret {given} is not whsec_ followed by base64 on this node.")
    return secret


def _start_of_file(path: str) -> str:
    with Path(path).open("rb") as file:
        return file.read(_LARGEST_SECRET).decode("ascii").strip()


def _trouble(error: Exception) -> str:
    """What went wrong, in our words alone: an error's own text may quote the URL or the answer."""
    import aiohttp

    match error:
        case aiohttp.ClientConnectorDNSError():
            return "The target's host name could not be resolved."
        case aiohttp.ClientConnectorCertificateError():
            return "The target's TLS certificate was not accepted."
        case aiohttp.ClientSSLError():
            return "TLS could not be agreed upon with the target."
        case TimeoutError():
            return f"No connection to the target within {_CONNECT_SECONDS:g} s."
        case aiohttp.ClientConnectorError():
            return f"The target could not be reached{_kind(error)}."
        case aiohttp.ServerDisconnectedError():
            return "The target closed the connection without an answer."
        case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError():
            return "The target's answer was not valid HTTP."
        case OSError():
            return f"The connection to the target broke{_kind(error)}."
        case _:
            return f"The request to the target failed ({type(error).__name__})."


def _kind(error: Exception) -> str:
    name = errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else None
    return f" ({name})" if name else ""
