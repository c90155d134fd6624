"""How jobs are put in: one by one, by many callers at once, and in bulk, for a while or until there are enough."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count

from bench.peers.stamps import text

CALLERS = 100
SET = 1000


@dataclass(frozen=True, slots=True)
class Producer:
    """A queue that is open for jobs; `many` is None where a queue has no way to take several at once."""

    one: Callable[[str], Awaitable[object]]
    many: Callable[[list[str]], Awaitable[object]] | None = None


@dataclass(frozen=True, slots=True)
class BlockingProducer:
    """Likewise, of a library whose callers are threads."""

    one: Callable[[str], object]
    many: Callable[[list[str]], object] | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to go on, and after how many jobs to stop earlier."""

    seconds: float
    most: int

    def numbers(self) -> Iterator[int]:
        """A number for each job that may still begin; callers share it."""
        ends = time.monotonic() + self.seconds
        for number in count():
            if number >= self.most or time.monotonic() >= ends:
                return
            yield number


@dataclass(frozen=True, slots=True)
class Put:
    """How many jobs were put in, how many that is a second, and the seconds that the process of the callers computed."""

    count: int
    rate: float
    computed: float = 0.0


async def by_callers(producer: Producer, callers: int, effort: Effort) -> Put:
    done, numbers = 0, effort.numbers()

    async def caller() -> None:
        nonlocal done
        for _ in numbers:
            await producer.one(text())
            done += 1

    began, computed = time.monotonic(), time.process_time()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return Put(done, done / (time.monotonic() - began), time.process_time() - computed)


async def in_bulk(producer: Producer, effort: Effort) -> Put:
    assert producer.many
    began, done = time.monotonic(), 0
    for _ in effort.numbers():
        await producer.many([text() for _ in range(SET)])
        done += SET
        if done >= effort.most:
            break
    return Put(done, done / (time.monotonic() - began))


def by_threads(producer: BlockingProducer, callers: int, effort: Effort) -> Put:
    lock, numbers, done = threading.Lock(), effort.numbers(), [0] * callers

    def caller(place: int) -> None:
        while True:
            with lock:
                if next(numbers, None) is None:
                    return
            producer.one(text())
            done[place] += 1

    threads = [threading.Thread(target=caller, args=[place]) for place in range(callers)]
    began, computed = time.monotonic(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Put(sum(done), sum(done) / (time.monotonic() - began), time.process_time() - computed)


def in_bulk_blocking(producer: BlockingProducer, effort: Effort) -> Put:
    assert producer.many
    began, done = time.monotonic(), 0
    for _ in effort.numbers():
        producer.many([text() for _ in range(SET)])
        done += SET
        if done >= effort.most:
            break
    return Put(done, done / (time.monotonic() - began))
