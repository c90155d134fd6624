"""Outbound pipes at work on one database, with a provider that notes when each send begins."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

from pillarbox.box import open_database
from pillarbox.outbound.model import Channel, NewTenant, TenantSettings
from pillarbox.outbound.pipe import Outbound
from pillarbox.outbound.policy import OutboundPolicy, ProviderPolicy
from pillarbox.outbound.provider import Account, Begin, Outgoing, Provider, Verdict
from pillarbox.outbound.providers import providers
from pillarbox.secrets.sealing import Sealer
from pillarbox.settings import Settings
from pillarbox.storage.migrate import migrate
from pillarbox.telemetry import Metrics

ENDED = ("sent", "canceled", "failed")


class Recorder:
    """Notes when each send begins, and takes its time; before that it may take long to connect."""

    name = "recorder"
    channels: frozenset[Channel] = frozenset({"email"})
    credentials: tuple[str, ...] = ()
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    base_url = ""

    def __init__(self, random: Random, slowest: float, *, fastest: float = 0.0, connecting: float = 0.0) -> None:
        self.begun: dict[str, list[float]] = defaultdict(list)
        self._random = random
        self._slowest = slowest
        self._fastest = fastest
        self._connecting = connecting
        self.connecting = asyncio.Event()

    async def send(self, message: Outgoing, account: Account, *, deadline: float, begin: Begin) -> Verdict:
        self.connecting.set()
        if self._connecting:
            await asyncio.sleep(self._random.uniform(0, self._connecting))
        await begin()
        self.begun[message.message_id].append(time.monotonic())
        await asyncio.sleep(self._random.uniform(self._fastest, self._slowest))
        return Verdict(judgement="accepted")


@asynccontextmanager
async def working(url: str, name: str, provider: Provider, policy: OutboundPolicy) -> AsyncIterator[Outbound]:
    """A process of its own on the database, at work."""
    database = await open_database(url, Settings())
    try:
        await migrate(database)
        outbound = Outbound(
            database,
            policy=policy,
            providers=providers(provider),
            sealer=Sealer(bytes(32)),
            holder=name,
            metrics=Metrics("pillarbox"),
            random=Random(name),
        )
        database.watch(outbound.heard)
        work = asyncio.create_task(outbound.drain.run(grace=5))
        yield outbound
        outbound.drain.stop()
        await work
        await outbound.close()
    finally:
        await database.close()


@asynccontextmanager
async def two_nodes(
    url: str, recorder: Recorder, *tenants: str, rate: int | None = None, concurrency: int = 64
) -> AsyncIterator[list[Outbound]]:
    """Two of them, for one tenant or several that send by the recorder."""
    policy = OutboundPolicy(poll=0.05, of_provider={"recorder": ProviderPolicy(concurrency=concurrency)})
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(working(url, name, recorder, policy)) for name in ("here", "there")]
        new = NewTenant(
            providers={"email": {"provider": "recorder", "from": "a@example.com"}},
            settings=TenantSettings(rate_per_minute=rate),
        )
        for tenant in tenants or ("acme",):
            await nodes[0].tenants.put(tenant, new)
        yield nodes


async def ended(node: Outbound, message_id: str) -> str:
    """How a message ends, once it does."""
    while (status := (await node.get(message_id)).status) not in ENDED:  # noqa: ASYNC110 - in the database
        await asyncio.sleep(0.02)
    return status
