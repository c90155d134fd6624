"""The hooks pipe: what a receiver costs its agent, events stored and processed, and the memory of one long burst."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

from bench.raw import drain_rate, insert_rate, open_raw
from bench.report import Figure, Report
from bench.servers import Measured
from pillarbox import Pillarbox
from pillarbox.settings import load_settings

SESSIONS = 100
CALLERS = 100
BURSTY = "tool_use"
CRITICAL = "agent_stop"
EVENT = {"hook_event_name": "PreToolUse", "session_id": "bench", "tool_name": "Bash", "cwd": "/tmp"}  # noqa: S108
SHORT_BURST = 1_000


@asynccontextmanager
async def box_with(url: str, sessions: int) -> AsyncIterator[Pillarbox]:
    """A box with so many sessions."""
    async with Pillarbox.open(url, settings=load_settings(environ={})) as box:
        opened = (box.sessions.open(session_id=f"s{n}", target={"kind": "none"}) for n in range(sessions))
        await asyncio.gather(*opened)
        yield box


async def store(box: Pillarbox, event_type: str, count: int, *, sessions: int, callers: int = CALLERS) -> float:
    """Events stored a second."""
    numbers = iter(range(count))

    async def caller() -> None:
        for n in numbers:
            await box.hooks.post(f"s{n % sessions}", event_type, {"tool_name": "Bash", "number": n})

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return count / (time.perf_counter() - began)


async def process(box: Pillarbox, count: int) -> tuple[float, int]:
    """Events closed a second from the first claim until the last is, and how many of them were delivered."""
    delivered = 0

    @box.hooks.on()
    async def note(event: object) -> None:
        nonlocal delivered
        delivered += 1

    began = time.perf_counter()
    running = asyncio.create_task(box.run())
    await until_all_closed(box, 0.01)
    took = time.perf_counter() - began
    box.stop()
    await running
    return count / took, delivered


async def until_all_closed(box: Pillarbox, look_every: float) -> None:
    while (await box.hooks.status()).oldest_age_seconds is not None:  # noqa: ASYNC110 - another process may close them
        await asyncio.sleep(look_every)


def run_time(program: Sequence[str], given: bytes) -> float:
    """Milliseconds from the start of a process to its end."""
    began = time.perf_counter()
    done = subprocess.run(program, input=given, capture_output=True, check=True)
    took = (time.perf_counter() - began) * 1000
    assert not done.stdout + done.stderr
    return took


async def receiver(measured: Measured, report: Report, *, scale: float) -> None:
    """A whole receiver beside the interpreter with nothing but the driver, in turns, so that both see the same noise."""
    url = measured.fresh()
    ours = [str(Path(sys.executable).with_name("pillarbox")), "hook", "--agent", "claude", "--database", url]
    bare = [sys.executable, "-c", "import apsw, json"]
    given = json.dumps(EVENT).encode()
    programs = {"ours": ours, "bare": bare}
    times: dict[str, list[float]] = {name: [] for name in programs}
    runs = max(40, int(200 * scale))
    async with box_with(url, 1) as box:
        for _ in range(runs):
            for name, program in programs.items():
                times[name].append(await asyncio.to_thread(run_time, program, given))
        assert (await box.hooks.status()).pending == runs
    figures = {name: median(each) for name, each in times.items()}
    report.add(
        Figure(measured.name, "a receiver", figures["ours"], "ms", figures["bare"], "<= 1.8", "bare interpreter")
    )


async def run(measured: Measured, report: Report, *, scale: float) -> None:
    name, count = measured.name, int(20_000 * scale)
    if name == "sqlite":
        await receiver(measured, report, scale=scale)
    raw = open_raw(measured.fresh())
    raw_insert, raw_drain = insert_rate(raw, count, 100), drain_rate(raw, count, 100)
    for kind, event_type in (("bursty", BURSTY), ("critical", CRITICAL)):
        async with box_with(measured.fresh(), SESSIONS) as box:
            stored = await store(box, event_type, count, sessions=SESSIONS)
            closed, delivered = await process(box, count)
        assert delivered == count if event_type == CRITICAL else SESSIONS <= delivered < count
        report.add(Figure(name, f"store {kind} events, {CALLERS} callers", stored, "/s", raw_insert))
        what = f"process {kind} events, {delivered:,} of {count:,} delivered"
        report.add(Figure(name, what, closed, "/s", raw_drain))
    for kind, event_type in (("bursty", BURSTY), ("critical", CRITICAL)):
        short = await peak_memory(measured.fresh(), event_type, SHORT_BURST)
        long = int(100_000 * scale)
        peak = await peak_memory(measured.fresh(), event_type, long)
        what = f"peak memory of a worker, {long:,} {kind} events of one session"
        report.add(Figure(name, what, peak, "MiB", short, "<= 1.25", f"{SHORT_BURST:,} events"))


async def peak_memory(url: str, event_type: str, count: int) -> float:
    """The most that a worker's process ever held in memory until it had closed so many events of one session."""
    async with box_with(url, 1) as box:
        await store(box, event_type, count, sessions=1, callers=512)
        program = [sys.executable, "-m", "pillarbox", "worker", "--database", url]
        worker = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.DEVNULL)
        ended = asyncio.create_task(worker.wait())
        closed = asyncio.create_task(until_all_closed(box, 0.1))
        try:
            await asyncio.wait([ended, closed], return_when=asyncio.FIRST_COMPLETED)
            assert not ended.done(), "the worker ended before its work"
            return most_held(worker.pid)
        finally:
            closed.cancel()
            if not ended.done():
                worker.terminate()
            await ended


def most_held(pid: int) -> float:
    """The largest resident set that Linux has seen of a process, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
