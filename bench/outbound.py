"""Outbound: enqueue, drain to a provider that does nothing and to a webhook on loopback, beside other queues."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from random import Random
from typing import Any

from bench.peers_outbound import AT_ONCE, CALLERS, TEXT, Rates
from bench.report import Figure, Report
from bench.servers import Measured
from pillarbox.box import open_database
from pillarbox.outbound.messages import Email, Message
from pillarbox.outbound.messages import Webhook as ToWebhook
from pillarbox.outbound.model import Channel, NewTenant
from pillarbox.outbound.pipe import Outbound
from pillarbox.outbound.policy import OutboundPolicy, ProviderPolicy
from pillarbox.outbound.provider import Account, Begin, Outgoing, Response, Verdict
from pillarbox.outbound.providers import providers
from pillarbox.outbound.providers.webhook import Webhook
from pillarbox.process import holder
from pillarbox.secrets import Sealer
from pillarbox.settings import load_settings
from pillarbox.storage.migrate import migrate
from pillarbox.telemetry import Metrics

PEERS = {"postgres": ("pgqueuer", "procrastinate", "oban"), "sqlite": ("huey",)}
TENANTS = 10
REQUESTS_AT_ONCE = 64
SECRET = "whsec_" + b64encode(b"k" * 32).decode()


class Counter:
    """Tells when so many have come."""

    def __init__(self) -> None:
        self._left = 0
        self._all = asyncio.Event()

    def expect(self, count: int) -> None:
        self._left = count
        self._all.clear()

    def count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._all.set()

    async def wait(self) -> None:
        await self._all.wait()


class Nothing:
    """Accepts every mail and does nothing with it."""

    name = "nothing"
    channels: frozenset[Channel] = frozenset({"email"})
    credentials: tuple[str, ...] = ()
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    base_url = ""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    async def send(self, message: Outgoing, account: Account, *, deadline: float, begin: Begin) -> Verdict:
        await begin()
        self._counter.count()
        return Verdict(judgement="accepted", status_code=200, provider_msg_id="x")


class CountedWebhook(Webhook):
    """Our webhooks, counted."""

    name = "counted"

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    def verdict(self, response: Response) -> Verdict:
        self._counter.count()
        return super().verdict(response)


@asynccontextmanager
async def outbound_on(url: str, *, trusted: str) -> AsyncIterator[tuple[Outbound, Counter]]:
    """The whole pipe, with tenants that send mail into nothing and signed webhooks to the sink."""
    os.environ["PILLARBOX_BENCH_WHSEC"] = SECRET
    database = await open_database(url, load_settings(environ={}))
    counter = Counter()
    try:
        await migrate(database)
        outbound = Outbound(
            database,
            policy=OutboundPolicy(
                concurrency=AT_ONCE,
                trusted=frozenset({trusted}),
                of_provider={
                    "nothing": ProviderPolicy(concurrency=AT_ONCE),
                    "counted": ProviderPolicy(concurrency=REQUESTS_AT_ONCE),
                },
            ),
            providers=providers(Nothing(counter), CountedWebhook(counter)),
            sealer=Sealer(b"k" * 32),
            holder=holder("bench"),
            metrics=Metrics("bench"),
            random=Random(0),
        )
        database.watch(outbound.heard)
        credentials = {"signing_secret": "env:PILLARBOX_BENCH_WHSEC"}
        chosen: dict[str, dict[str, Any]] = {
            "email": {"provider": "nothing", "from": "Acme <hello@acme.example.com>"},
            "webhook": {"provider": "counted", "credentials": credentials},
        }
        for n in range(TENANTS):
            await outbound.tenants.put(f"t{n}", NewTenant(providers=chosen))
        yield outbound, counter
        await outbound.close()
    finally:
        await database.close()


def mail(n: int) -> Message:
    return Email(to=f"user{n}@example.com", subject="Hello", text=TEXT)


async def enqueue_rate(outbound: Outbound, count: int, callers: int) -> float:
    numbers = iter(range(count))

    async def caller() -> None:
        for n in numbers:
            await outbound.send(f"t{n % TENANTS}", mail(n))

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return count / (time.perf_counter() - began)


async def drain_rate(outbound: Outbound, counter: Counter, count: int) -> float:
    """Messages a second from the first claim until everything is settled."""
    counter.expect(count)
    began = time.perf_counter()
    running = asyncio.create_task(outbound.drain.run(grace=10))
    await counter.wait()
    outbound.drain.stop()
    await running
    took = time.perf_counter() - began
    status = await outbound.status()
    assert status.pending == status.processing == status.failed == 0, status
    return count / took


async def bare_rate(origin: str, count: int) -> float:
    """What aiohttp alone does with as many requests of the same size at once."""
    from aiohttp import ClientSession, DummyCookieJar, TCPConnector

    headers = {
        "content-type": "application/json",
        "webhook-id": "0" * 36,
        "webhook-timestamp": "1700000000",
        "webhook-signature": "v1," + "0" * 44,
    }
    body, numbers = json.dumps({"text": TEXT}).encode(), iter(range(count))
    async with ClientSession(connector=TCPConnector(limit=0), cookie_jar=DummyCookieJar()) as session:

        async def caller() -> None:
            for _ in numbers:
                async with session.post(f"{origin}/hook", data=body, headers=headers) as response:
                    await response.read()

        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(REQUESTS_AT_ONCE)))
        return count / (time.perf_counter() - began)


@contextmanager
def sinking() -> Iterator[str]:
    """A sink in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.sink"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("listening on ").strip()
    finally:
        process.kill()
        process.wait()


