import asyncio
import gzip
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from pillarbox.outbound.client import Client, NotSent, Unanswered
from pillarbox.outbound.destinations import Blocked
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


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    client = Client()
    yield client
    await client.close()


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


async def test_a_request_goes_out_byte_for_byte(client: Client) -> None:
    path = "/a%2Fb/%7e/../c?x=%20+y&z=a=b|c"
    async with sink(answering(OK)) as server:
        response = await post(client, server, path, body=b'{"a": 1}')
    assert (response.status, response.headers, response.body) == (200, {"content-length": "2"}, b"ok")
    [request] = server.requests
    assert request.startswith(f"POST {path} HTTP/1.1\r\n".encode())
    assert request.endswith(b'\r\n\r\n{"a": 1}')
    assert b"accept-encoding: identity" in request.lower()


async def test_connections_are_used_again(client: Client) -> None:
    async with sink(answering(OK)) as server:
        for _ in range(3):
            await post(client, server)
    assert (len(server.requests), server.visits) == (3, 1)


async def test_answers_headers_are_text_that_can_be_stored(client: Client) -> None:
    headers = b"X-Message-Id: a\xff\xc3\xa9\r\nRetry-After: 1\r\nRetry-After: 2\r\nContent-Length: 0\r\n"
    async with sink(answering(b"HTTP/1.1 202 Accepted\r\n" + headers + b"\r\n")) as server:
        response = await post(client, server)
    assert response.headers == {"x-message-id": "a\ufffdé", "retry-after": "1", "content-length": "0"}


async def test_a_large_body_goes_out_whole(client: Client) -> None:
    body = bytes(range(256)) * 20_000
    async with sink(answering(OK)) as server:
        assert (await post(client, server, body=body)).status == 200
    assert server.requests[0].endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_told_and_not_followed(status: int, client: Client) -> None:
    async with sink(answering(OK)) as elsewhere:
        location = f"Location: {elsewhere.origin}/".encode()
        answer = b"HTTP/1.1 %d Elsewhere\r\n%b\r\nContent-Length: 0\r\n\r\n" % (status, location)
        async with sink(answering(answer)) as server:
            request = Request("GET", server.origin, {})
            trusted = server.trusted | elsewhere.trusted
            response = await client.fetch(request, deadline=10, guarded=True, trusted=trusted)
    assert (response.status, len(server.requests), elsewhere.visits) == (status, 1, 0)


