"""The inbox: pairs of begin and mark a second, in process and over HTTP, beside a peer on the same store in turns.

Every key is new. Whoever writes to SQL answers when the disk has it; Redis is the same server for both.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import count

from redis.asyncio import Redis

from bench.peers_inbox import LEASE, PEERS, Peer, open_peer
from bench.report import Figure, Report
from bench.servers import Measured
from pillarbox import Pillarbox
from pillarbox.inbox import Inbox, MemoryInbox
from pillarbox.inbox.redis import RedisInbox
from pillarbox.inbox.remote import RemoteInbox
from pillarbox.settings import load_settings
from tests.servers.daemon import ADMIN_KEY, Daemon

TURNS = 3
SERVED = ("sqlite", "postgres")


class Door:
    """Our inbox, called as a peer is."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    async def begin(self, key: str) -> str:
        lease_id = (await self._inbox.try_begin(key, lease=LEASE)).lease_id
        assert lease_id
        return lease_id

    async def mark(self, key: str, lease_id: str) -> None:
        assert (await self._inbox.mark_processed(key, lease_id)).status == "Processed"


async def run(measured: Measured, report: Report, *, scale: float) -> None:
    seconds = max(1.5, 6 * scale)
    for whose in PEERS[measured.name]:
        async with open_ours(measured.fresh()) as ours, open_peer(whose, measured.fresh()) as peer:
            for callers in (1, 100):
                aim = ">= 5 x" if callers == 100 and measured.name in SERVED else ""
                rates = await in_turns(ours, peer, callers, seconds)
                report.add(Figure(measured.name, f"begin + mark, {say(callers)}", rates[0], "/s", rates[1], aim, whose))
    if measured.name in SERVED:
        whose = PEERS[measured.name][0]
        with Daemon(measured.fresh()) as server, peer_served(whose, measured.fresh()) as address:
            async with remote(server.base_url) as ours, remote(address) as peer:
                for callers in (1, 100):
                    rates = await in_turns(ours, peer, callers, seconds)
                    what = f"begin + mark over HTTP, {say(callers)}"
                    report.add(Figure(measured.name, what, rates[0], "/s", rates[1], whose=f"{whose}, served"))


@asynccontextmanager
async def open_ours(url: str) -> AsyncIterator[Peer]:
    async with AsyncExitStack() as stack:
        if url == "memory:":
            yield Door(Inbox(MemoryInbox()))
        elif url.startswith("redis"):
            yield Door(Inbox(RedisInbox(await stack.enter_async_context(Redis.from_url(url)))))
        else:
            opened = Pillarbox.open(url, settings=load_settings(environ={}))
            yield Door((await stack.enter_async_context(opened)).inbox)


@asynccontextmanager
async def remote(address: str) -> AsyncIterator[Peer]:
    store = RemoteInbox(address, key=ADMIN_KEY)
    try:
        yield Door(Inbox(store))
    finally:
        await store.close()


@contextmanager
def peer_served(name: str, url: str) -> Iterator[str]:
    """The address of a process that serves this peer."""
    command = [sys.executable, "-m", "bench.peer_server", name, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield server.stdout.readline().removeprefix("listening on ").strip()
        finally:
            server.kill()


async def in_turns(ours: Peer, peer: Peer, callers: int, seconds: float) -> tuple[float, float]:
    """Pairs a second of both; they take turns, so that whatever else the machine does falls on both."""
    sides = (ours, peer)
    for side in sides:
        await pairs(side, callers, 0.2)
    done, spent = [0, 0], [0.0, 0.0]
    for _ in range(TURNS):
        for n, side in enumerate(sides):
            began = time.perf_counter()
            done[n] += await pairs(side, callers, seconds / TURNS)
            spent[n] += time.perf_counter() - began
    return done[0] / spent[0], done[1] / spent[1]


async def pairs(side: Peer, callers: int, seconds: float) -> int:
    """How many keys so many callers begin and mark within a time."""
    numbers, name = count(), uuid.uuid4().hex
    ends = time.perf_counter() + seconds
    done = 0

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < ends:
            key = f"bench:{name}:{next(numbers)}"
            await side.mark(key, await side.begin(key))
            done += 1

    await asyncio.gather(*(caller() for _ in range(callers)))
    return done


def say(callers: int) -> str:
    return "1 caller" if callers == 1 else f"{callers} callers"
