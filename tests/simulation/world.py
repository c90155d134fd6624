"""A story made from a seed: nodes, producers, trouble for a while, and then calm in which everything must come to its end."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from pillarbox.engine import Backoff, Drain, Pace
from tests.simulation.figures import figures
from tests.simulation.ledger import Ledger
from tests.simulation.loop import LoopClock, NothingLeft, Spinning, VirtualLoop, owned, run_virtually
from tests.simulation.node import Node, World
from tests.simulation.process import Rates
from tests.simulation.story import Ending, apart_from, without_logs
from tests.simulation.table import Parcel, State, Table
from tests.simulation.weather import AN_HOUR, CALM, TROUBLE

BACKOFF = Backoff((1, 2, 4, 8))


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before the story begins."""

    seed: int
    nodes: int = 1
    keys: int = 3
    rows: int = 8
    most: int = 1
    destinations: int = 1
    concurrency: int = 8
    lease: float = 12.0
    timeout: float = 6.0
    poll: float = AN_HOUR
    latency: float = 0.02
    longest_delivery: float = 0.5
    spread: int = 4
    rates: Rates = CALM
    blows: int = 0
    closes: int = 0
    ends: int = 0
    rings_lost: float = 0.0
    apart: bool = False
    """Whether settling goes on while claiming does, however little there is of both."""
    kill_at_step: int | None = None

    @property
    def quiet(self) -> bool:
        """Nothing fails and nobody is in another's way, so that every due time must be kept."""
        troubled = self.blows or self.ends or self.kill_at_step or self.rings_lost
        failing = self.rates.store or self.rates.odd or self.rates.wedge
        return not troubled and not failing and self.concurrency * 3 // 4 >= self.keys

    @property
    def bound(self) -> float:
        """How long after the trouble everything must be over."""
        each = self.longest_delivery + 6 * self.latency
        return 2 * self.lease + self.timeout + 2 * BACKOFF.longest + self.rows * each + 2 * min(self.poll, 1) + 10


def plan_from(seed: int) -> Plan:
    """A plan by the seed: from undisturbed to everything at once."""
    random = Random(seed)
    lease = random.choice([6.0, 12.0, 30.0])
    timeout = random.choice([lease / 4, lease * 2 / 3])
    rings_lost = random.choice([0.0, 0.0, 0.0, 0.3])
    trouble = random.choice(["none", "targets", "store", "blows", "wedges", "ends", "closes", "all"])

    def when(kind: str, value: float) -> float:
        return value if trouble in (kind, "all") else 0.0

    return Plan(
        seed=seed,
        nodes=random.randint(1, 3),
        keys=random.randint(1, 5),
        rows=random.randint(3, 14),
        most=random.choice([1, 1, 1, 4]),
        destinations=random.randint(1, 3),
        concurrency=random.choice([1, 2, 4, 8]),
        lease=lease,
        timeout=timeout,
        poll=1.0 if rings_lost else AN_HOUR,
        latency=random.choice([0.0, 0.002, 0.05, 0.4]),
        longest_delivery=random.choice([0.05, 0.5, timeout * 0.9]),
        spread=random.choice([1, 3, 100]),
        rates=Rates(
            store=when("store", random.choice([0.05, 0.3, 0.8])),
            odd=when("store", random.choice([0.0, 0.05])),
            target=when("targets", random.choice([0.1, 0.5])),
            wedge=when("wedges", 0.1),
        ),
        blows=int(when("blows", random.randint(1, 4))),
        closes=int(when("closes", random.randint(1, 4))),
        ends=int(when("ends", random.randint(1, 8))),
        rings_lost=rings_lost,
        apart=random.random() < 0.4,
    )


