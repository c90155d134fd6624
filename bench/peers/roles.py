"""What a process of a queue can be: whoever prepares it, puts jobs in, waits between jobs, or works them off."""

from __future__ import annotations

import asyncio
import inspect
import json
import random
import sys
import time
from types import ModuleType
from typing import Any

from bench.peers.producer import (
    CALLERS,
    BlockingProducer,
    Effort,
    Producer,
    Put,
    by_callers,
    by_threads,
    in_bulk,
    in_bulk_blocking,
)
from bench.peers.stamps import text

PAUSES = (0.01, 0.05)
"""Between two jobs at low load, never the same, so that no timer of a worker is met in step."""
# The same pauses for everybody.
_SEED = 20261115


def is_blocking(peer: ModuleType) -> bool:
    return not inspect.iscoroutinefunction(peer.work)


async def run(peer: ModuleType, role: str, url: str, *numbers: float) -> None:
    match role:
        case "prepare":
            if hasattr(peer, "prepare"):
                await peer.prepare(url)
        case "work":
            _wait_for_go()
            await peer.work(url)
        case _:
            async with peer.producer(url) as producer:
                await _ROLES[role](producer, *numbers)


def run_blocking(peer: ModuleType, role: str, url: str, *numbers: float) -> None:
    match role:
        case "prepare":
            pass
        case "work":
            _wait_for_go()
            peer.work(url)
        case _:
            with peer.producer(url) as producer:
                _BLOCKING_ROLES[role](producer, *numbers)


def _wait_for_go() -> None:
    """All workers begin together, whatever each had to import."""
    print("ready", flush=True)
    sys.stdin.readline()


async def _produce(producer: Producer, seconds: float, most: float) -> None:
    effort = Effort(seconds, int(most))
    await producer.one(text())
    found = {
        "single": await by_callers(producer, 1, effort),
        "together": await by_callers(producer, CALLERS, effort),
    }
    if producer.many:
        found["bulk"] = await in_bulk(producer, effort)
    _tell(found)


def _produce_blocking(producer: BlockingProducer, seconds: float, most: float) -> None:
    effort = Effort(seconds, int(most))
    producer.one(text())
    found = {"single": by_threads(producer, 1, effort), "together": by_threads(producer, CALLERS, effort)}
    if producer.many:
        found["bulk"] = in_bulk_blocking(producer, effort)
    _tell(found)


async def _fill(producer: Producer, seconds: float, most: float) -> None:
    effort = Effort(seconds, int(most))
    put = await in_bulk(producer, effort) if producer.many else await by_callers(producer, CALLERS, effort)
    _tell({"fill": put})


def _fill_blocking(producer: BlockingProducer, seconds: float, most: float) -> None:
    effort = Effort(seconds, int(most))
    _tell({"fill": in_bulk_blocking(producer, effort) if producer.many else by_threads(producer, 8, effort)})


async def _ping(producer: Producer) -> None:
    print("ready", flush=True)
    pauses = random.Random(_SEED)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        await asyncio.sleep(pauses.uniform(*PAUSES))
        await producer.one(text())
        _tell_answer()


def _ping_blocking(producer: BlockingProducer) -> None:
    print("ready", flush=True)
    pauses = random.Random(_SEED)
    while sys.stdin.readline():
        time.sleep(pauses.uniform(*PAUSES))
        producer.one(text())
        _tell_answer()


def _tell_answer() -> None:
    """When the call that enqueues has answered, by the clock that the jobs read too."""
    print(repr(time.monotonic()), flush=True)


def _tell(found: dict[str, Put]) -> None:
    rates = {name: put.rate for name, put in found.items()}
    if put := found.get("together"):
        rates["caller_cost"] = put.computed / put.count * 1e6
    print(json.dumps({"count": sum(put.count for put in found.values()), **rates}), flush=True)


_ROLES: dict[str, Any] = {"produce": _produce, "fill": _fill, "ping": _ping}
_BLOCKING_ROLES: dict[str, Any] = {"produce": _produce_blocking, "fill": _fill_blocking, "ping": _ping_blocking}
