"""The inbound queue: durable enqueue, drain to a target that does nothing, latency when idle, and growth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median

from bench.raw import drain_rate, insert_rate, open_raw
from bench.report import Figure, Report
from bench.servers import Measured
from pillarbox import Pillarbox
from pillarbox.inbound import InboundMessage
from pillarbox.settings import load_settings

TARGET = {"kind": "python", "name": "nothing"}
CONCURRENCY = 128
GROWTH_SESSIONS = 100


@asynccontextmanager
async def box_with(url: str, sessions: int) -> AsyncIterator[tuple[Pillarbox, asyncio.Queue[InboundMessage]]]:
    """A box with so many sessions, whose target only notes that it was called."""
    settings = load_settings(environ={}, inbound={"concurrency": CONCURRENCY})
    arrived: asyncio.Queue[InboundMessage] = asyncio.Queue()
    async with Pillarbox.open(url, settings=settings) as box:

        @box.inbound.target("nothing")
        async def nothing(message: InboundMessage) -> None:
            arrived.put_nowait(message)

        for first in range(0, sessions, 500):
            names = range(first, min(first + 500, sessions))
            await asyncio.gather(*(box.sessions.open(session_id=f"s{n}", target=TARGET) for n in names))
        yield box, arrived


async def enqueue_rate(box: Pillarbox, count: int, callers: int, sessions: int) -> float:
    numbers = iter(range(count))

    async def caller() -> None:
        for n in numbers:
            await box.inbound.enqueue(
                session_id=f"s{n % sessions}",
                origin="bench",
                content="hello world",
                source_message_id=f"{callers}-{time.time()}-{n}",
            )

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return count / (time.perf_counter() - began)


async def drain(box: Pillarbox, arrived: asyncio.Queue[InboundMessage], count: int) -> float:
    """Messages a second from the first claim until everything is settled."""
    began = time.perf_counter()
    running = asyncio.create_task(box.run())
    for _ in range(count):
        await arrived.get()
    box.stop()
    await running
    return count / (time.perf_counter() - began)


async def latencies(box: Pillarbox, arrived: asyncio.Queue[InboundMessage], count: int) -> list[float]:
    """Milliseconds from the call of enqueue to the start of the target, one message at a time."""
    running = asyncio.create_task(box.run())
    waits = []
    for n in range(count):
        await asyncio.sleep(0.005)
        began = time.perf_counter()
        await box.inbound.enqueue(session_id=f"s{n % 100}", origin="bench", content="hello")
        await arrived.get()
        waits.append((time.perf_counter() - began) * 1000)
    box.stop()
    await running
    return sorted(waits)


async def run(measured: Measured, report: Report, *, scale: float) -> None:
    name = measured.name
    raw = open_raw(measured.fresh())
    count = int(20_000 * scale)
    singly = {
        1: insert_rate(raw, count // 10, 1),
        10: insert_rate(raw, count // 2, 10),
        100: insert_rate(raw, count, 100),
    }
    raw_drain = {1: drain_rate(raw, count // 10, 1), 100: drain_rate(raw, count, 100)}
    async with box_with(measured.fresh(), 100) as (box, arrived):
        waits = await latencies(box, arrived, max(100, int(400 * scale)))
    aim = "< 2 ms" if name == "sqlite" else "< 5 ms"
    report.add(Figure(name, "idle latency, p50", median(waits), "ms", aim=aim))
    report.add(Figure(name, "idle latency, p99", waits[int(len(waits) * 0.99)], "ms"))
    async with box_with(measured.fresh(), 1000) as (box, _):
        for callers, raw_rate in singly.items():
            ours = await enqueue_rate(box, count if callers > 1 else count // 10, callers, 1000)
            aim = ">= 0.33" if callers == 100 else ""
            report.add(Figure(name, f"enqueue, {callers} callers", ours, "/s", raw_rate, aim))
    for sessions in (1, 100, int(10_000 * scale)):
        messages = count if sessions > 1 else count // 10
        async with box_with(measured.fresh(), sessions) as (box, arrived):
            await enqueue_rate(box, messages, 100, sessions)
            ours = await drain(box, arrived, messages)
        aim, raw_rate = (">= 0.20", raw_drain[100]) if sessions > 1 else ("", raw_drain[1])
        report.add(Figure(name, f"drain, {sessions:,} sessions", ours, "/s", raw_rate, aim))
    await growth(measured, report, scale=scale)


async def growth(measured: Measured, report: Report, *, scale: float) -> None:
    """What one turn of a hundred claims and settlements costs, by how much waits behind the heads."""
    async with box_with(measured.fresh(), GROWTH_SESSIONS) as (box, arrived):
        waiting, costs = 0, []
        for backlog in (1_000, int(100_000 * scale), int(1_000_000 * scale)):
            await enqueue_rate_bulk(box, waiting, backlog)
            waiting = backlog
            turns = []
            for _ in range(8):
                began = time.perf_counter()
                await box.inbound.drain.step()
                turns.append((time.perf_counter() - began) * 1000)
            waiting -= arrived.qsize()
            while not arrived.empty():
                arrived.get_nowait()
            costs.append(median(turns))
            report.add(Figure(measured.name, f"a turn with {backlog:,} pending", costs[-1], "ms"))
        report.add(Figure(measured.name, "growth, largest to smallest", costs[-1] / costs[0], "times", aim="<= 1.2"))


async def enqueue_rate_bulk(box: Pillarbox, waiting: int, backlog: int) -> None:
    numbers = iter(range(waiting, backlog))

    async def caller() -> None:
        for n in numbers:
            await box.inbound.enqueue(session_id=f"s{n % GROWTH_SESSIONS}", origin="bench", content="hello world")

    await asyncio.gather(*(caller() for _ in range(512)))
