"""The one HTTP client of outbound: guarded, bounded in time and size, and exact about whether anything left."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pillarbox.clock import wall
from pillarbox.outbound.destinations import Blocked, judge_url
from pillarbox.outbound.names import Lookup, look_up
from pillarbox.outbound.provider import Begin, Request, Response
from pillarbox.posting import in_pieces, trouble

# aiohttp takes most of a second to import on a busy machine, which a command that sends nothing must not pay.
if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

    from pillarbox.outbound.connections import Flight, Reach

_MOST_READ = 64 * 1024
# aiohttp hands a body of this size to the system in one go, together with the headers.
_WRITTEN_AT_ONCE = 64 * 1024
_HEADERS = {"User-Agent": "Pillarbox", "Accept-Encoding": "identity"}


class NotSent(Exception):
    """Nothing of the request left; the text says why and may be shown to anyone."""


class Unanswered(Exception):
    """The request may have arrived, and there is no answer; the text says why and may be shown to anyone."""


@dataclass(slots=True)
class Answer:
    """An answer as far as it came: names of headers in lower case, and whether the body ended within its bounds."""

    status: int
    headers: Mapping[str, str]
    body: bytearray = field(default_factory=bytearray)
    complete: bool = False

    async def fill(self, response: ClientResponse, most: int) -> None:
        """Read the body as it comes."""
        while len(self.body) < most and (part := await response.content.read(most - len(self.body))):
            self.body += part
        self.complete = response.content.at_eof()


class Client:
    """Asks over connections that are kept for the next request; follows no redirect, keeps no cookie, knows no proxy."""

    def __init__(self, *, lookup: Lookup = look_up, ca_file: str | None = None) -> None:
        self._lookup = lookup
        self._ca_file = ca_file
        self._tls: ssl.SSLContext | None = None
        self._sessions: dict[Reach, ClientSession] = {}

    async def fetch(
        self,
        request: Request,
        *,
        deadline: float,
        guarded: bool,
        trusted: frozenset[str] = frozenset(),
        begin: Begin | None = None,
    ) -> Response:
        """Ask once, or raise `Blocked`, `NotSent` or `Unanswered`.

        The deadline is in seconds and covers all of it. An answer whose body breaks off or does not end counts as far as
        it came. Unguarded is for URLs that are the operator's own word. `begin` is awaited once there is a connection, before
        anything is written to it; what it raises is raised, and nothing was sent.
        """
        reach = _reach(request.url, trusted) if guarded else "any"
        answer = await self._ask(request, deadline=deadline, reach=reach, most=_MOST_READ, begin=begin)
        return Response(answer.status, answer.headers, bytes(answer.body), wall())

    async def download(
        self,
        url: str,
        *,
        most: int,
        deadline: float,
        trusted: frozenset[str] = frozenset(),
        headers: Mapping[str, str] | None = None,
        guarded: bool = True,
    ) -> Answer:
        """Get up to that many bytes from a URL, guarded as `fetch` is; the answer tells whether that is all."""
        reach = _reach(url, trusted) if guarded else "any"
        return await self._ask(Request("GET", url, headers or {}), deadline=deadline, reach=reach, most=most)

    async def close(self) -> None:
        """Close every connection, idle or not."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def _ask(
        self, request: Request, *, deadline: float, reach: Reach, most: int, begin: Begin | None = None
    ) -> Answer:
        from aiohttp import ClientError
        from yarl import URL

        from pillarbox.outbound.connections import Flight, current_flight

        flight = Flight(begin)
        current_flight.set(flight)
        answer: Answer | None = None
        try:
            async with asyncio.timeout(deadline):
                response = await self._session(reach).request(
                    request.method,
                    URL(request.url, encoded=True),
                    headers=request.headers,
                    data=in_pieces(request.body) if request.body else None,
                    allow_redirects=False,
                )
                try:
                    answer = Answer(response.status, _readable(response.headers))
                    await answer.fill(response, most)
                finally:
                    # Gives back the connection of an answer that was read to its end, and cuts off any other.
                    response.close()
        except (ClientError, OSError, ValueError) as error:
            if flight.blocked is not None:
                raise flight.blocked from None
            if answer is None:
                raise _failure(error, flight, request, deadline) from None
        return answer

    def _session(self, reach: Reach) -> ClientSession:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar

        from pillarbox.outbound.connections import Connector

        if reach not in self._sessions:
            if self._tls is None:
                self._tls = _tls(self._ca_file)
            self._sessions[reach] = ClientSession(
                connector=Connector(reach=reach, lookup=self._lookup, tls=self._tls),
                timeout=ClientTimeout(total=None),
                cookie_jar=DummyCookieJar(),
                headers=_HEADERS,
                trust_env=False,
                auto_decompress=False,
                read_bufsize=_MOST_READ,
            )
        return self._sessions[reach]


def _reach(url: str, trusted: frozenset[str]) -> Reach:
    """Judge a URL once more: what is trusted may have changed since it was taken."""
    try:
        return "trusted" if judge_url(url, trusted=trusted) else "public"
    except ValueError as fault:
        raise Blocked(f"The destination's URL {fault}") from None


def _readable(headers: Mapping[str, str]) -> dict[str, str]:
    """The first of each header, as text that can be stored."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        found.setdefault(name.lower(), value.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    return found


def _failure(error: Exception, flight: Flight, request: Request, deadline: float) -> NotSent | Unanswered:
    from pillarbox.outbound.connections import ClosedEarly

    if isinstance(error, ClosedEarly):
        return NotSent("The server closed the connection before the request was sent.")
    if isinstance(error, TimeoutError):
        if flight.connected:
            return Unanswered(f"No answer from the server within {deadline:g} s.")
        return NotSent(f"No connection to the server within {deadline:g} s.")
    said = trouble(error, "server")
    return NotSent(said) if _never_left(error, flight, request) else Unanswered(said)


def _never_left(error: Exception, flight: Flight, request: Request) -> bool:
    import aiohttp

    if not flight.connected:
        return True
    if isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientError):
        return True  # The request itself could not be written down.
    refused = any(isinstance(found, aiohttp.ClientConnectionResetError) for found in (error, error.__cause__))
    return refused and len(request.body) <= _WRITTEN_AT_ONCE


def _tls(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context
