"""How fast each pipe claims and settles, by how much there is: waiting, delivered, scheduled, sessions, remembered keys."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from bench.growing.keys import INBOX
from bench.growing.live import Live, Pipe, Table
from bench.growing.mail import OUTBOUND
from bench.growing.strands import HOOKS, INBOUND
from bench.processor import spent_on
from bench.stores import Stores

QUEUES: tuple[Pipe, ...] = (INBOUND, HOOKS, OUTBOUND)
DATABASES = ("sqlite", "postgres")
BACKLOG = 20_000
# As many of a session's events as are claimed at once; with fewer an event bears more of what its session costs.
EACH = 32
ROUNDS = 15
ROUNDS_QUICK = 9
OF_ROUNDS = "best"
"""Which of them counts."""
TURNED = 1_000
"""Rows that are put in and worked off in one round at one size."""


@dataclass(frozen=True, slots=True)
class Axis:
    """What grows, through which sizes, in which pipes."""

    name: str
    sizes: tuple[int, ...]
    table: Callable[[int], Table]
    pipes: tuple[Pipe, ...] = QUEUES


@dataclass(frozen=True, slots=True)
class Speed:
    """Rows a second, and microseconds of processor time for each, ours and the server's together."""

    rate: float
    cost: float


AXES = (
    Axis("pending", (1_000, 10_000, 100_000, 1_000_000), lambda size: Table(pending=size)),
    Axis("keys", (10, 100, 1_000, 10_000), lambda size: Table(keys=size, pending=max(BACKLOG, EACH * size))),
    Axis("scheduled", (1_000, 100_000, 1_000_000), lambda size: Table(scheduled=size)),
    Axis("delivered", (1_000, 100_000, 1_000_000, 10_000_000), lambda size: Table(delivered=size)),
    Axis("remembered", (1_000, 10_000, 100_000, 1_000_000), lambda size: Table(remembered=size), (INBOX,)),
)
MOST_QUICK = 1_000_000


def measure_all(folder: Path, *, quick: bool, only: str | None = None) -> Iterator[dict[str, Any]]:
    """Every curve; `only` names a database, a pipe or what grows, or several with commas between."""
    stores = Stores(folder)
    try:
        for axis, kind, pipe in chosen(only):
            yield _measure(stores, kind, pipe, axis, quick=quick)
    finally:
        stores.close()


def chosen(only: str | None) -> list[tuple[Axis, str, Pipe]]:
    every = ((axis, kind, pipe) for axis in AXES for kind in DATABASES for pipe in axis.pipes)
    wanted = set(only.split(",")) if only else set()
    return [(axis, kind, pipe) for axis, kind, pipe in every if wanted <= {kind, pipe.name, axis.name}]


def _measure(stores: Stores, kind: str, pipe: Pipe, axis: Axis, *, quick: bool) -> dict[str, Any]:
    sizes = [size for size in axis.sizes if not quick or size <= MOST_QUICK]
    began = time.monotonic()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(curve(stores, kind, pipe, axis, sizes, rounds=ROUNDS_QUICK if quick else ROUNDS))
    print(
        f"{pipe.name} on {kind} by {axis.name}: "
        + ", ".join(f"{size:,}: {each.rate:,.0f}/s {each.cost:.0f} us" for size, each in zip(sizes, found, strict=True))
        + f" ({time.monotonic() - began:.0f} s)",
        file=sys.stderr,
        flush=True,
    )
    rates, costs = [each.rate for each in found], [each.cost for each in found]
    return {"pipe": pipe.name, "store": kind, "axis": axis.name, "sizes": sizes, "rates": rates, "microseconds": costs}


async def curve(
    stores: Stores, kind: str, pipe: Pipe, axis: Axis, sizes: list[int], *, rounds: int, turned: int = TURNED
) -> list[Speed]:
    """How fast it is at each size, in the best of its rounds: what else the machine does only adds to the others.

    The sizes take turns, so that this falls on all of them.
    """
    async with AsyncExitStack() as stack:
        lives: list[tuple[str, Live]] = []
        for size in sizes:
            table = axis.table(size)
            url = stack.enter_context(stores.fresh(kind))
            await pipe.make(url, table)
            lives.append((url, await stack.enter_async_context(pipe.opened(url, table.keys))))
        rates: list[list[float]] = [[] for _ in sizes]
        costs: list[list[float]] = [[] for _ in sizes]
        for number in range(rounds + 1):
            for place, (url, live) in enumerate(lives):
                await live.put_in(number * turned, turned)
                spent, began = spent_on(url), time.monotonic()
                done = await live.work_off(turned)
                # The first round finds every cache empty.
                if number:
                    rates[place].append(done / (time.monotonic() - began))
                    costs[place].append((spent_on(url) - spent) / done * 1e6)
        return [Speed(max(rate), min(cost)) for rate, cost in zip(rates, costs, strict=True)]
