"""Stories of the inbound pipe: producers that repeat themselves, sessions that start, move and close, targets that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, TypeVar

from pillarbox.engine import Backoff, Failed, Outcome, Retry, Skipped
from pillarbox.errors import AlreadyEnded, SessionClosed, Unavailable
from pillarbox.inbound.model import InboundMessage, Parcel
from pillarbox.inbound.pipe import Inbound
from pillarbox.inbound.policy import InboundPolicy
from pillarbox.sessions import Sessions
from pillarbox.sessions.model import SessionChange
from pillarbox.telemetry import Metrics
from tests.simulation.inbound_watch import InboundWatch
from tests.simulation.loop import owned
from tests.simulation.store import Link
from tests.simulation.story import Ending, PipeStory, run_story
from tests.simulation.watching import Delivery, Watch
from tests.simulation.weather import CALM, Weather, weather_from

BACKOFF = Backoff((1, 2, 4, 8))
_METRICS = Metrics("pillarbox")

T = TypeVar("T")
Tamper = Callable[[Inbound], None]


@dataclass(frozen=True, slots=True)
class InboundPlan:
    """Everything that is decided before the story begins."""

    seed: int
    weather: Weather
    sessions: int = 3
    messages: int = 10
    destinations: int = 1
    starting: int = 0
    gate: float = 3.0
    restarts: int = 0
    moves: int = 0
    closes: int = 0
    expiries: int = 0
    retries: int = 0
    stuck: bool = False


def inbound_plan_from(seed: int) -> InboundPlan:
    random = Random(seed)
    weather = weather_from(random, seed=seed)
    sessions = random.randint(1, 5)
    return InboundPlan(
        seed,
        weather,
        sessions=sessions,
        messages=random.randint(4, 20),
        destinations=random.randint(1, 3),
        starting=random.choice([0, 0, 1, sessions]),
        gate=random.choice([3.0, 8.0]),
        restarts=random.choice([0, 0, 2]),
        moves=random.choice([0, 0, 2]),
        closes=random.choice([0, 0, 1, 3]),
        expiries=random.choice([0, 0, 3]),
        retries=random.choice([0, 0, 4]),
        # Whoever always fails holds one slot; with one slot in all, everybody waits for its timeouts.
        stuck=weather.concurrency > 1 and random.random() < 0.2,
    )


class InboundStory(PipeStory[Parcel]):
    """Runs one plan."""

    watch: InboundWatch

    def __init__(self, plan: InboundPlan, tamper: Tamper) -> None:
        self.plan = plan
        self.tamper = tamper
        super().__init__(plan.seed, plan.weather)
        self.sent = 0
        self.names = [f"s{number}" for number in range(plan.sessions)]
        self.registries: dict[str, Sessions] = {}
        self.client = self.new_inbound("client", self.client_link)

    def new_watch(self) -> Watch:
        return InboundWatch(
            clock=self.clock,
            gate=self.plan.gate,
            latency=self.weather.latency,
            rings_lost=self.weather.rings_lost > 0,
            stuck="s0" if self.plan.stuck else None,
            undisturbed=self.weather.quiet and not self.plan.stuck,
        )

    def new_inbound(self, name: str, link: Link) -> Inbound:
        weather = self.weather
        policy = InboundPolicy(
            backoff=BACKOFF,
            lease=timedelta(seconds=weather.lease),
            timeout=weather.timeout,
            poll=weather.poll,
            concurrency=weather.concurrency,
            startup_gate=timedelta(seconds=self.plan.gate),
        )
        sessions = self.registries[name] = Sessions(link)
        return Inbound(
            link, policy=policy, node=name, holder=name, metrics=_METRICS, random=self.random, sessions=sessions
        )

    def new_pipe(self, name: str, link: Link) -> Inbound:
        inbound = self.new_inbound(name, link)

        async def receive(message: InboundMessage) -> Outcome | None:
            delivery = self.watch.began(name, message)
            try:
                outcome = await self.take(name, message, delivery)
                delivery.answered = True
            finally:
                self.watch.ended(message, delivery)
            return outcome

        for number in range(self.plan.destinations):
            inbound.target(f"d{number}")(receive)
        self.tamper(inbound)
        return inbound

    async def take(self, name: str, message: InboundMessage, delivery: Delivery) -> Outcome | None:
        random = self.random
        if message.session_id == self.watch.stuck:
            await asyncio.sleep(random.choice([0.0, 10 * self.weather.timeout]))
            raise ConnectionError("always")
        if random.random() < self.rates.wedge:
            self.process_named(name).wedge(random.uniform(0, 2 * (self.weather.timeout + self.weather.lease)))
        await asyncio.sleep(random.uniform(0, self.weather.longest_delivery))
        if random.random() >= self.rates.target:
            delivery.done = True
            return None
        return await self.fail(name, message, delivery)

    async def fail(self, name: str, message: InboundMessage, delivery: Delivery) -> Outcome:
        kinds = ["refuse", "hang", "cancel", "group", "done", "busy", "away"]
        match self.random.choice(kinds * 4 + ["never"]):
            case "hang":
                await asyncio.sleep(10 * self.weather.timeout)
            case "cancel":
                raise asyncio.CancelledError
            case "group":
                raise BaseExceptionGroup("odd", [asyncio.CancelledError()])
            case "done":
                self.watch.fault(name, f"{message.id} is done and that is not said")
                delivery.done = True
            case "busy":
                delivery.counted = False
                return Skipped("busy")
            case "away":
                delivery.counted = False
                return Retry("never reached", counts=False)
            case "never":
                self.watch.closing.add(message.session_id)
                return Failed("never")
        raise ConnectionError("refused")

    async def prepare(self) -> None:
        for number, name in enumerate(self.names):
            starting = number < self.plan.starting
            await self.registries["client"].open(
                session_id=name,
                target=self.a_target(),
                lifecycle_status="initializing" if starting else "active",
            )

    def a_target(self) -> dict[str, Any]:
        return {"kind": "python", "name": f"d{self.random.randrange(self.plan.destinations)}"}

    def doings(self) -> list[Coroutine[Any, Any, None]]:
        plan = self.plan
        return [
            *(self.produce() for _ in range(plan.messages)),
            *(self.become_ready(name) for name in self.names[: plan.starting]),
            *(self.start_again() for _ in range(plan.restarts)),
            *(self.move() for _ in range(plan.moves)),
            *(self.close() for _ in range(plan.closes)),
            *(self.expire() for _ in range(plan.expiries)),
            *(self.retry() for _ in range(plan.retries)),
        ]

    def bound(self) -> float:
        weather = self.weather
        open_rows = [row for row in self.watch.rows.values() if row.status not in ("delivered", "expired")]
        each = weather.longest_delivery + 6 * weather.latency
        ahead = 60 + weather.lease if weather.steps else 0
        waits = 2 * weather.lease + weather.timeout + 2 * BACKOFF.longest + 2 * min(weather.poll, 1) + self.plan.gate
        return waits + ahead + len(open_rows) * (each + 4 * weather.latency) + 40

    async def produce(self) -> None:
        """One message, told again and again until it is answered, and at times once more after that."""
        await self.some_time()
        session_id = self.random.choice(self.names)
        self.sent += 1
        source = f"m{self.sent}"
        for _ in range(self.random.choice([1, 1, 2])):
            try:
                stored = await self.until_answered(
                    lambda: self.client.enqueue(
                        session_id=session_id, origin="story", content=source, source_message_id=source
                    )
                )
            except SessionClosed:
                if session_id not in self.watch.closing:
                    self.watch.problem(f"{session_id} refused {source} and nobody has closed it")
                return
            self.watch.answered(source, stored.id)

    async def become_ready(self, session_id: str) -> None:
        await self.some_time()
        await self.change(session_id, SessionChange(lifecycle_status="active"))

    async def start_again(self) -> None:
        """A session's agent is started anew, and ready after a while."""
        await self.some_time(0.5)
        session_id = self.random.choice(self.names)
        await self.change(session_id, SessionChange(lifecycle_status="initializing"))
        await asyncio.sleep(self.random.uniform(0, 3 * self.plan.gate))
        await self.change(session_id, SessionChange(lifecycle_status="active"))

    async def move(self) -> None:
        await self.some_time()
        await self.change(self.random.choice(self.names), SessionChange(target=self.a_target()))

    async def change(self, session_id: str, change: SessionChange) -> None:
        self.watch.hastened.add(session_id)
        try:
            await self.until_answered(lambda: self.registries["client"].change(session_id, change))
        except SessionClosed:
            if session_id not in self.watch.closing:
                self.watch.problem(f"{session_id} refused a change and nobody has closed it")

    async def close(self) -> None:
        """A client closes a session, or one of the nodes that deliver to it."""
        await self.some_time()
        held = [name for name, strand in self.watch.strands.items() if strand.lease_until]
        session_id, process = self.random.choice(held or self.names), self.random.choice(self.processes)
        self.watch.closing.add(session_id)
        if self.random.random() < 0.5:
            await self.until_answered(lambda: self.registries["client"].close(session_id))
        elif not await self.done_by(process.name, self.registries[process.name].close(session_id)):
            return
        else:
            self.watch.closed_by.add((process.name, session_id))
        self.watch.say(f"{session_id} is closed")
        self.watch.over_since[session_id] = self.loop.time()

    async def done_by(self, node: str, work: Coroutine[Any, Any, object]) -> bool:
        """Have a node do something; whether it lived to do it and was answered."""
        task = self.loop.create_task(work, context=owned(node))
        await asyncio.wait([task], timeout=30)
        return task.done() and not task.cancelled() and task.exception() is None

    async def expire(self) -> None:
        await self.some_time()
        if chosen := [row.id for row in self.watch.rows.values() if row.status in ("pending", "processing", "failed")]:
            message_id = self.random.choice(chosen)
            self.watch.expiring.add(message_id)
            try:
                await self.client.expire(message_id)
            except (Unavailable, RuntimeError, AlreadyEnded):
                return
            self.watch.over_since[message_id] = self.loop.time()

    async def retry(self) -> None:
        await self.some_time()
        if chosen := [row for row in self.watch.rows.values() if row.status in ("pending", "failed")]:
            row = self.random.choice(chosen)
            self.watch.hastened.add(row.session_id)
            try:
                await self.client.retry(row.id)
            except (Unavailable, RuntimeError, AlreadyEnded):
                return

    async def until_answered(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except (Unavailable, RuntimeError):
                if self.rates is CALM:
                    raise
                await asyncio.sleep(self.random.uniform(0, 1))


def _as_it_is(inbound: Inbound) -> None:
    """Nothing is planted."""


def play_inbound(plan: InboundPlan, *, tamper: Tamper = _as_it_is) -> Ending:
    """Run a plan to its end and say what went wrong."""
    return run_story(InboundStory(plan, tamper))