class Story:
    """Runs one plan."""

    def __init__(self, plan: Plan, *, drain: type[Drain[Parcel]], table: type[Table]) -> None:
        self.plan = plan
        self.random = Random(plan.seed)
        self.loop = VirtualLoop(Random(plan.seed + 1), spread=plan.spread)
        clock = LoopClock(self.loop)
        late = 0.1 + 12 * plan.latency if plan.quiet else None
        pace = Pace(plan.concurrency, plan.timeout, plan.poll)
        self.ledger = Ledger(
            clock=clock,
            backoff=BACKOFF,
            pace=pace,
            latency=plan.latency,
            late=late,
            rings_lost=plan.rings_lost > 0,
        )
        self.table = table(self.ledger, most=plan.most, deaths=3, later=timedelta(seconds=BACKOFF.longest))
        self.ledger.table = self.table
        self.clock = clock
        self.nodes: list[Node] = []
        self.restarting: asyncio.Task[None] | None = None
        self.generations = 0
        self.rings = 0
        self.calls = 0
        self.world = World(
            loop=self.loop,
            random=self.random,
            table=self.table,
            ledger=self.ledger,
            rates=plan.rates,
            latency=plan.latency,
            lease=plan.lease,
            pace=pace,
            backoff=BACKOFF,
            longest_delivery=plan.longest_delivery,
            drain=drain,
            apart=plan.apart,
            ring_all=self.ring_all,
        )

    async def tell(self) -> None:
        plan = self.plan
        for number in range(plan.keys):
            self.table.strands[f"k{number}"] = State(destination=f"d{number % plan.destinations}")
        self.nodes = [self.start_node() for _ in range(plan.nodes)]
        if plan.kill_at_step is not None:
            self.loop.before_step = self.kill_at_step
        async with asyncio.TaskGroup() as group:
            for _ in range(plan.rows):
                group.create_task(self.produce())
            for _ in range(plan.closes):
                group.create_task(self.close())
            for _ in range(plan.blows):
                group.create_task(self.strike())
            for _ in range(plan.ends):
                group.create_task(self.end_one())
        await asyncio.sleep(max(0.0, TROUBLE - self.loop.time()))
        self.world.rates = CALM
        await self.calm()

    async def calm(self) -> None:
        until = self.loop.time() + self.plan.bound
        self.ledger.say("calm")
        while self.open_keys() and self.loop.time() < until:  # noqa: ASYNC110 - the time is virtual
            await asyncio.sleep(0.5)
        for node in self.nodes:
            assert node.running is not None
            if node.running.done() and not node.running.cancelled():
                self.ledger.problem(f"{node.name} ended by itself: {node.running.exception()!r}")
        self.check_pace()

    def open_keys(self) -> list[str]:
        return [key for key, state in self.table.strands.items() if state.open_rows]

    def check_pace(self) -> None:
        """Looking is paid for by something that happened, or by the time that passed."""
        calls = self.calls + sum(node.lane.calls for node in self.nodes)
        causes = len(self.ledger.trace) + self.rings * self.plan.nodes
        allowed = 2 * causes + 2.2 * self.loop.time() * self.plan.nodes + 50
        if calls > allowed:
            self.ledger.problem(f"the store was asked {calls} times, which {causes} causes do not explain")

    def start_node(self) -> Node:
        self.generations += 1
        node = Node(self.world, f"n{self.generations}")
        node.start(grace=self.random.choice([0.0, 0.3, 5.0]))
        return node

    async def restart(self, node: Node) -> None:
        await asyncio.sleep(self.random.choice([0, 1]) * self.random.uniform(0, 3))
        self.calls += node.lane.calls
        self.nodes[self.nodes.index(node)] = self.start_node()

    def ring_all(self) -> None:
        """After a commit; each node hears it a little later, or never."""
        for node in self.nodes:
            if self.random.random() >= self.plan.rings_lost:
                self.rings += 1
                self.loop.call_later(self.random.uniform(0, self.plan.latency), node.heard, context=owned(""))

    async def produce(self) -> None:
        await asyncio.sleep(self.random.uniform(0, TROUBLE * 0.8))
        for _ in range(self.random.choice([1, 1, 3])):
            key = self.random.choice(list(self.table.strands))
            if self.table.enqueue(key, self.clock.now()):
                self.ledger.say(f"{key} gets a row")
                self.ring_all()

    async def close(self) -> None:
        await asyncio.sleep(self.random.uniform(5, TROUBLE))
        held = [key for key, state in self.table.strands.items() if state.lease_until]
        key, node = self.random.choice(held or list(self.table.strands)), self.random.choice(self.nodes)
        self.table.close(key)
        await asyncio.sleep(self.world.pause())
        node.drain.drop(key)
        self.ledger.close_told(node.name, key)
        self.ring_all()

    async def strike(self) -> None:
        await asyncio.sleep(self.random.uniform(0, TROUBLE * 0.6))
        node = self.random.choice(self.nodes)
        if node.name in self.ledger.ended_nodes:
            return
        if self.random.random() < 0.5:
            node.kill()
            await self.restart(node)
        else:
            node.suspend(self.random.uniform(0, 2 * self.plan.lease))

    async def end_one(self) -> None:
        await asyncio.sleep(self.random.uniform(0, TROUBLE * 0.8))
        node = self.random.choice(self.nodes)
        if node.name in self.ledger.ended_nodes:
            return
        await (node.stop() if self.random.random() < 0.5 else node.cancel())
        self.ring_all()
        if len(self.nodes) > 1 and self.random.random() < 0.3:
            self.calls += node.lane.calls
            self.nodes.remove(node)
        else:
            await self.restart(node)

    def kill_at_step(self, owner: str) -> None:
        node = self.nodes[0]
        if owner == node.name and self.loop.steps[owner] == self.plan.kill_at_step:
            self.loop.before_step = None
            node.kill()
            self.restarting = self.loop.create_task(self.restart(node), context=owned(""))


def play(plan: Plan, *, drain: type[Drain[Parcel]] = Drain, table: type[Table] = Table) -> Ending:
    """Run a plan to its end and say what went wrong."""
    with without_logs(), apart_from(1 if plan.apart else None):
        story = Story(plan, drain=drain, table=table)
        try:
            run_virtually(story.tell(), loop=story.loop)
        except (NothingLeft, Spinning) as error:
            story.ledger.problem(f"{type(error).__name__}: {error}")
        problems = story.ledger.finish()
    messages = sum(len(state.rows) for state in story.table.strands.values())
    counted = figures(story.ledger, messages=messages, deliveries=story.ledger.deliveries.values())
    return Ending(problems, story.ledger.trace, story.loop.steps["n1"], story.loop.time(), counted)
