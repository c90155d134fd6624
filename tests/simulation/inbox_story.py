"""Stories of the inbox: consumers that fight for keys, fail, stand still and are killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from pillarbox.errors import LeaseLost, Unavailable
from pillarbox.inbox.door import Inbox
from pillarbox.inbox.sql import SqlInbox
from tests.simulation.inbox_watch import InboxWatch
from tests.simulation.loop import LoopClock, VirtualLoop, owned
from tests.simulation.store import Link, NodeClock, Store
from tests.simulation.story import AHEAD_LASTS, Ending, tell_virtually
from tests.simulation.weather import CALM, TROUBLE, Weather, weather_from

_RETENTION = timedelta(days=7)

Tamper = Callable[[Inbox], None]


@dataclass(frozen=True, slots=True)
class InboxPlan:
    """Everything that is decided before the story begins."""

    seed: int
    weather: Weather
    keys: int = 4
    consumers: int = 3
    messages: int = 12
    longest_body: float = 2.0


def inbox_plan_from(seed: int) -> InboxPlan:
    random = Random(seed)
    weather = weather_from(random, seed=seed)
    return InboxPlan(
        seed,
        weather,
        keys=random.randint(1, 6),
        consumers=random.randint(2, 5),
        messages=random.randint(4, 20),
        longest_body=random.choice([0.1, 2.0, 2 * weather.lease]),
    )


class InboxStory:
    """Runs one plan: each message of a key comes to some consumer, and again until that one hears it is processed."""

    def __init__(self, plan: InboxPlan, tamper: Tamper) -> None:
        self.plan = plan
        self.weather = plan.weather
        self.tamper = tamper
        self.random = Random(plan.seed)
        self.loop = VirtualLoop(Random(plan.seed + 1), spread=plan.weather.spread)
        self.clock = LoopClock(self.loop)
        self.watch = InboxWatch(clock=self.clock)
        self.store = Store(self.watch.committed)
        self.watch.store = self.store
        self.rates = plan.weather.rates
        self.generations = 0
        self.links: dict[str, Link] = {}
        self.consumers: dict[str, Inbox] = {}

    def new_consumer(self) -> None:
        self.generations += 1
        name, weather = f"n{self.generations}", self.weather
        skew = self.random.uniform(-weather.skew, weather.skew)
        if skew:
            self.watch.fault(name, "clock a little off", lasts=AHEAD_LASTS)
        self.links[name] = Link(
            name,
            self.store,
            loop=self.loop,
            random=self.random,
            clock=NodeClock(self.loop, skew=skew, wall=lambda: timedelta(0)),
            ledger=self.watch,
            latency=weather.latency,
            rates=lambda: self.rates,
            ring_all=lambda: None,
            many_writers=weather.apart,
        )
        inbox = Inbox(SqlInbox(self.links[name], retention=_RETENTION), lease=weather.lease)
        self.tamper(inbox)
        self.consumers[name] = inbox

    async def tell(self) -> None:
        for _ in range(self.plan.consumers):
            self.new_consumer()
        self.loop.call_later(1.5 * TROUBLE, self.calm, context=owned(""))
        async with asyncio.timeout(1.5 * TROUBLE + self.bound()), asyncio.TaskGroup() as group:
            for number in range(self.plan.messages):
                group.create_task(self.send(f"k{number % self.plan.keys}"))
            for _ in range(self.weather.blows + self.weather.ends):
                group.create_task(self.strike())
            for _ in range(self.weather.steps):
                group.create_task(self.set_clock())

    def calm(self) -> None:
        self.rates = CALM
        self.watch.say("calm")

    def bound(self) -> float:
        """How long after the trouble every key must have been processed."""
        ahead = 60 if self.weather.steps else 0
        return 4 * self.weather.lease + ahead + self.plan.messages * (self.plan.longest_body + 2) + 60

    async def send(self, key: str) -> None:
        """Messages come more than once; what a killed consumer was given comes to another."""
        await asyncio.sleep(self.random.uniform(0, TROUBLE))
        self.watch.asked.add(key)
        name = await self.a_consumer()
        work = self.loop.create_task(self.bring(key, name), context=owned(name))
        while not work.done():
            await asyncio.wait([work], timeout=1)
            if self.watch.killed(name):
                name = await self.a_consumer()
                work = self.loop.create_task(self.bring(key, name), context=owned(name))

    async def a_consumer(self) -> str:
        return self.random.choice([name for name in self.consumers if not self.watch.killed(name)])

    async def bring(self, key: str, name: str) -> None:
        """As a consumer does with a message of a broker: again and again until the key is processed."""
        while not await self.handle(key, name):  # noqa: ASYNC110 - the time is virtual
            await asyncio.sleep(self.random.uniform(0, 2))

    async def handle(self, key: str, name: str) -> bool:
        ran = None
        try:
            async with self.consumers[name].once(key, owner=name) as first:
                if not first:
                    return first.status == "Processed"
                ran = self.watch.began(name, key)
                try:
                    await asyncio.sleep(self.random.uniform(0, self.plan.longest_body))
                    if self.random.random() < self.rates.target:
                        raise ConnectionError("refused")
                    ran.done = True
                finally:
                    ran.ended = self.loop.time()
        except (ConnectionError, LeaseLost, Unavailable, RuntimeError) as error:
            if ran is not None and ran.done:
                self.unmarked(name, key, error)
            return False
        self.watch.marked.add(key)
        return True

    def unmarked(self, name: str, key: str, error: Exception) -> None:
        """It is done, and the consumer was told that this is not remembered."""
        if not self.watch.disturbed(name) and not self.watch.clocks_differ:
            self.watch.problem(f"{name} did {key} undisturbed and was told {error!r}")
        self.watch.fault(name, f"{key} is done and not marked")

    async def strike(self) -> None:
        await asyncio.sleep(self.random.uniform(0, TROUBLE))
        name = await self.a_consumer()
        if self.random.random() < 0.5:
            self.watch.fault(name, "kill")
            self.loop.stop_owner(name)
            self.new_consumer()
            return
        seconds = self.random.uniform(0, 2 * self.weather.lease)
        # What it wakes up with is a little while on its way.
        self.watch.fault(name, f"suspended for {seconds:.1f} s", lasts=seconds + self.weather.lease / 3 + 1)
        self.loop.stop_owner(name)
        await asyncio.sleep(seconds)
        if not self.watch.killed(name):
            self.loop.resume_owner(name)

    async def set_clock(self) -> None:
        """One consumer's clock runs ahead for a while."""
        await asyncio.sleep(self.random.uniform(0, TROUBLE))
        name = await self.a_consumer()
        self.watch.fault(name, "clock ahead", lasts=AHEAD_LASTS)
        self.links[name].clock.set_ahead(self.random.uniform(1, 60))
        await asyncio.sleep(self.random.uniform(0, 10))
        self.links[name].clock.set_ahead(0.0)


def _as_it_is(inbox: Inbox) -> None:
    """Nothing is planted."""


def play_inbox(plan: InboxPlan, *, tamper: Tamper = _as_it_is) -> Ending:
    """Run a plan to its end and say what went wrong."""
    story = InboxStory(plan, tamper)
    return tell_virtually(story.tell, loop=story.loop, watch=story.watch, store=story.store)
