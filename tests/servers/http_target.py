"""A real HTTP server that writes down what it is sent and answers by a script."""

import asyncio
import shutil
import ssl
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from multidict import CIMultiDictProxy

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Received:
    """One request, as it came."""

    method: str
    target: str
    headers: CIMultiDictProxy[str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass(slots=True)
class HttpTargetServer:
    """What came, and what to answer next: each scripted answer once, then the default."""

    url: str = ""
    default: Answer = field(default_factory=lambda: answer(200))
    requests: list[Received] = field(default_factory=list)
    script: deque[Answer] = field(default_factory=deque)
    connections: list[web.Request] = field(default_factory=list)
    cut_offs: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def then(self, *answers: Answer) -> None:
        self.script.extend(answers)

    async def received(self, count: int) -> list[Received]:
        """The requests so far, once there are this many."""
        await self._until(lambda: len(self.requests) >= count)
        return self.requests

    async def cut_off(self, count: int = 1) -> None:
        """Wait until the other side has closed the connection under this many answers."""
        await self._until(lambda: self.cut_offs >= count)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    async def take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        connection = id(request.protocol)
        self.connections.append(request)  # keeps the protocol alive, so that its id stays its own
        self.requests.append(Received(request.method, request.path_qs, request.headers, body, connection))
        self._changed.set()
        try:
            return await (self.script.popleft() if self.script else self.default)(request)
        except (asyncio.CancelledError, ConnectionError):
            self.cut_offs += 1
            self._changed.set()
            raise


def answer(status: int, *, json: object = None, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
    async def give(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body if json is None else msgspec.json.encode(json), headers=headers)

    return give


def redirect(to: str, status: int = 302) -> Answer:
    return answer(status, headers={"Location": to})


def hang() -> Answer:
    """Never answer."""

    async def give(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    return give


def drop() -> Answer:
    """Cut the connection instead of answering."""

    async def give(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return give


def drip(status: int, begin: bytes = b"{") -> Answer:
    """Answer with a status and the beginning of a body that never goes on."""

    async def give(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        await response.write(begin)
        await asyncio.Event().wait()
        return response

    return give


def flood(status: int) -> Answer:
    """Answer with a status and a body without end."""

    async def give(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    return give


@asynccontextmanager
async def serve_http_target(
    *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpTargetServer]:
    """A server on a free port of loopback, gone at the end with whatever it was still answering."""
    server = HttpTargetServer()
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", server.take)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.01, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, 0, ssl_context=tls).start()
        port = runner.addresses[0][1]
        server.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve_raw(reply: bytes) -> AsyncIterator[str]:
    """A server that reads something, says these bytes whatever it was asked, and hangs up; its host and port."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read(1)
            writer.write(reply)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def self_signed(directory: Path) -> ssl.SSLContext | None:
    """A server's TLS with a certificate that nobody trusts, or None where openssl is missing."""
    if not (openssl := shutil.which("openssl")):
        return None
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-subj", "/CN=localhost", "-days", "2", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([openssl, "req", *kind, *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
