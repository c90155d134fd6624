"""Stories of the hooks pipe: sessions whose agents send bursts of events, and listeners that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from pillarbox.engine import Backoff
from pillarbox.errors import AlreadyEnded, PermanentError, Unavailable
from pillarbox.hooks.model import HookEvent, HookRow
from pillarbox.hooks.pipe import Hooks
from pillarbox.hooks.policy import HooksPolicy
from pillarbox.sessions import Sessions
from pillarbox.storage import Step
from pillarbox.storage.queries import parse_queries
from pillarbox.telemetry import Metrics
from tests.simulation.hooks_watch import PROMPT, HooksWatch
from tests.simulation.store import Link
from tests.simulation.story import Ending, PipeStory, run_story
from tests.simulation.watching import Delivery, Watch
from tests.simulation.weather import Weather, weather_from

BACKOFF = Backoff((1, 2, 4, 8))
TYPES = (PROMPT, "agent_stop", "notification", "tool_use", "tool_use", "tool_done", "of tomorrow")
_METRICS = Metrics("pillarbox")
(_NOTE,) = parse_queries("-- name: note\nINSERT INTO effect (name) SELECT rows.name FROM :rows(name text)\n")

Tamper = Callable[[Hooks], None]


@dataclass(frozen=True, slots=True)
class HooksPlan:
    """Everything that is decided before the story begins."""

    seed: int
    weather: Weather
    sessions: int = 3
    bursts: int = 8
    limit: int = 3
    retries: int = 0
    stuck: bool = False


def hooks_plan_from(seed: int) -> HooksPlan:
    random = Random(seed)
    weather = weather_from(random, seed=seed)
    return HooksPlan(
        seed,
        weather,
        sessions=random.randint(1, 5),
        bursts=random.randint(3, 12),
        limit=random.choice([1, 2, 4, 32]),
        retries=random.choice([0, 0, 6]),
        # Whoever always fails holds one slot; with one slot in all, everybody waits for its timeouts.
        stuck=weather.concurrency > 1 and random.random() < 0.2,
    )


class HooksStory(PipeStory[HookRow]):
    """Runs one plan."""

    watch: HooksWatch

    def __init__(self, plan: HooksPlan, tamper: Tamper) -> None:
        self.plan = plan
        self.tamper = tamper
        super().__init__(plan.seed, plan.weather)
        self.posted = 0
        self.names = [f"s{number}" for number in range(plan.sessions)]
        self.client = self.new_hooks("client", self.client_link)

    def new_watch(self) -> Watch:
        undisturbed = self.weather.quiet and not self.plan.stuck
        return HooksWatch(clock=self.clock, stuck="s0" if self.plan.stuck else None, undisturbed=undisturbed)

    def new_hooks(self, name: str, link: Link) -> Hooks:
        weather = self.weather
        policy = HooksPolicy(
            backoff=BACKOFF,
            lease=timedelta(seconds=weather.lease),
            timeout=weather.timeout,
            poll=weather.poll,
            concurrency=weather.concurrency,
            strand_limit=self.plan.limit,
        )
        return Hooks(
            link,
            policy=policy,
            holder=name,
            metrics=_METRICS,
            random=self.random,
            sessions=Sessions(link),
            confirm=_note,
        )

    def new_pipe(self, name: str, link: Link) -> Hooks:
        hooks = self.new_hooks(name, link)

        @hooks.on()
        async def listen(event: HookEvent) -> None:
            delivery = self.watch.began(name, event)
            try:
                await self.hear(name, event, delivery)
                delivery.answered = True
            finally:
                delivery.ended = self.loop.time()

        self.tamper(hooks)
        return hooks

    async def hear(self, name: str, event: HookEvent, delivery: Delivery) -> None:
        random = self.random
        if event.session_id == self.watch.stuck:
            await asyncio.sleep(self.random.choice([0.0, 10 * self.weather.timeout]))
            raise ConnectionError("always")
        if random.random() < self.rates.wedge:
            self.process_named(name).wedge(random.uniform(0, 2 * (self.weather.timeout + self.weather.lease)))
        await asyncio.sleep(random.uniform(0, self.weather.longest_delivery))
        if random.random() >= self.rates.target:
            delivery.done = True
            return
        await self.fail(name, event, delivery)

    async def fail(self, name: str, event: HookEvent, delivery: Delivery) -> None:
        match self.random.choice(["refuse", "permanent", "hang", "cancel", "group", "done"]):
            case "refuse":
                raise ConnectionError("refused")
            case "permanent":
                delivery.refused = True
                raise PermanentError("never")
            case "hang":
                await asyncio.sleep(10 * self.weather.timeout)
            case "cancel":
                raise asyncio.CancelledError
            case "group":
                raise BaseExceptionGroup("odd", [asyncio.CancelledError()])
            case "done":
                self.watch.fault(name, f"{event.id} is done and that is not said")
                delivery.done = True
                raise ConnectionError("unsaid")
        raise ConnectionError("hung")

    async def prepare(self) -> None:
        sessions = Sessions(self.client_link)
        for name in self.names:
            await sessions.open(session_id=name, target={"kind": "none"})

    def doings(self) -> list[Coroutine[Any, Any, None]]:
        return [
            *(self.burst() for _ in range(self.plan.bursts)),
            *(self.operate() for _ in range(self.plan.retries)),
        ]

    def bound(self) -> float:
        weather = self.weather
        open_rows = [row for row in self.watch.rows.values() if row.status in ("pending", "failed", "processing")]
        each = weather.longest_delivery + 6 * weather.latency
        ahead = 60 + weather.lease if weather.steps else 0
        waits = 2 * weather.lease + weather.timeout + 2 * BACKOFF.longest + 2 * min(weather.poll, 1)
        return waits + ahead + len(open_rows) * (each + 4 * weather.latency) + 40

    async def burst(self) -> None:
        await self.some_time()
        session_id = self.random.choice(self.names)
        for _ in range(self.random.choice([1, 2, 5])):
            self.posted += 1
            event_type = self.random.choice(TYPES)
            try:
                stored = await self.client.post(session_id, event_type, {"prompt": f"p{self.posted}"})
            except (Unavailable, RuntimeError):
                continue
            self.watch.acknowledged.add(stored.id)

    async def operate(self) -> None:
        await self.some_time(1.0)
        chosen = [row.id for row in self.watch.rows.values() if row.status in ("failed", "dead")]
        if chosen:
            event_id = self.random.choice(chosen)
            self.watch.retried.add(event_id)
            try:
                await self.client.retry(event_id)
            except (Unavailable, RuntimeError, AlreadyEnded):
                return


def _note(prompts: Sequence[tuple[str, str]], now: datetime) -> Step[None]:
    """What a prompt does elsewhere, in the transaction that closes its event."""
    yield _NOTE(rows=[(prompt,) for _, prompt in prompts])


def _as_it_is(hooks: Hooks) -> None:
    """Nothing is planted."""


def play_hooks(plan: HooksPlan, *, tamper: Tamper = _as_it_is) -> Ending:
    """Run a plan to its end and say what went wrong."""
    return run_story(HooksStory(plan, tamper))
