"""A run that is cancelled uses up the attempts of what it had begun to send, and of nothing else."""

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from pillarbox.outbound.model import Channel, NewTenant
from pillarbox.outbound.pipe import Outbound
from pillarbox.outbound.policy import OutboundPolicy, ProviderPolicy
from pillarbox.outbound.provider import Account, Begin, Outgoing, Verdict
from pillarbox.outbound.providers import providers
from pillarbox.secrets.sealing import Sealer
from pillarbox.telemetry import Metrics
from tests.contracts.outbound_boxes import OutboundNode, outbound_node_at


class Stuck:
    """Never gets done: with some it does not even begin."""

    name = "stuck"
    channels: frozenset[Channel] = frozenset({"email"})
    credentials: tuple[str, ...] = ()
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    base_url = ""

    def __init__(self) -> None:
        self.reached = asyncio.Semaphore(0)

    async def send(self, message: Outgoing, account: Account, *, deadline: float, begin: Begin) -> Verdict:
        if message.to.startswith("begun"):
            await begin()
        self.reached.release()
        await asyncio.Event().wait()
        raise AssertionError("nobody waits for this")


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[OutboundNode]:
    async with outbound_node_at(database_url) as here:
        yield here


def pipe_with(provider: Stuck, node: OutboundNode, *, concurrency: int) -> Outbound:
    return Outbound(
        node.database,
        policy=OutboundPolicy(of_provider={"stuck": ProviderPolicy(concurrency=concurrency)}),
        providers=providers(provider),
        sealer=Sealer(bytes(32)),
        holder="here",
        metrics=Metrics("pillarbox"),
        random=Random(0),
    )


async def test_only_what_had_begun_counts_as_tried(node: OutboundNode) -> None:
    provider = Stuck()
    outbound = pipe_with(provider, node, concurrency=2)
    email = {"provider": "stuck", "from": "a@example.com"}
    await outbound.tenants.put("acme", NewTenant(providers={"email": email}))
    names = ("begun", "connecting", "waiting", "waiting-too")
    run = None
    ids = {}
    for name in names:
        ids[name] = await node.put("acme", f"{name}@example.com", max_attempts=1)
        run = run or asyncio.create_task(outbound.drain.run(grace=60))
        outbound.bell.ring()
        if not name.startswith("waiting"):
            await provider.reached.acquire()
    while outbound.drain.in_flight < len(names):  # noqa: ASYNC110 - no more than a few turns
        await asyncio.sleep(0)
    assert run is not None
    run.cancel()
    await asyncio.wait([run])
    await outbound.close()
    begun = await node.get(ids.pop("begun"))
    assert (begun.status, [attempt.outcome for attempt in begun.attempts]) == ("failed", ["unknown"])
    for message_id in ids.values():
        shown = await node.get(message_id)
        assert (shown.status, shown.attempt_count, shown.attempts) == ("pending", 0, ())
