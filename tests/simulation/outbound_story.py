"""Stories of the outbound pipe: tenants with and without caps, messages for later, opt-outs, and a provider that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from pillarbox.errors import InvalidInput, NotCancelable, NotRetryable, OptedOut, Unavailable
from pillarbox.outbound.attempt import Parcel
from pillarbox.outbound.model import Channel, NewMessage
from pillarbox.outbound.pipe import Outbound
from pillarbox.outbound.policy import ChannelPolicy, OutboundPolicy, ProviderPolicy
from pillarbox.outbound.provider import Account, Begin, Outgoing, Verdict
from pillarbox.outbound.providers import providers
from pillarbox.secrets.sealing import Sealer
from pillarbox.telemetry import Metrics
from tests.simulation.outbound_watch import OutboundWatch
from tests.simulation.store import Link
from tests.simulation.story import Ending, PipeStory, run_story
from tests.simulation.watching import Delivery
from tests.simulation.weather import TROUBLE, Weather, weather_from

_METRICS = Metrics("pillarbox")
_SEALER = Sealer(bytes(32))
_TROUBLES = (Unavailable, RuntimeError)
MOST_ATTEMPTS = 3
BACKOFF_BASE = 2.0
FLOOD = 40

Tamper = Callable[[Outbound], None]


@dataclass(frozen=True, slots=True)
class OutboundPlan:
    """Everything that is decided before the story begins; `rates` are the tenants' caps, 0 for none."""

    seed: int
    weather: Weather
    rates: tuple[int, ...] = (0, 0)
    messages: int = 12
    contacts: int = 4
    opt_outs: int = 0
    acts: int = 0
    flood: bool = False
    provider_slots: int = 64

    @property
    def tenants(self) -> list[str]:
        return [f"t{number}" for number in range(len(self.rates))]


def outbound_plan_from(seed: int) -> OutboundPlan:
    random = Random(seed)
    weather = weather_from(random, seed=seed)
    rates = tuple(random.choice([0, 0, 6, 20, 130]) for _ in range(random.randint(1, 4)))
    return OutboundPlan(
        seed,
        weather,
        rates=rates,
        messages=random.randint(4, 20),
        contacts=random.randint(1, 6),
        opt_outs=random.choice([0, 2, 4]),
        acts=random.choice([0, 0, 6]),
        flood=len(rates) > 1 and rates[0] in (0, 130) and random.random() < 0.2,
        provider_slots=random.choice([1, 2, 64]),
    )


