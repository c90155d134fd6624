"""The memory of `pillarbox serve`: idle, and over time under steady load on all three pipes and the inbox."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from bench.outbound import sinking
from bench.processes import held
from tests.servers.daemon import ADMIN_KEY, Daemon

IDLE_SECONDS = 5.0
A_SECOND = 40
"""Requests a second, a quarter of them to each door."""
SAMPLES = 60
SESSIONS = 50


@dataclass(slots=True)
class Answered:
    """How many requests have been answered; a begin and its mark in the inbox count as one."""

    count: int = 0


def measure(folder: Path, *, minutes: float) -> dict[str, Any]:
    """A real process on SQLite, its memory when nothing happens, and then while much does."""
    with sinking() as origin:
        settings = {"outbound.trusted_destinations": [origin]}
        with Daemon(f"sqlite:///{folder / 'soak.db'}", settings=settings) as daemon:
            daemon.until("/readyz")
            return asyncio.run(_watch(daemon, origin, minutes))


async def _watch(daemon: Daemon, origin: str, minutes: float) -> dict[str, Any]:
    await asyncio.sleep(IDLE_SECONDS)
    idle = held(daemon.pid)
    print(f"idle: {idle:.1f} MiB", file=sys.stderr, flush=True)
    headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
    async with ClientSession(daemon.base_url, headers=headers) as client:
        await _set_up(client, origin)
        answered = Answered()
        load = asyncio.create_task(_load(client, origin, answered))
        samples, began = [], time.monotonic()
        try:
            for number in range(1, SAMPLES + 1):
                await asyncio.sleep(max(0.0, began + number * minutes * 60 / SAMPLES - time.monotonic()))
                if load.done():
                    break
                samples.append([round(time.monotonic() - began, 1), round(held(daemon.pid), 2)])
        finally:
            load.cancel()
            (done,) = await asyncio.gather(load, return_exceptions=True)
        if isinstance(done, Exception):
            raise done
        status = await (await client.get("/v1/status")).json()
    return {
        "idle_mib": idle,
        "samples": samples,
        "requests": answered.count,
        "growth": growth(samples),
        "status": status,
    }


async def _set_up(client: ClientSession, origin: str) -> None:
    for n in range(SESSIONS):
        target = {"kind": "http", "url": f"{origin}/in"}
        await _ask(client, "POST", "/v1/sessions", {"session_id": f"s{n}", "target": target})
    await _ask(client, "PUT", "/v1/tenants/acme", {})


async def _load(client: ClientSession, origin: str, answered: Answered) -> None:
    """One request after another at a steady pace, so that every minute is like the one before."""
    began = time.monotonic()
    for n in count():
        answered.count = n
        await asyncio.sleep(max(0.0, began + n / A_SECOND - time.monotonic()))
        session = f"s{n % SESSIONS}"
        match n % 4:
            case 0:
                body = {"session_id": session, "origin": "bench", "content": "hello"}
                await _ask(client, "POST", "/v1/inbound", body)
            case 1:
                event = {"session_id": session, "event_type": "agent_stop", "payload": {"n": n}}
                await _ask(client, "POST", "/v1/hooks", event)
            case 2:
                message = {"channel": "webhook", "to": f"{origin}/out", "body": {"n": n}}
                await _ask(client, "POST", "/v1/tenants/acme/messages", message)
            case _:
                begun = await _ask(client, "POST", "/v1/inbox/try-begin", {"key": f"bench:{n}"})
                marked = {"key": f"bench:{n}", "leaseId": begun["leaseId"]}
                await _ask(client, "POST", "/v1/inbox/mark-processed", marked)


async def _ask(client: ClientSession, method: str, path: str, body: dict[str, Any]) -> Any:
    async with client.request(method, path, json=body) as answer:
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path} answered {answer.status}: {await answer.text()}")
        return await answer.json()


def growth(samples: list[list[float]]) -> float:
    """How much more memory the last quarter of the time held than the second quarter, as a factor."""
    quarter = max(1, len(samples) // 4)
    second, last = samples[quarter : 2 * quarter] or samples, samples[-quarter:]
    return (sum(m for _, m in last) / len(last)) / (sum(m for _, m in second) / len(second))
