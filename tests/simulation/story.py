"""A story of a whole pipe: real lanes on a real schema, trouble for a while, and then calm in which all must come to its end."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, Generic, Protocol

from pillarbox.engine import Bell, Chore, Drain, Janitor, drain
from pillarbox.engine.lease import RowT
from tests.simulation.figures import figures
from tests.simulation.loop import LoopClock, NothingLeft, Spinning, VirtualLoop, owned, run_virtually
from tests.simulation.process import Process, Surroundings
from tests.simulation.store import Link, NodeClock, Store
from tests.simulation.watching import Watch
from tests.simulation.weather import CALM, TROUBLE, Weather


class Pipe(Protocol[RowT]):
    """What every pipe has for a story."""

    bell: Bell

    @property
    def drain(self) -> Drain[RowT]: ...

    def chores(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Ending:
    """How a story went."""

    problems: list[str]
    trace: list[str]
    steps: int
    loop_time: float
    figures: Counter[str]


class PipeStory(ABC, Generic[RowT]):
    """Nodes that drain one pipe, a client that uses it, and everything that happens to them."""

    def __init__(self, seed: int, weather: Weather) -> None:
        self.weather = weather
        self.random = Random(seed)
        self.loop = VirtualLoop(Random(seed + 1), spread=weather.spread)
        self.clock = LoopClock(self.loop)
        self.watch = self.new_watch()
        self.watch.skew = weather.skew
        self.store = Store(self.committed)
        self.watch.store = self.store
        self.rates = weather.rates
        self.wall = timedelta(0)
        self.processes: list[Process[RowT]] = []
        self.janitors: list[asyncio.Task[None]] = []
        self.links: dict[str, Link] = {}
        self.telling_time = 0
        self.restarting: asyncio.Task[None] | None = None
        self.generations = 0
        self.client_link = self.new_link("client", skew=0.0)

    @abstractmethod
    def new_watch(self) -> Watch: ...

    @abstractmethod
    def new_pipe(self, name: str, link: Link) -> Pipe[RowT]: ...

    @abstractmethod
    async def prepare(self) -> None:
        """What must be there before anything happens."""

    @abstractmethod
    def doings(self) -> list[Coroutine[Any, Any, None]]:
        """What clients and operators do while there is trouble."""

    @abstractmethod
    def bound(self) -> float:
        """How long after the trouble everything must be over."""

    def committed(self, by: str, now: datetime) -> None:
        self.watch.committed(by, now)

    async def tell(self) -> None:
        weather = self.weather
        self.rates = CALM
        await self.prepare()
        self.rates = weather.rates
        self.processes = [self.start_process() for _ in range(weather.nodes)]
        if weather.kill_at_step is not None:
            self.loop.before_step = self.kill_at_step
        async with asyncio.TaskGroup() as group:
            for doing in self.doings():
                group.create_task(doing)
            for _ in range(weather.blows):
                group.create_task(self.strike())
            for _ in range(weather.ends):
                group.create_task(self.end_one())
            for _ in range(weather.steps):
                group.create_task(self.set_clock())
        await asyncio.sleep(max(0.0, TROUBLE - self.loop.time()))
        self.rates = CALM
        await self.calm()

    async def calm(self) -> None:
        until = self.loop.time() + self.bound()
        self.watch.say("calm")
        while self.watch.unended() and self.loop.time() < until:  # noqa: ASYNC110 - the time is virtual
            await asyncio.sleep(0.5)
        for process in self.processes:
            assert process.running is not None
            if process.running.done() and not process.running.cancelled():
                self.watch.problem(f"{process.name} ended by itself: {process.running.exception()!r}")

    def new_link(self, name: str, *, skew: float) -> Link:
        link = Link(
            name,
            self.store,
            loop=self.loop,
            random=self.random,
            clock=NodeClock(self.loop, skew=skew, wall=lambda: self.wall),
            ledger=self.watch,
            latency=self.weather.latency,
            rates=lambda: self.rates,
            ring_all=self.ring_all,
            many_writers=self.weather.apart,
        )
        self.links[name] = link
        return link

    def start_process(self) -> Process[RowT]:
        self.generations += 1
        name = f"n{self.generations}"
        link = self.new_link(name, skew=self.random.uniform(-self.weather.skew, self.weather.skew))
        pipe = owned(name).run(self.new_pipe, name, link)
        around = Surroundings(self.loop, self.random, self.watch, self.weather.lease, self.weather.latency)
        process = Process(
            around, name, drain=pipe.drain, bell=pipe.bell, still_holds=self.watch.held_by, stands=link.stands
        )
        process.start(grace=self.random.choice([0.0, 0.3, 5.0]))
        chores: list[Chore] = [chore for chore in pipe.chores() if chore.name.endswith("straighten")]
        janitor = Janitor(chores, random=self.random)
        self.janitors.append(self.loop.create_task(janitor.run(), context=owned(name)))
        return process

    def process_named(self, name: str) -> Process[RowT]:
        return next(process for process in self.processes if process.name == name)

    def ring_all(self) -> None:
        """After a commit; each node hears it a little later, or never."""
        for process in self.processes:
            if self.random.random() >= self.weather.rings_lost:
                self.loop.call_later(self.random.uniform(0, self.weather.latency), process.heard, context=owned(""))

    async def some_time(self, share: float = 0.8) -> None:
        await asyncio.sleep(self.random.uniform(0, TROUBLE * share))

    async def restart(self, process: Process[RowT]) -> None:
        await asyncio.sleep(self.random.choice([0, 1]) * self.random.uniform(0, 3))
        self.processes[self.processes.index(process)] = self.start_process()

    async def strike(self) -> None:
        await self.some_time(0.6)
        process = self.random.choice(self.processes)
        if process.name in self.watch.ended_nodes:
            return
        if self.random.random() < 0.5:
            process.kill()
            await self.restart(process)
        else:
            process.suspend(self.random.uniform(0, 2 * self.weather.lease))

    async def end_one(self) -> None:
        await self.some_time()
        process = self.random.choice(self.processes)
        if process.name in self.watch.ended_nodes:
            return
        await (process.stop() if self.random.random() < 0.5 else process.cancel())
        self.ring_all()
        if len(self.processes) > 1 and self.random.random() < 0.3:
            self.processes.remove(process)
        else:
            await self.restart(process)

    async def set_clock(self) -> None:
        """A wall clock is set by hours, or one node's clock runs ahead for a while."""
        await self.some_time(0.7)
        if self.random.random() < 0.5:
            while self.telling_time:  # noqa: ASYNC110 - the time is virtual
                await asyncio.sleep(0.05)
            self.wall = timedelta(seconds=self.random.uniform(-86_400, 86_400))
            self.watch.say(f"the wall clock is set by {self.wall}")
            return
        process = self.random.choice(self.processes)
        seconds, lasts = self.random.uniform(1, 60), self.random.uniform(0, 10)
        self.watch.fault(process.name, f"clock {seconds:.1f} s ahead", lasts=AHEAD_LASTS)
        clock = self.links[process.name].clock
        clock.set_ahead(seconds)
        await asyncio.sleep(lasts)
        clock.set_ahead(0.0)

    def kill_at_step(self, owner: str) -> None:
        process = self.processes[0]
        if owner == process.name and self.loop.steps[owner] == self.weather.kill_at_step:
            self.loop.before_step = None
            process.kill()
            self.restarting = self.loop.create_task(self.restart(process), context=owned(""))


# What was written by a clock that ran ahead is still there when it has been set back.
AHEAD_LASTS = 1000.0


def run_story(story: PipeStory[Any]) -> Ending:
    """Tell a story to its end and say what went wrong."""
    with apart_from(1 if story.weather.apart else None):
        return tell_virtually(story.tell, loop=story.loop, watch=story.watch, store=story.store)


def tell_virtually(
    tell: Callable[[], Coroutine[Any, Any, None]], *, loop: VirtualLoop, watch: Watch, store: Store
) -> Ending:
    with without_logs():
        try:
            run_virtually(tell(), loop=loop)
        except (NothingLeft, Spinning, TimeoutError) as error:
            watch.problem(f"{type(error).__name__}: {error}")
        problems = watch.finish()
        store.close()
    counted = figures(watch, messages=watch.messages, deliveries=watch.deliveries.values())
    return Ending(problems, watch.trace, loop.steps["n1"], loop.time(), counted)


@contextmanager
def apart_from(many: int | None) -> Iterator[None]:
    """Let drains settle and claim at the same time from so many on, or as they do by themselves."""
    usual = drain._MANY
    drain._MANY = usual if many is None else many
    try:
        yield
    finally:
        drain._MANY = usual


@contextmanager
def without_logs() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
