"""How long the operator's pages take with much in history: the first look of a new process, and those after it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from aiohttp import ClientSession, DummyCookieJar

from bench.growing.copying import FAR_AWAY, Copier
from bench.servers import databases
from pillarbox.box import Pillarbox
from pillarbox.outbound.messages import Email
from pillarbox.settings import load_settings
from tests.servers.daemon import ADMIN_KEY, Daemon, key_for

MESSAGES = 1_000_000
QUICK = 20_000
LOOKS = 20
OF_NOTHING = "the log, searched for an error that no message has"
PAGES = {
    "overview": "/",
    "log": "/messages",
    "what failed": "/messages?filter=status:failed",
    OF_NOTHING: "/messages?filter=error:nothing-has-this",
}
RETRYING = 2_000
TENANTS = 100
_FAILED_OF = 100
# Ids that are older than any that is made now, those that failed behind the others.
_SENT, _FAILED, _RETRYING = (f"'00000000-000{digit}-7000-8000-' || " for digit in (0, 1, 2))


def measure_all(folder: Path, *, quick: bool, only: str | None) -> Iterator[dict[str, Any]]:
    """Each page on each database."""
    messages = QUICK if quick else MESSAGES
    stores = {"sqlite", "postgres"} & ({only} if only else {"sqlite", "postgres"})
    for database in databases(folder, stores):
        url = database.fresh()
        asyncio.run(fill(url, messages))
        with Daemon(url) as daemon:
            daemon.until("/readyz")
            for row in asyncio.run(_look(daemon)):
                yield {"store": database.name, "messages": messages, **row}


async def fill(url: str, messages: int) -> None:
    """Three messages are real: one that was sent, one that failed, and one that waits for its retry; the others are copies."""
    sandbox = {"email": {"provider": "sandbox"}}
    async with Pillarbox.open(url, settings=load_settings(environ=key_for(url))) as box:
        await box.tenants.set("t0", providers=sandbox)
        ids = [
            await box.outbound.send("t0", Email(to=f"{to}@example.com", subject="Hello", text="hello world"))
            for to in ("ann", "fail", "flaky")
        ]
        await box.outbound.drain.step()
    await asyncio.to_thread(_copy, url, messages, ids)


def _copy(url: str, messages: int, ids: list[str]) -> None:
    failed = messages // _FAILED_OF
    with Copier(url) as copier:
        digits = copier.hex(12)
        copier.copy("tenants", "tenant_id = 't0'", TENANTS - 1, tenant_id="'t' || n")
        for name, count, copied in zip(
            (_SENT, _FAILED, _RETRYING), (messages - failed, failed, RETRYING), ids, strict=True
        ):
            values = {
                "message_id": name + digits,
                "tenant_id": f"'t' || (n % {TENANTS})",
                "next_attempt_at": f"'{FAR_AWAY}'",
            }
            for table in ("message_history", "message_attempt", *(["message_queue"] if name == _RETRYING else [])):
                copier.copy(table, f"message_id = '{copied}'", count, **values)


async def _look(daemon: Daemon) -> list[dict[str, Any]]:
    async with ClientSession(daemon.base_url, cookie_jar=DummyCookieJar()) as session:
        async with session.post("/login", data={"key": ADMIN_KEY}, allow_redirects=False) as signed_in:
            cookie = signed_in.headers["set-cookie"].partition(";")[0]
        return [{"page": name, **await _times(session, cookie, path)} for name, path in PAGES.items()]


async def _times(session: ClientSession, cookie: str, path: str) -> dict[str, float]:
    taken = []
    for _ in range(LOOKS + 1):
        began = time.perf_counter()
        async with session.get(path, headers={"cookie": cookie}) as answer:
            text = await answer.text()
        assert answer.status == 200, text[:200]
        taken.append((time.perf_counter() - began) * 1000)
    first, *warm = taken
    return {"first_ms": round(first, 1), "median_ms": round(median(warm), 1), "worst_ms": round(max(warm), 1)}
