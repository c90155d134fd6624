"""What `pillarbox bench` measures, on a database of its own."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from pillarbox.box import Pillarbox
from pillarbox.inbound import InboundMessage
from pillarbox.outbound.messages import Email
from pillarbox.settings import Settings

if TYPE_CHECKING:
    from pillarbox.hooks.model import HookEvent

Figures = dict[str, dict[str, float]]
Advance = Callable[[int, int], None]
Put = Callable[[int], Awaitable[object]]

_CALLERS = 100
_SESSIONS = 200
_TEXT = "hello world " * 9
_GRACE = 10.0
_LEAST_WAITS = 20
_LOOK_SECONDS = 0.0005
_PAUSE_SECONDS = 0.005
_MOST = 100_000
"""What one measurement puts in at most; a long one need not fill a disk."""
_MEASUREMENTS = 14
"""Four of each of three pipes, two of the inbox."""


@dataclass(slots=True)
class _Pipe:
    """A way in, the drain behind it, and how many have come out of it."""

    put: Put
    drain: Any
    out: Callable[[], int]
    put_in: int = 0

    async def until_empty(self) -> None:
        """Wait for everything that was put in."""
        while self.out() < self.put_in:  # noqa: ASYNC110 - a counter only tells who asks
            await asyncio.sleep(_LOOK_SECONDS)


@dataclass(slots=True)
class _Bench:
    """One run: the time for each measurement, and who wants to know how far it is."""

    share: float
    advance: Advance
    figures: Figures = field(default_factory=dict)
    _done: int = 0

    def note(self, name: str, **found: float) -> None:
        self.figures.setdefault(name, {}).update(found)
        self._done += 1
        self.advance(self._done, _MEASUREMENTS)

    async def measure_pipe(self, name: str, pipe: _Pipe) -> None:
        for what, callers in (("enqueue_one_caller", 1), ("enqueue_100_callers", _CALLERS)):
            put, rate = await _rate(pipe.put, callers, self.share)
            pipe.put_in += put
            self.note(name, **{what: rate})
        began = time.perf_counter()
        running = asyncio.create_task(pipe.drain.run(grace=_GRACE))
        try:
            await pipe.until_empty()
            self.note(name, drain=pipe.put_in / (time.perf_counter() - began))
            waits = await _waits(pipe, self.share)
        finally:
            # Also when it is interrupted: a drain that outlived its database would raise the alarm.
            pipe.drain.stop()
            await running
        self.note(name, latency_p50_ms=median(waits), latency_p99_ms=waits[int(len(waits) * 0.99)])

    async def measure_inbox(self, box: Pillarbox) -> None:
        async def begin_and_mark(number: int) -> None:
            key = f"bench:{number}"
            await box.inbox.mark_processed(key, (await box.inbox.try_begin(key)).lease_id or "")

        for what, callers in (("enqueue_one_caller", 1), ("enqueue_100_callers", _CALLERS)):
            _, rate = await _rate(begin_and_mark, callers, self.share, first=callers * 10**9)
            self.note("inbox", **{what: rate})


async def measure(url: str, theirs: Settings, *, seconds: float, advance: Advance) -> Figures:
    """Every pipe in turn, each measurement for its share of the time; `advance` hears how many of how many are done."""
    bench = _Bench(seconds / _MEASUREMENTS, advance)
    advance(0, _MEASUREMENTS)
    async with Pillarbox.open(url, settings=_settings(theirs)) as box:
        await asyncio.gather(
            *(
                box.sessions.open(session_id=f"s{n}", target={"kind": "python", "name": "nothing"})
                for n in range(_SESSIONS)
            )
        )
        await box.tenants.set("bench", providers={"email": {"provider": "sandbox", "from": "bench@example.com"}})
        for name, pipe in {"inbound": _inbound(box), "hooks": _hooks(box), "outbound": _outbound(box)}.items():
            await bench.measure_pipe(name, pipe)
        await bench.measure_inbox(box)
    return bench.figures


def _settings(theirs: Settings) -> Settings:
    """How they reach their database, and of all else the defaults: nothing may leave the machine or come in."""
    key = base64.b64encode(os.urandom(32)).decode()
    return msgspec.structs.replace(
        Settings(), database=theirs.database, secrets=msgspec.structs.replace(theirs.secrets, key=key)
    )


def _inbound(box: Pillarbox) -> _Pipe:
    came = _Counter()

    @box.inbound.target("nothing")
    async def nothing(_: InboundMessage) -> None:
        came.add()

    def put(number: int) -> Awaitable[object]:
        return box.inbound.enqueue(session_id=f"s{number % _SESSIONS}", origin="bench", content=_TEXT)

    return _Pipe(put, box.inbound.drain, came.value)


def _hooks(box: Pillarbox) -> _Pipe:
    came = _Counter()

    @box.hooks.on()
    async def nothing(_: HookEvent) -> None:
        came.add()

    def put(number: int) -> Awaitable[object]:
        # Of a kind that is never coalesced.
        return box.hooks.post(f"s{number % _SESSIONS}", "agent_stop", {"text": _TEXT})

    return _Pipe(put, box.hooks.drain, came.value)


def _outbound(box: Pillarbox) -> _Pipe:
    """To the sandbox; what it took is read from the metric."""
    sent = box.metrics.outbound.sent.labels(channel="email")

    def put(number: int) -> Awaitable[object]:
        return box.outbound.send("bench", Email(to=f"user{number}@example.com", subject="Hello", text=_TEXT))

    def came() -> int:
        return int(next(iter(sent.collect())).samples[0].value)

    return _Pipe(put, box.outbound.drain, came)


class _Counter:
    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        self._count += 1

    def value(self) -> int:
        return self._count


async def _rate(put: Put, callers: int, seconds: float, *, first: int = 0) -> tuple[int, float]:
    """How many were put in within the time, at least one by each caller, and how many that is a second."""
    done, ends = 0, time.perf_counter() + seconds
    numbers = iter(range(first, first + _MOST))

    async def caller() -> None:
        nonlocal done
        for number in numbers:
            await put(number)
            done += 1
            if time.perf_counter() >= ends:
                return

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return done, done / (time.perf_counter() - began)


async def _waits(pipe: _Pipe, seconds: float) -> list[float]:
    """Milliseconds from the call to its arrival, one at a time, sorted."""
    waits: list[float] = []
    ends = time.perf_counter() + seconds
    while len(waits) < _LEAST_WAITS or time.perf_counter() < ends:
        await asyncio.sleep(_PAUSE_SECONDS)
        began = time.perf_counter()
        pipe.put_in += 1
        await pipe.put(len(waits))
        await pipe.until_empty()
        waits.append((time.perf_counter() - began) * 1000)
    return sorted(waits)
