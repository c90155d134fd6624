"""A send begins soon after a look at who has opted out, however long it takes to get ready."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pillarbox.outbound.attempt import Parcel
from pillarbox.outbound.beginning import Beginning, NotBegun
from pillarbox.outbound.messages import Email, Webhook
from pillarbox.outbound.model import NewAttachment, NewTenant, TenantSettings
from pillarbox.outbound.pipe import Outbound
from pillarbox.outbound.policy import OutboundPolicy
from pillarbox.outbound.provider import Provider
from pillarbox.outbound.providers import providers
from pillarbox.outbound.providers.smtp import Smtp
from pillarbox.secrets.sealing import Keyless
from pillarbox.telemetry import Metrics
from tests.contracts.outbound_boxes import OutboundNode, outbound_node_at
from tests.outbound.sink import OK, Visit, sink
from tests.outbound.working_nodes import Recorder, ended, working
from tests.servers.smtp import authority

RECORDER = {"provider": "recorder", "from": "a@example.com"}


@asynccontextmanager
async def node_trusting(
    url: str, origin: str, provider: Provider, **configs: dict[str, Any]
) -> AsyncIterator[Outbound]:
    """A node at work for one tenant that trusts one destination."""
    async with working(url, "here", provider, OutboundPolicy(poll=0.05)) as node:
        settings = TenantSettings(trusted_destinations=(origin,))
        await node.tenants.put("acme", NewTenant(providers=configs, settings=settings))
        yield node


async def test_an_attachment_that_takes_long_to_read_is_sent_along_once(database_url: str) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await asyncio.sleep(2.5)
        await visit.say(OK)

    recorder = Recorder(Random(1), 0)
    async with sink(talk) as server, node_trusting(database_url, server.origin, recorder, email=RECORDER) as node:
        file = NewAttachment(filename="a.txt", url=f"{server.origin}/a")
        message_id = await node.send("acme", Email(to="ann@example.com", text="Hi", attachments=[file]))
        assert await ended(node, message_id) == "sent"
        assert (len(recorder.begun[message_id]), len(server.requests)) == (1, 1)
        assert (await node.get(message_id)).attempt_count == 1


async def test_an_opt_out_during_a_slow_greeting_keeps_the_mail_back(database_url: str) -> None:
    connected, acknowledged = asyncio.Event(), asyncio.Event()
    heard: list[bytes] = []

    async def talk(visit: Visit) -> None:
        connected.set()
        await acknowledged.wait()
        await visit.say(b"220 mail.test\r\n")
        while line := await visit.reader.readline():
            heard.append(line[:4])
            await visit.say(b"250 OK\r\n")

    async with sink(talk) as server:
        smtp = {"provider": "smtp", "host": "127.0.0.1", "port": server.port, "tls": "none", "from": "a@example.com"}
        async with node_trusting(database_url, f"smtp://127.0.0.1:{server.port}", Smtp(), email=smtp) as node:
            message_id = await node.send("acme", Email(to="ann@example.com", text="Hi"))
            await connected.wait()
            await node.opt_out("acme", "ann@example.com")
            acknowledged.set()
            assert await ended(node, message_id) == "canceled"
            assert (await node.get(message_id)).attempt_count == 0
    assert heard == [b"EHLO"]


async def test_an_opt_out_during_a_slow_handshake_keeps_the_request_back(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vouching = authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(vouching.file))
    context = vouching.server("127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        origin = f"https://127.0.0.1:{listening.getsockname()[1]}"
        async with node_trusting(database_url, origin, Smtp(), webhook={"provider": "webhook"}) as node:
            message_id = await node.send("acme", Webhook(url=f"{origin}/hook", body=1))
            accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
            await node.opt_out("acme", f"{origin}/hook")
            reader = asyncio.StreamReader()
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                lambda: asyncio.StreamReaderProtocol(reader), accepted, ssl=context
            )
            assert await reader.read(65536) == b""
            transport.close()
            assert await ended(node, message_id) == "canceled"
            assert (await node.get(message_id)).attempt_count == 0


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[OutboundNode]:
    async with outbound_node_at(database_url) as here:
        await here.tenant("acme")
        yield here


async def test_a_send_soon_after_its_claim_asks_the_database_nothing(node: OutboundNode) -> None:
    message_id = await node.put()
    parcel = (await node.claim_one()).rows[0]
    asked = 0

    async def confirm(parcel: Parcel, now: object) -> bool:
        nonlocal asked
        asked += 1
        return await node.lane.begin(parcel, node.now)

    begin = Beginning(parcel, confirm, node.clock)
    for seconds, expected in [(0, 0), (0.9, 0), (0.2, 1), (0.9, 1), (20, 2)]:
        node.clock.advance(seconds)
        await begin()
        assert asked == expected
    assert (await node.get(message_id)).attempts[0].started_at == node.now


async def test_a_send_long_after_its_claim_does_not_begin_for_whoever_opted_out(node: OutboundNode) -> None:
    await node.put()
    parcel = (await node.claim_one()).rows[0]
    node.clock.advance(10)
    begin = Beginning(parcel, node.lane.begin, node.clock)
    await node.outbound.opt_out("acme", "ann@example.com")
    with pytest.raises(NotBegun):
        await begin()
    assert not begin.begun


async def test_without_the_key_a_message_waits_and_no_attempt_is_counted(node: OutboundNode) -> None:
    message_id = await node.put(
        channel="webhook", to="https://example.com/hook", text=None, subject=None, headers={"X-A": "1"}
    )
    keyless: Any = Keyless("There is no key.")
    outbound = Outbound(
        node.database,
        policy=OutboundPolicy(),
        providers=providers(),
        sealer=keyless,
        holder="keyless",
        metrics=Metrics("pillarbox"),
        random=Random(0),
    )
    await outbound.drain.step()
    await outbound.close()
    shown = await node.get(message_id)
    assert (shown.status, shown.attempt_count, shown.attempts) == ("pending", 0, ())
    node.clock.advance(4.9)
    assert await node.claimed_ids() == []
    node.clock.advance(0.1)
    assert await node.claimed_ids() == [message_id]
