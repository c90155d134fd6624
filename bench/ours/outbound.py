"""The outbound queue: mail of ten tenants to a provider that does nothing, with history and attempts written as ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from random import Random

from bench.peers.producer import Producer
from bench.peers.stamps import handle, looking
from pillarbox.box import open_database
from pillarbox.outbound.messages import Email
from pillarbox.outbound.model import Channel, NewTenant
from pillarbox.outbound.pipe import Outbound
from pillarbox.outbound.policy import OutboundPolicy, ProviderPolicy
from pillarbox.outbound.provider import Account, Begin, Outgoing, Verdict
from pillarbox.outbound.providers import providers
from pillarbox.process import holder
from pillarbox.secrets import Sealer
from pillarbox.settings import load_settings
from pillarbox.storage.migrate import migrate
from pillarbox.telemetry import Metrics

TENANTS = 10
AT_ONCE = 500


class Nothing:
    """Accepts every mail and does nothing with it."""

    name = "nothing"
    channels: frozenset[Channel] = frozenset({"email"})
    credentials: tuple[str, ...] = ()
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    base_url = ""

    def __init__(self, deliver: Callable[[str], None]) -> None:
        self._deliver = deliver

    async def send(self, message: Outgoing, account: Account, *, deadline: float, begin: Begin) -> Verdict:
        await begin()
        assert message.text
        self._deliver(message.text)
        return Verdict(judgement="accepted", status_code=200, provider_msg_id="x")


@asynccontextmanager
async def opened(url: str, *, deliver: Callable[[str], None] = handle) -> AsyncIterator[Outbound]:
    database = await open_database(url, load_settings(environ={}))
    try:
        await migrate(database)
        outbound = Outbound(
            database,
            policy=OutboundPolicy(concurrency=AT_ONCE, of_provider={"nothing": ProviderPolicy(concurrency=AT_ONCE)}),
            providers=providers(Nothing(deliver)),
            sealer=Sealer(b"k" * 32),
            holder=holder("bench"),
            metrics=Metrics("bench"),
            random=Random(0),
        )
        database.watch(outbound.heard)
        yield outbound
        await outbound.close()
    finally:
        await database.close()


async def prepare(url: str) -> None:
    sending = {"email": {"provider": "nothing", "from": "Acme <hello@acme.example.com>"}}
    async with opened(url) as outbound:
        for n in range(TENANTS):
            await outbound.tenants.put(f"t{n}", NewTenant(providers=sending))


@asynccontextmanager
async def producer(url: str) -> AsyncIterator[Producer]:
    numbers = count()
    async with opened(url) as outbound:

        async def one(text: str) -> None:
            n = next(numbers)
            message = Email(to=f"user{n}@example.com", subject="Hello", text=text)
            await outbound.send(f"t{n % TENANTS}", message)

        async def many(texts: list[str]) -> None:
            await asyncio.gather(*map(one, texts))

        yield Producer(one, many)


async def work(url: str) -> None:
    async with opened(url) as outbound:
        looking()
        await outbound.drain.run(grace=10)
