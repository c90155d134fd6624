"""A server of plain bytes that behaves as badly as it is told to, and requests to it."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from pillarbox.outbound.client import Client, NotSent
from pillarbox.outbound.names import Lookup
from pillarbox.outbound.provider import Request, Response

Talk = Callable[["Visit"], Coroutine[None, None, None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Visit:
    """One connection, as the server sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    seen: list[bytes]

    async def request(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        request = head + await self.reader.readexactly(length)
        self.seen.append(request)
        return request

    async def say(self, answer: bytes) -> None:
        self.writer.write(answer)
        await self.writer.drain()

    def reset(self) -> None:
        """Hang up with a RST."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def until_cut_off(self) -> None:
        while await self.reader.read(65536):
            pass


@dataclass
class Sink:
    """A server of plain bytes, and everything that came to it."""

    port: int
    scheme: str = "http"
    requests: list[bytes] = field(default_factory=list)
    visits: int = 0

    @property
    def origin(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def trusted(self) -> frozenset[str]:
        return frozenset({self.origin})


@asynccontextmanager
async def sink(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[Sink]:
    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.visits += 1
        visitor = asyncio.create_task(talk(Visit(reader, writer, server.requests)))
        visitors.append((visitor, writer))
        await asyncio.wait([visitor])
        writer.close()

    visitors: list[tuple[asyncio.Task[None], asyncio.StreamWriter]] = []
    listening = await asyncio.start_server(visit, "127.0.0.1", 0, ssl=tls)
    server = Sink(listening.sockets[0].getsockname()[1], "https" if tls else "http")
    try:
        yield server
    finally:
        listening.close()
        for visitor, writer in visitors:
            visitor.cancel()
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await visitor
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


def answering(answer: bytes) -> Talk:
    async def talk(visit: Visit) -> None:
        while True:
            await visit.request()
            await visit.say(answer)

    return talk


def names(**known: Sequence[str]) -> Lookup:
    """A resolver that knows these names, dots written as underscores."""

    async def look_up(host: str, port: int) -> Sequence[str]:
        return known[host.replace(".", "_")]

    return look_up


async def post(
    client: Client,
    server: Sink,
    path: str = "/hook",
    *,
    body: bytes = b"{}",
    method: str = "POST",
    deadline: float = 10,
) -> Response:
    request = Request(method, server.origin + path, {"content-type": "application/json"}, body)
    return await client.fetch(request, deadline=deadline, guarded=True, trusted=server.trusted)


async def not_sent(client: Client, url: str, *, deadline: float = 10) -> str:
    with pytest.raises(NotSent) as trouble:
        await client.fetch(Request("POST", url, {}, b"{}"), deadline=deadline, guarded=False)
    return str(trouble.value)