def python_of(peer: str) -> str | None:
    """The interpreter that has a peer: this one, or the one that `PILLARBOX_BENCH_PYTHON_OBAN` and the like name."""
    return sys.executable if find_spec(peer) else os.environ.get(f"PILLARBOX_BENCH_PYTHON_{peer.upper()}")


def peer_rates(measured: Measured, count: int) -> dict[str, Rates]:
    found = {}
    for peer in PEERS[measured.name]:
        python = python_of(peer)
        if python is None:
            print(f"{peer} is not installed for this Python and is left out", file=sys.stderr, flush=True)
            continue
        command = [python, "-m", "bench.peers_outbound", peer, measured.fresh(), str(count)]
        found[peer] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


async def our_rates(measured: Measured, count: int, origin: str) -> Rates:
    async with outbound_on(measured.fresh(), trusted=origin) as (outbound, counter):
        single = await enqueue_rate(outbound, count // 10, 1)
        together = await enqueue_rate(outbound, count // 2, CALLERS)
        bulk = await enqueue_rate(outbound, count, 5000)
        drain = await drain_rate(outbound, counter, count // 10 + count // 2 + count)
    async with outbound_on(measured.fresh(), trusted=origin) as (outbound, counter):
        hook = ToWebhook(url=f"{origin}/hook", body={"text": TEXT})
        await asyncio.gather(*(outbound.send(f"t{n % TENANTS}", hook) for n in range(count)))
        webhooks = await drain_rate(outbound, counter, count)
    return {"single": single, "together": together, "bulk": bulk, "drain": drain, "webhooks": webhooks}


AIMS = {
    ("drain", "pgqueuer"): ">= 1.5",
    ("bulk", "pgqueuer"): ">= 1",
    ("together", "huey"): ">= 5",
    ("drain", "huey"): ">= 5",
}
WHAT = {
    "single": "enqueue, 1 caller",
    "together": f"enqueue, {CALLERS} callers",
    "bulk": "enqueue, bulk",
    "drain": "drain to nothing",
}


async def run(measured: Measured, report: Report, *, scale: float) -> None:
    name, count = measured.name, max(5000, int(20_000 * scale))
    peers = await asyncio.to_thread(peer_rates, measured, count)
    with sinking() as origin:
        ours = await our_rates(measured, count, origin)
        bare = await bare_rate(origin, count)
    for kind, what in WHAT.items():
        for peer, theirs in peers.items():
            report.add(Figure(name, what, ours[kind], "/s", theirs[kind], AIMS.get((kind, peer), ""), peer))
        if not peers:
            report.add(Figure(name, what, ours[kind], "/s"))
    if "pgqueuer" in peers:
        whose = "pgqueuer, 1 caller"
        report.add(Figure(name, WHAT["together"], ours["together"], "/s", peers["pgqueuer"]["single"], ">= 10", whose))
    report.add(Figure(name, "drain to a webhook", ours["webhooks"], "/s", bare, ">= 0.6", "aiohttp alone"))
