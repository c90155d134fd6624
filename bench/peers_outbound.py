"""How fast others take jobs in and work them off: `python -m bench.peers_outbound pgqueuer postgresql://... 20000`.

Each runs alone in a process of its own, as its documentation says, and prints its rates as JSON. It imports nothing of ours, so
that a peer which needs another Python can have one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

CALLERS = 100
AT_ONCE = 500
POOL = 16
PAYLOAD = b"hello world" * 10
TEXT = PAYLOAD.decode()

Enqueue = Callable[[], Awaitable[object]]
Rates = dict[str, float]


async def timed(count: int, work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return count / (time.perf_counter() - began)


async def by_callers(count: int, callers: int, enqueue: Enqueue) -> float:
    numbers = iter(range(count))

    async def caller() -> None:
        for _ in numbers:
            await enqueue()

    return await timed(count, asyncio.gather(*(caller() for _ in range(callers))))


async def each_way(count: int, enqueue: Enqueue, bulk: Callable[[int], Awaitable[object]]) -> Rates:
    """All that is enqueued is `count` by bulk, a tenth of it one by one and a half of it by many callers."""
    return {
        "single": await by_callers(count // 10, 1, enqueue),
        "together": await by_callers(count // 2, CALLERS, enqueue),
        "bulk": await timed(count, bulk(count)),
    }


def waiting(count: int) -> int:
    """How many jobs `each_way` leaves to be worked off."""
    return count // 10 + count // 2 + count


async def pgqueuer(url: str, count: int) -> Rates:
    import asyncpg
    from pgqueuer.db import AsyncpgPoolDriver
    from pgqueuer.models import Job
    from pgqueuer.qm import QueueManager
    from pgqueuer.queries import Queries
    from pgqueuer.types import QueueExecutionMode

    async with asyncpg.create_pool(url, min_size=POOL, max_size=POOL) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await queries.install()

        async def bulk(number: int) -> None:
            for first in range(0, number, 1000):
                size = min(1000, number - first)
                await queries.enqueue(["send"] * size, [PAYLOAD] * size, [0] * size)

        rates = await each_way(count, lambda: queries.enqueue("send", PAYLOAD), bulk)
        manager = QueueManager(queries)
        left = waiting(count)

        @manager.entrypoint("send")
        async def send(job: Job) -> None:
            nonlocal left
            left -= 1

        rates["drain"] = await timed(left, manager.run(batch_size=AT_ONCE, mode=QueueExecutionMode.drain))
        assert left == 0
        return rates


async def procrastinate(url: str, count: int) -> Rates:
    """One statement for each job that it fetches, so a quarter of them will do."""
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=url, min_size=POOL, max_size=POOL))
    count //= 4
    left = waiting(count)

    @app.task(queue="send")
    async def send(text: str) -> None:
        nonlocal left
        left -= 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()

        async def bulk(number: int) -> None:
            arguments: Any = {"text": TEXT}
            for first in range(0, number, 1000):
                await send.batch_defer_async(*[arguments] * min(1000, number - first))

        rates = await each_way(count, lambda: send.defer_async(text=TEXT), bulk)
        working = app.run_worker_async(wait=False, concurrency=CALLERS, install_signal_handlers=False)
        rates["drain"] = await timed(left, working)
        assert left == 0
        return rates


async def oban(url: str, count: int) -> Rates:
    from oban import Oban, worker
    from oban.schema import install
    from psycopg_pool import AsyncConnectionPool

    left, ended = waiting(count), asyncio.Event()

    @worker(queue="send")
    class Send:
        async def process(self, job: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                ended.set()

    async with AsyncConnectionPool(url, min_size=POOL, max_size=POOL) as pool:
        await install(pool)
        client = Oban(pool=pool, name="client")
        new = Send.new  # type: ignore[attr-defined]

        async def bulk(number: int) -> None:
            for first in range(0, number, 1000):
                await client.enqueue_many([new({"text": TEXT}) for _ in range(min(1000, number - first))])

        rates = await each_way(count, lambda: client.enqueue(new({"text": TEXT})), bulk)
        jobs = left

        async def working() -> None:
            async with Oban(pool=pool, queues={"send": CALLERS}):
                await ended.wait()

        rates["drain"] = await timed(jobs, working())
        return rates


async def huey(url: str, count: int) -> Rates:
    """A library of threads: callers are threads. It has no bulk, so that is one caller again; and it is slow, so a tenth."""
    from huey import SqliteHuey

    box = SqliteHuey(filename=url.removeprefix("sqlite:///"), fsync=True, results=False)
    fewer, ended = count // 10, threading.Event()
    left = 3 * fewer

    @box.task()
    def send(text: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            ended.set()

    def single(number: int) -> None:
        for _ in range(number):
            send(TEXT)

    def together(number: int) -> None:
        threads = [threading.Thread(target=single, args=[number // 10]) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def drain() -> None:
        consumer = box.create_consumer(workers=1, initial_delay=0.01, max_delay=0.05, periodic=False)
        consumer.start()
        ended.wait()
        consumer.stop(graceful=True)

    def rate(number: int, work: Callable[[], None]) -> float:
        # On the main thread, where the consumer wants to be.
        began = time.perf_counter()
        work()
        return number / (time.perf_counter() - began)

    return {
        "single": rate(fewer, lambda: single(fewer)),
        "together": rate(fewer, lambda: together(fewer)),
        "bulk": rate(fewer, lambda: single(fewer)),
        "drain": rate(3 * fewer, drain),
    }


PEERS: dict[str, Callable[[str, int], Coroutine[Any, Any, Rates]]] = {
    "pgqueuer": pgqueuer,
    "procrastinate": procrastinate,
    "oban": oban,
    "huey": huey,
}


def main(name: str, url: str, count: int) -> None:
    import uvloop

    logging.disable(logging.WARNING)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(PEERS[name](url, count))))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