class OutboundStory(PipeStory[Parcel]):
    """Runs one plan."""

    watch: OutboundWatch

    def __init__(self, plan: OutboundPlan, tamper: Tamper) -> None:
        self.plan = plan
        self.tamper = tamper
        super().__init__(plan.seed, plan.weather)
        self.sent = 0
        self.client = self.new_outbound("client", self.client_link)

    def new_watch(self) -> OutboundWatch:
        plan, weather = self.plan, self.weather
        each = weather.longest_delivery + 8 * weather.latency
        fair = plan.flood and weather.quiet and not any(plan.rates) and weather.concurrency > 1
        return OutboundWatch(
            clock=self.clock,
            per_minute={name: rate for name, rate in zip(plan.tenants, plan.rates, strict=True) if rate},
            latency=weather.latency,
            wanted_within=10 * each + 3 if fair and plan.provider_slots > weather.concurrency else None,
            flooding="t0" if plan.flood else "",
        )

    def new_outbound(self, name: str, link: Link) -> Outbound:
        weather = self.weather
        policy = OutboundPolicy(
            channel=ChannelPolicy(BACKOFF_BASE, max_attempts=MOST_ATTEMPTS, timeout=weather.timeout),
            lease=timedelta(seconds=weather.lease),
            poll=weather.poll,
            concurrency=weather.concurrency,
            providers={"email": {"provider": "post", "from": "us@example.com"}},
            of_provider={"post": ProviderPolicy(concurrency=self.plan.provider_slots)},
        )
        return Outbound(
            link,
            policy=policy,
            providers=providers(Post(self, name)),
            sealer=_SEALER,
            holder=name,
            metrics=_METRICS,
            random=self.random,
        )

    def new_pipe(self, name: str, link: Link) -> Outbound:
        outbound = self.new_outbound(name, link)
        self.tamper(outbound)
        return outbound

    async def prepare(self) -> None:
        for tenant, rate in zip(self.plan.tenants, self.plan.rates, strict=True):
            await self.client.tenants.set(tenant, settings={"rate_per_minute": rate})

    def doings(self) -> list[Coroutine[Any, Any, None]]:
        plan = self.plan
        return [
            *([self.flood()] if plan.flood else []),
            *(self.write() for _ in range(plan.messages)),
            *(self.opt_out() for _ in range(plan.opt_outs)),
            *(self.act() for _ in range(plan.acts)),
        ]

    def bound(self) -> float:
        weather, waiting = self.weather, self.watch.queue.values()
        ahead = 60 + weather.lease if weather.steps else 0
        each = weather.longest_delivery + 10 * weather.latency + 1
        spacing = [60 / rate for rate in self.plan.rates if rate]
        pace = max([each, *spacing])
        retries = BACKOFF_BASE * 1.2 * 2.0 * MOST_ATTEMPTS
        return 2 * weather.lease + weather.timeout + ahead + retries + TROUBLE + 3 * len(waiting) * pace + 40

    async def flood(self) -> None:
        await asyncio.sleep(2)
        for _ in range(FLOOD):
            await self.put("t0", {})

    async def write(self) -> None:
        await self.some_time()
        # An instant that people give means what the wall clock says then: nobody sets it in between.
        self.telling_time += 1
        try:
            await self.put(self.random.choice(self.plan.tenants), self.some_options())
        finally:
            self.telling_time -= 1

    def some_options(self) -> dict[str, Any]:
        random = self.random
        now = self.client_link.clock.shown(self.client_link.clock.now())
        options: dict[str, Any] = {"priority": random.choice([0, 100, 100])}
        if random.random() < 0.25:
            options["send_at"] = now + timedelta(seconds=random.uniform(1, TROUBLE))
        if random.random() < 0.2:
            starts = options.get("send_at", now)
            options["expires_at"] = starts + timedelta(seconds=random.uniform(0.5, 20))
        return options

    async def put(self, tenant: str, options: dict[str, Any]) -> None:
        self.sent += 1
        name = f"m{self.sent}"
        to, *cc = self.random.sample(self.addresses(), k=min(self.plan.contacts, self.random.choice([1, 1, 2])))
        new = NewMessage(channel="email", to=to, cc=tuple(cc), subject=name, text="hello", **options)
        for _ in range(3):
            due = new.send_at and self.client_link.clock.stored(new.send_at)
            try:
                queued = await self.client.put(tenant, new, idempotency_key=name)
            except _TROUBLES:
                continue
            except (OptedOut, InvalidInput):
                return
            known = self.watch.acknowledged.setdefault(queued.message_id, name)
            if known != name:
                self.watch.problem(f"{name} was answered with {known}")
            if due is not None and not self.weather.steps:
                self.watch.due[queued.message_id] = due
            elif due is None and "expires_at" not in options:
                self.watch.entered.setdefault(queued.message_id, self.loop.time())
            return

    def addresses(self) -> list[str]:
        return [f"c{number}@example.com" for number in range(self.plan.contacts)]

    async def opt_out(self) -> None:
        await self.some_time()
        tenant, address = self.random.choice(self.plan.tenants), self.random.choice(self.addresses())
        with suppress(*_TROUBLES):
            await self.client.opt_out(tenant, address, self.random.choice(["email", "all"]))
            self.watch.say(f"the opt-out of {address} at {tenant} is acknowledged")
            self.watch.opted_out.add((tenant, address))

    async def act(self) -> None:
        await self.some_time(1.0)
        if not self.watch.history:
            return
        message_id = self.random.choice(sorted(self.watch.history))
        with suppress(*_TROUBLES, NotCancelable, NotRetryable, OptedOut):
            if self.random.random() < 0.5:
                self.watch.cancels.add(message_id)
                await self.client.cancel(message_id)
                if not self.watch.retries[message_id]:
                    self.watch.canceled.add(message_id)
            else:
                self.watch.retries[message_id] += 1
                self.watch.canceled.discard(message_id)
                await self.client.retry(message_id)


class Post:
    """A provider whose answers are the story's choice."""

    name = "post"
    channels: frozenset[Channel] = frozenset({"email"})
    credentials: tuple[str, ...] = ()
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    base_url = ""

    def __init__(self, story: OutboundStory, node: str) -> None:
        self._story = story
        self._node = node

    async def send(self, message: Outgoing, account: Account, *, deadline: float, begin: Begin) -> Verdict:
        await begin()
        delivery = self._story.watch.began(self._node, message)
        try:
            async with asyncio.timeout(deadline):
                return await self._carry(message, delivery)
        finally:
            delivery.ended = self._story.loop.time()

    async def _carry(self, message: Outgoing, delivery: Delivery) -> Verdict:
        story, random = self._story, self._story.random
        if random.random() < story.rates.wedge:
            longest = 2 * (story.weather.timeout + story.weather.lease)
            story.process_named(self._node).wedge(random.uniform(0, longest))
        await asyncio.sleep(random.uniform(0, story.weather.longest_delivery))
        if random.random() >= story.rates.target:
            delivery.done = True
            return Verdict(judgement="accepted")
        match random.choice(["transient", "rejected", "unsubscribed", "unknown", "raise", "hang"]):
            case "transient":
                return Verdict(judgement="transient", error="later", retry_after=random.choice([None, 5.0]))
            case "rejected" | "unsubscribed" as kind:
                delivery.refused = True
                return Verdict(judgement="rejected", error="no", opt_out=kind == "unsubscribed")
            case "unknown":
                story.watch.fault(self._node, f"{message.subject} is sent and that is not said")
                delivery.done = True
                return Verdict(judgement="unknown", error="no answer")
            case "raise":
                raise ConnectionError("odd")
        await asyncio.sleep(10 * story.weather.timeout)
        return Verdict(judgement="unknown", error="hung")


def _as_it_is(outbound: Outbound) -> None:
    """Nothing is planted."""


def play_outbound(plan: OutboundPlan, *, tamper: Tamper = _as_it_is) -> Ending:
    """Run a plan to its end and say what went wrong."""
    return run_story(OutboundStory(plan, tamper))
