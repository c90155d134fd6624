"""Everybody who sends over HTTP or by the receiver, in one process that is never killed: `python -m torture.producers`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvloop

from torture.journal import Journal
from torture.producing.hooks import keep_receiving, keep_telling
from torture.producing.inbound import keep_closing, keep_posting, open_session
from torture.producing.inbox import keep_contending
from torture.producing.outbound import TENANTS, keep_sending
from torture.producing.settings import Producers, read_round

_KEEP_EVERY = 0.05


async def prepare(producers: Producers) -> None:
    """Sessions and tenants, before there is any trouble."""
    door = producers.door("prepare")
    for tenant in TENANTS:
        await door.insist("PUT", f"/v1/tenants/{tenant}", {"name": tenant})
    for number in range(producers.round.sessions):
        await open_session(producers, door, f"s{number}")


async def keep_ledger(producers: Producers) -> None:
    while True:
        await asyncio.sleep(_KEEP_EVERY)
        await asyncio.to_thread(producers.ledger.keep)
        print(producers.ledger.count, flush=True)


async def watch_for_the_end(producers: Producers) -> None:
    """The round is over when stdin is."""
    await asyncio.to_thread(sys.stdin.read)
    producers.end()


async def main(path: str) -> None:
    round_ = read_round(path)
    producers = Producers(round_, Journal(Path(round_.folder, "ledger.jsonl")))
    await prepare(producers)
    print("ready", flush=True)
    keeping = asyncio.create_task(keep_ledger(producers))
    watching = asyncio.create_task(watch_for_the_end(producers))
    async with asyncio.TaskGroup() as tasks:
        for number in range(round_.sessions):
            tasks.create_task(keep_posting(producers, number))
        for number in range(round_.closers):
            tasks.create_task(keep_closing(producers, number))
        for number in range(round_.hook_sessions):
            tasks.create_task(keep_telling(producers, number))
        for number in range(round_.agents):
            tasks.create_task(keep_receiving(producers, number))
        for number in range(round_.senders):
            tasks.create_task(keep_sending(producers, number))
        for number in range(2 * round_.contenders):
            tasks.create_task(keep_contending(producers, number // 2, number % 2))
    await watching
    keeping.cancel()
    producers.ledger.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1]))
