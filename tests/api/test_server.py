"""Over a real socket: what only the server below the application can get wrong."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from urllib.parse import urlsplit

import apsw
import pytest

from pillarbox.api.server import serve
from pillarbox.box import Pillarbox
from pillarbox.errors import InvalidInput, Unavailable
from pillarbox.settings import Settings, Shutdown
from tests.api.client import ADMIN_KEY

AUTH = f"Host: localhost\r\nAuthorization: Bearer {ADMIN_KEY}\r\n"


@asynccontextmanager
async def served(url: str, settings: Settings | None = None) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    async with Pillarbox.open(url, settings=settings or Settings()) as box:
        ready: asyncio.Future[str] = loop.create_future()
        serving = asyncio.create_task(serve(box, host="127.0.0.1", port=0, admin_key=ADMIN_KEY, ready=ready.set_result))
        port = urlsplit(await asyncio.wait_for(ready, 20)).port
        assert port
        yield port
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving


async def talk(port: int, *pieces: bytes) -> tuple[int, bytes]:
    """Send everything, and only then read one answer, as simple clients do."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(20):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        body = await reader.readexactly(int(lengths[0].partition(b":")[2])) if lengths else b""
    writer.close()
    return int(head.split()[1]), body


def post(body: bytes, *headers: str) -> bytes:
    more = "".join(f"{header}\r\n" for header in headers)
    return f"POST /v1/inbound HTTP/1.1\r\n{AUTH}{more}\r\n".encode() + body


async def test_a_real_server_answers_and_stops_when_cancelled(sqlite_url: str) -> None:
    async with served(sqlite_url) as port:
        status, body = await talk(port, f"GET /v1/status HTTP/1.1\r\n{AUTH}\r\n".encode())
        assert (status, json.loads(body)["inbound"]["pending"]) == (200, 0)
    with pytest.raises(ConnectionRefusedError):
        await talk(port, b"")


async def test_a_request_that_a_stop_does_not_wait_for_is_answered_and_is_no_fault_in_the_log(
    sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps({"session_id": "s1", "target": {"kind": "none"}}).encode()
    request = f"POST /v1/sessions HTTP/1.1\r\n{AUTH}Content-Length: {len(body)}\r\n\r\n".encode() + body
    with closing(apsw.Connection(sqlite_url.removeprefix("sqlite:///"))) as other:
        async with served(sqlite_url, Settings(shutdown=Shutdown(grace_seconds=0.01))) as port:
            other.execute("BEGIN IMMEDIATE")
            asking = asyncio.create_task(talk(port, request))
            # Whoever is answered after it was sent after it.
            assert (await talk(port, f"GET /healthz HTTP/1.1\r\n{AUTH}\r\n".encode()))[0] == 200
        status, answer = await asking
        other.execute("ROLLBACK")
    assert (status, json.loads(answer)["detail"]) == (503, "The server is being stopped; try again.")
    assert "Exception in ASGI application" not in caplog.text


async def test_headers_beyond_the_limit_are_431_whole_or_unfinished(sqlite_url: str) -> None:
    async with served(sqlite_url) as port:
        start = f"GET /v1/status HTTP/1.1\r\n{AUTH}".encode()
        assert (await talk(port, start + b"X: " + b"x" * 70_000 + b"\r\n\r\n"))[0] == 431
        assert (await talk(port, start + b"X: ", *[b"x" * 10_000] * 40))[0] == 431
        assert (await talk(port, start, *[b"X: y\r\n" * 2000] * 20))[0] == 431
        assert (await talk(port, b"GET /" + b"x" * 200_000))[0] == 431
        assert (await talk(port, start + b"X: " + b"x" * 60_000 + b"\r\n\r\n"))[0] == 200


async def test_bodies_beyond_the_limit_are_413_even_for_those_who_send_first(sqlite_url: str) -> None:
    async with served(sqlite_url) as port:
        piece = b"x" * 2**20
        declared = post(b"", f"Content-Length: {40 * 2**20}")
        assert (await talk(port, declared))[0] == 413
        assert (await talk(port, declared, *[piece] * 40))[0] == 413
        chunk = b"100000\r\n" + piece + b"\r\n"
        assert (await talk(port, post(b"", "Transfer-Encoding: chunked"), *[chunk] * 60))[0] == 413


async def test_what_is_not_http_is_400(sqlite_url: str) -> None:
    async with served(sqlite_url) as port:
        for request in (
            b"\x16\x03\x01\x02\x00\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
            post(b"", "Content-Length: -1"),
            post(b"", "Content-Length: 1", "Content-Length: 2"),
            post(b"", "Content-Length: 1", "Transfer-Encoding: chunked"),
            post(b"zz\r\n", "Transfer-Encoding: chunked"),
        ):
            status, body = await talk(port, request)
            assert (request[:60], 400 <= status < 500) == (request[:60], True), status
            assert b"Traceback" not in body


async def test_an_upgrade_that_is_not_offered_changes_nothing(sqlite_url: str) -> None:
    async with served(sqlite_url) as port:
        for protocol in ("h2c", "websocket"):
            upgrade = f"{AUTH}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {protocol}\r\n"
            assert (await talk(port, f"GET /v1/status HTTP/1.1\r\n{upgrade}\r\n".encode()))[0] == 200
            posted = f"POST /v1/inbound HTTP/1.1\r\n{upgrade}Content-Length: 2\r\n\r\n{{}}".encode()
            assert (await talk(port, posted))[0] == 422


async def test_requests_may_share_a_connection(sqlite_url: str) -> None:
    async with served(sqlite_url) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /v1/nothing HTTP/1.1\r\n{AUTH}\r\n".encode() * 300 + b"GET / HTTP/1.0\r\n\r\n")
        answers = await asyncio.wait_for(reader.read(), 20)
        assert answers.count(b"HTTP/1.1 404 ") == 300
        assert answers.count(b"HTTP/1.1 421 ") == 1
        writer.close()


async def test_an_address_beyond_this_machine_needs_a_key(sqlite_url: str) -> None:
    async with Pillarbox.open(sqlite_url, settings=Settings()) as box:
        for host in ("0.0.0.0", "::", "192.0.2.1"):  # noqa: S104 - refused
            with pytest.raises(InvalidInput, match="no key is configured"):
                await serve(box, host=host, port=0, admin_key=None, ready=print)
        await box.keys.create(tenant="acme")
        with pytest.raises(InvalidInput, match="no key is configured"):
            await serve(box, host="0.0.0.0", port=0, admin_key=None, ready=print)  # noqa: S104 - refused


async def test_a_port_in_use_is_said_in_a_sentence(sqlite_url: str) -> None:
    async with served(sqlite_url) as port, Pillarbox.open(sqlite_url, settings=Settings()) as box:
        with pytest.raises(Unavailable, match="choose another port"):
            await serve(box, host="127.0.0.1", port=port, admin_key=ADMIN_KEY, ready=print)
