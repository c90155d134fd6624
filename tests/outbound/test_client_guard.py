import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from aiohttp import ClientConnectorError, ClientSession

from pillarbox.outbound.client import Client
from pillarbox.outbound.connections import Connector, Flight, Reach, current_flight
from pillarbox.outbound.destinations import Blocked
from pillarbox.outbound.provider import Request
from tests.outbound.sink import OK, Sink, Visit, answering, names, not_sent, post, sink


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    client = Client()
    yield client
    await client.close()


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
        listening.settimeout(5)
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


@pytest.mark.parametrize("reach", ["public", "trusted", "any"])
async def test_the_address_of_every_socket_is_judged_however_it_came_about(reach: Reach) -> None:
    async with sink(answering(OK)) as server:
        connector = Connector(reach=reach, lookup=names(), tls=ssl.create_default_context())
        current_flight.set(flight := Flight())
        async with ClientSession(connector=connector) as session:
            with suppress(ClientConnectorError):
                await (await session.get(server.origin)).read()
    assert (flight.blocked is not None, server.visits) == ((True, 0) if reach == "public" else (False, 1))