async def test_no_cookie_is_kept(client: Client) -> None:
    async with sink(answering(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")) as server:
        await post(client, server)
        await post(client, server)
    assert b"cookie" not in server.requests[1].lower()


async def test_no_proxy_of_the_environment_is_used(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async with sink(answering(OK)) as proxy, sink(answering(OK)) as server:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.origin)
        await post(client, server)
    assert (proxy.visits, server.visits) == (0, 1)


async def test_five_megabytes_of_answer_are_cut_off_at_64_kib(client: Client) -> None:
    size = 5_000_000
    cut_off = asyncio.Event()

    async def talk(visit: Visit) -> None:
        await visit.request()
        with suppress(ConnectionError):
            await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
            await visit.until_cut_off()
        cut_off.set()

    async with sink(talk) as server:
        response = await post(client, server)
        await cut_off.wait()
    assert (response.status, response.body) == (200, b"x" * 65536)


async def test_a_compressed_answer_is_not_blown_up(client: Client) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    async with sink(answering(head + bomb)) as server:
        assert (await post(client, server)).body == bomb[:65536]


@pytest.mark.parametrize("status", [200, 400, 503])
async def test_a_status_counts_even_if_the_body_never_ends(status: int, client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 %d Slow\r\nContent-Length: 100\r\n\r\nbegin" % status)
        await visit.until_cut_off()

    async with sink(talk) as server:
        response = await post(client, server, deadline=0.2)
    assert (response.status, response.body) == (status, b"begin")


async def test_a_status_counts_even_if_the_body_breaks_off(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nbegin")

    async with sink(talk) as server:
        assert (await post(client, server)).status == 201


async def unanswered(client: Client, talk: Talk, *, deadline: float = 10, method: str = "POST") -> str:
    async with sink(talk) as server:
        with pytest.raises(Unanswered) as trouble:
            await post(client, server, deadline=deadline, method=method)
        assert str(server.port) not in str(trouble.value)
        assert "127.0.0.1" not in str(trouble.value)
    assert len(server.requests) == server.visits == 1
    return str(trouble.value)


async def test_a_server_that_never_answers_leaves_it_open(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.until_cut_off()

    assert await unanswered(client, talk, deadline=0.2) == "No answer from the server within 0.2 s."


@pytest.mark.parametrize("method", ["POST", "PUT", "GET", "DELETE"])
async def test_a_reset_after_the_request_leaves_it_open_and_nothing_is_sent_again(method: str, client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        visit.reset()

    await unanswered(client, talk, method=method)


@pytest.mark.parametrize("method", ["POST", "PUT", "GET", "DELETE"])
async def test_a_close_after_the_request_leaves_it_open_and_nothing_is_sent_again(method: str, client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()

    text = await unanswered(client, talk, method=method)
    assert text == "The server closed the connection without an answer."


async def test_a_kept_connection_cut_after_the_second_request_leaves_that_one_open(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.say(OK)
        await visit.request()

    async with sink(talk) as server:
        assert (await post(client, server, method="PUT")).status == 200
        with pytest.raises(Unanswered):
            await post(client, server, method="PUT")
    assert (len(server.requests), server.visits) == (2, 1)


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00\x01\x02\xff" * 100,
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: minus\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(10_000)) + b"\r\n",
        b"<html>not HTTP at all</html>",
    ],
    ids=["ssh", "binary", "no-status", "bad-length", "long-header", "header-flood", "html"],
)
async def test_an_answer_that_is_no_http_leaves_it_open(garbage: bytes, client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.say(garbage)
        await visit.until_cut_off()

    assert await unanswered(client, talk) == "The server's answer was not valid HTTP."


async def test_a_head_that_never_ends_leaves_it_open_at_the_deadline(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        await visit.until_cut_off()

    assert await unanswered(client, talk, deadline=0.2) == "No answer from the server within 0.2 s."


async def test_endless_interim_answers_leave_it_open_at_the_deadline(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        while not visit.writer.is_closing():
            await visit.say(b"HTTP/1.1 100 Continue\r\n\r\n")
            await asyncio.sleep(0)

    assert await unanswered(client, talk, deadline=0.2) == "No answer from the server within 0.2 s."


async def test_a_request_that_is_never_read_leaves_it_open_at_the_deadline(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await asyncio.Event().wait()

    async with sink(talk) as server:
        with pytest.raises(Unanswered):
            await post(client, server, body=b"x" * 20_000_000, deadline=0.3)


async def not_sent(client: Client, url: str, *, deadline: float = 10) -> str:
    with pytest.raises(NotSent) as trouble:
        await client.fetch(Request("POST", url, {}, b"{}"), deadline=deadline, guarded=False)
    return str(trouble.value)


async def test_a_refused_connection_means_nothing_left(client: Client) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        assert await not_sent(client, url) == "The server could not be reached (ECONNREFUSED)."


async def test_a_name_that_leads_nowhere_means_nothing_left() -> None:
    async def look_up(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    for lookup in (look_up, names(nowhere_example=())):
        client = Client(lookup=lookup)
        text = await not_sent(client, "https://nowhere.example/")
        assert text == "The server's host name could not be resolved."
        await client.close()


async def test_a_name_server_that_hangs_means_nothing_left() -> None:
    async def look_up(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    client = Client(lookup=look_up)
    text = await not_sent(client, "https://slow.example/", deadline=0.1)
    assert text == "No connection to the server within 0.1 s."
    await client.close()


async def test_a_handshake_that_hangs_means_nothing_left(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.until_cut_off()

    async with sink(talk) as server:
        text = await not_sent(client, f"https://127.0.0.1:{server.port}/", deadline=0.2)
    assert text == "No connection to the server within 0.2 s."


async def test_a_server_without_tls_means_nothing_left(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.reader.read(1)
        await visit.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with sink(talk) as server:
        text = await not_sent(client, f"https://127.0.0.1:{server.port}/")
    assert text == "TLS could not be agreed upon with the server."


@dataclass(frozen=True)
class Authority:
    ca: trustme.CA
    file: str

    def server(self, *hosts: str, not_after: datetime | None = None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*hosts, not_after=not_after).configure_cert(context)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    ca = trustme.CA()
    file = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(file)
    return Authority(ca, str(file))


async def test_a_server_is_believed_by_an_extra_authority(authority: Authority) -> None:
    client = Client(ca_file=authority.file, lookup=names(hook_example=["127.0.0.1"]))
    async with sink(answering(OK), authority.server("hook.example")) as server:
        url = f"https://hook.example:{server.port}"
        for _ in range(2):
            response = await client.fetch(Request("POST", url, {}), deadline=10, guarded=True, trusted=frozenset({url}))
            assert response.status == 200
    assert server.visits == 1
    await client.close()


@pytest.mark.parametrize("fault", ["unknown authority", "another name", "expired"])
async def test_a_certificate_that_does_not_hold_means_nothing_left(fault: str, authority: Authority) -> None:
    host = "other.example" if fault == "another name" else "hook.example"
    expiry = datetime.now(UTC) - timedelta(days=1) if fault == "expired" else None
    ca_file = None if fault == "unknown authority" else authority.file
    client = Client(ca_file=ca_file, lookup=names(hook_example=["127.0.0.1"]))
    async with sink(answering(OK), authority.server(host, not_after=expiry)) as server:
        text = await not_sent(client, f"https://hook.example:{server.port}/")
    assert text == "The server's TLS certificate was not accepted."
    assert not server.requests
    await client.close()


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_a_kept_connection_the_server_dropped_is_not_written_to(
    ending: str, secure: bool, authority: Authority
) -> None:
    hung_up = asyncio.Event()

    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.say(OK)
        if server.visits == 1:
            await drop.wait()
            visit.reset() if ending == "reset" else visit.writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await visit.writer.wait_closed()
            hung_up.set()

    client = Client(ca_file=authority.file)
    drop = asyncio.Event()
    async with sink(talk, authority.server("127.0.0.1") if secure else None) as server:
        assert (await post(client, server)).status == 200
        drop.set()
        await hung_up.wait()
        assert (await post(client, server)).status == 200
    assert (len(server.requests), server.visits) == (2, 2)
    await client.close()


async def test_a_drop_that_the_loop_has_not_seen_yet_is_seen_before_writing(client: Client) -> None:
    """The server is a thread's, so that it can hang up while this loop is not looking."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = Sink(port)
        first = asyncio.create_task(post(client, server))
        visitor, _ = await asyncio.to_thread(listening.accept)
        await asyncio.to_thread(visitor.recv, 65536)
        visitor.sendall(OK)
        assert (await first).status == 200
        visitor.close()
        second = asyncio.create_task(post(client, server))
        visitor, _ = await asyncio.to_thread(listening.accept)
        with visitor:
            assert (await asyncio.to_thread(visitor.recv, 65536)).startswith(b"POST /hook")
            visitor.sendall(OK)
            assert (await second).status == 200


async def blocked(client: Client, url: str, trusted: frozenset[str] = frozenset()) -> str:
    with pytest.raises(Blocked) as block:
        await client.fetch(Request("POST", url, {}, b"{}"), deadline=10, guarded=True, trusted=trusted)
    return str(block.value)


async def test_a_forbidden_address_is_not_connected_to(client: Client) -> None:
    async with sink(answering(OK)) as server:
        for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "127.1", "0x7f000001", "2130706433", "localhost"):
            text = await blocked(client, f"https://{host}:{server.port}/")
            assert host not in text
        assert await blocked(client, f"{server.origin}/")
    assert server.visits == 0


@pytest.mark.parametrize(
    "answers",
    [["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["127.0.0.1", "93.184.215.14"], ["2606:4700::1", "::1"], ["10.0.0.1"],
     ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"], ["fe80::1%lo"], ["169.254.169.254"], ["elsewhere.example"]],
)  # fmt: skip
async def test_a_name_with_one_forbidden_address_is_blocked(answers: list[str]) -> None:
    client = Client(lookup=names(evil_example=answers))
    async with sink(answering(OK)) as server:
        text = await blocked(client, f"https://evil.example:{server.port}/")
    assert server.visits == 0
    assert text.startswith("The destination is ")
    assert not any(answer in text for answer in answers)
    await client.close()


async def test_a_trusted_name_is_reached_unless_it_leads_to_a_link_local_address(authority: Authority) -> None:
    lookup = names(inside_example=["127.0.0.1"], meta_example=["127.0.0.1", "169.254.169.254"])
    client = Client(ca_file=authority.file, lookup=lookup)
    async with sink(answering(OK), authority.server("inside.example", "meta.example")) as server:
        inside, meta = f"https://inside.example:{server.port}", f"https://meta.example:{server.port}"
        request = Request("POST", inside, {})
        assert (await client.fetch(request, deadline=10, guarded=True, trusted=frozenset({inside}))).status == 200
        assert server.visits == 1
        await blocked(client, meta, frozenset({meta}))
        assert server.visits == 1
    await client.close()


async def test_one_tenants_trust_opens_no_connection_to_another(authority: Authority) -> None:
    client = Client(ca_file=authority.file, lookup=names(inside_example=["127.0.0.1"]))
    async with sink(answering(OK), authority.server("inside.example")) as server:
        url = f"https://inside.example:{server.port}"
        for guarded, trusted in ((True, frozenset({url})), (False, frozenset[str]())):
            await client.fetch(Request("POST", url, {}), deadline=10, guarded=guarded, trusted=trusted)
        await blocked(client, url)
    assert len(server.requests) == 2
    await client.close()


async def test_a_name_that_changes_its_mind_is_judged_at_every_connection() -> None:
    asked = 0

    async def look_up(host: str, port: int) -> Sequence[str]:
        nonlocal asked
        asked += 1
        return ["127.0.0.1"]

    client = Client(lookup=look_up)
    async with sink(answering(OK)) as server:
        for attempt in range(1, 4):
            await blocked(client, f"https://rebinding.example:{server.port}/")
            assert asked == attempt
    assert server.visits == 0
    await client.close()


async def test_the_operators_own_url_may_lead_to_loopback(client: Client) -> None:
    async with sink(answering(OK)) as server:
        for host in ("127.0.0.1", "localhost"):
            request = Request("POST", f"http://{host}:{server.port}/v3", {})
            assert (await client.fetch(request, deadline=10, guarded=False)).status == 200


async def test_a_download_tells_whether_it_is_all(client: Client) -> None:
    async with sink(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole")) as server:
        for most, body, complete in ((9, b"whole", True), (5, b"whole", True), (4, b"whol", False)):
            answer = await client.download(server.origin, most=most, deadline=10, trusted=server.trusted)
            assert (bytes(answer.body), answer.complete) == (body, complete)
