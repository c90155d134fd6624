"""Connections as outbound opens them: every address judged, none written to that is already gone.

Kept apart from the client because it needs aiohttp at once, which takes long to import.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from aiohttp import (
    AddrInfoType,
    ClientConnectionError,
    ClientRequest,
    ClientTimeout,
    ServerDisconnectedError,
    TCPConnector,
)
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import Connection
from aiohttp.tracing import Trace

from pillarbox.outbound.destinations import Blocked
from pillarbox.outbound.names import Lookup, addresses, refuse_forbidden
from pillarbox.outbound.provider import Begin

Reach = Literal["public", "trusted", "any"]
"""Which addresses may be connected to: public ones; all but link-local and metadata; all."""

# Common servers drop a connection that is idle for five seconds.
_KEEPALIVE_SECONDS = 4.0
_CLOSED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class ClosedEarly(ClientConnectionError):
    """The server closed the connection before anything was sent over it."""


@dataclass(slots=True)
class Flight:
    """How far one request has come."""

    begin: Begin | None = None
    connected: bool = False
    """From here on some of it may have left."""
    new_connection: bool = False
    blocked: Blocked | None = None


current_flight: ContextVar[Flight] = ContextVar("current_flight")


class Connector(TCPConnector):
    """Opens connections within one reach and keeps them for requests of the same reach alone."""

    def __init__(self, *, reach: Reach, lookup: Lookup, tls: ssl.SSLContext) -> None:
        super().__init__(
            resolver=_Names(reach, lookup),
            socket_factory=self._socket,
            ssl=tls,
            limit=0,
            keepalive_timeout=_KEEPALIVE_SECONDS,
        )
        self._reach = reach

    async def connect(self, req: ClientRequest, traces: list[Trace], timeout: ClientTimeout) -> Connection:
        flight = current_flight.get()
        if flight.connected:
            # aiohttp sends some requests a second time by itself; whether to do that is not for it to decide.
            raise ServerDisconnectedError
        while True:
            flight.new_connection = False
            connection = await super().connect(req, traces, timeout)
            if flight.begin is not None:
                try:
                    await flight.begin()
                except BaseException:
                    connection.close()
                    raise
            if not _gone(connection, new=flight.new_connection):
                flight.connected = True
                return connection
            connection.close()
            if flight.new_connection:
                raise ClosedEarly

    def _socket(self, place: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, sockaddr = place
        flight = current_flight.get()
        flight.new_connection = True
        if self._reach != "any":
            try:
                refuse_forbidden(str(sockaddr[0]), trusted=self._reach == "trusted")
            except Blocked as blocked:
                flight.blocked = blocked
                raise OSError(errno.EACCES, "blocked") from None
        return socket.socket(family=family, type=kind, proto=protocol)


class _Names(AbstractResolver):
    def __init__(self, reach: Reach, lookup: Lookup) -> None:
        self._reach = reach
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        if self._reach == "any":
            found = await self._lookup(host, port)
        else:
            found = await addresses(host, port, trusted=self._reach == "trusted", lookup=self._lookup)
        if not found:
            raise OSError(socket.EAI_NONAME, "no addresses")
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=socket.AI_NUMERICHOST)
            for address in found
        ]

    async def close(self) -> None:
        """Nothing is held."""


def _gone(connection: Connection, *, new: bool) -> bool:
    """Whether the server hung up before we asked anything.

    Over a kept connection nothing may come unasked, so whatever can be read there is the end of it.
    """
    transport: Any = connection.transport
    if transport is None or transport.is_closing():
        return True
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), _CLOSED if new else _CLOSED | select.POLLIN)
    return bool(poll.poll(0))
