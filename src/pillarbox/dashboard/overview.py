"""The first page: what needs somebody, how much waits and flows, and who is at work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.box import Pillarbox
from pillarbox.dashboard.live import Piece, stream
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.needs import groups_of
from pillarbox.dashboard.pages import fragment, render, signed_in
from pillarbox.dashboard.pulse import SECONDS_BETWEEN
from pillarbox.operators.nodes import Node

_KEPT_SECONDS = 1.0
_MOST_MESSAGES = 8
_MOST_NODES = 12


@dataclass(frozen=True, slots=True)
class Pipe:
    """A pipe's depth and age, and further counts with their names and colours."""

    title: str
    href: str
    waiting: int
    oldest: float | None
    counts: tuple[tuple[str, int, str], ...]


class Overview:
    """What the first page shows, looked up at most once a second however many are watching."""

    def __init__(self, box: Pillarbox) -> None:
        self._box = box
        self._seen: tuple[float, dict[str, Any]] | None = None
        self._lock = asyncio.Lock()

    async def now(self) -> dict[str, Any]:
        async with self._lock:
            if self._seen is None or time.monotonic() > self._seen[0] + _KEPT_SECONDS:
                self._seen = (time.monotonic(), await self._look())
            return self._seen[1]

    async def _look(self) -> dict[str, Any]:
        box = self._box
        recent = await box.log.page(limit=_MOST_MESSAGES)
        return {
            "pipes": await _pipes(box),
            "groups": groups_of(await box.attention()),
            "nodes": _present_first(await box.nodes.list()),
            "items": recent.items,
        }


@signed_in
async def show(call: Call, login: Login) -> Answer:
    rates = msgspec.json.encode(call.api.pulse.points).decode()
    seen = await call.api.overview.now()
    return render(call, login, "overview.html", active="overview", rates=rates, **seen)


async def follow(call: Call) -> Answer:
    """The same page as it changes."""
    return await stream(call, lambda: _pieces(call))


async def _pieces(call: Call) -> AsyncGenerator[Piece, None]:
    sent = 0.0
    while True:
        points = [point for point in call.api.pulse.points if point.at > sent]
        if points:
            sent = points[-1].at
            yield Piece("rates", msgspec.json.encode(points[-1:]).decode())
        seen = await call.api.overview.now()
        for name, template in (("panels", "panels.html"), ("latest", "log_table.html")):
            yield Piece(name, fragment(template, **seen))
        await asyncio.sleep(SECONDS_BETWEEN)


def _present_first(nodes: Sequence[Node]) -> list[Node]:
    """Those at work, then those that went away, then some that were stopped."""
    states = ("alive", "gone", "stopped")
    return sorted(nodes, key=lambda node: (states.index(node.state), -node.last_seen.timestamp()))[:_MOST_NODES]


async def _pipes(box: Pillarbox) -> list[Pipe]:
    inbound, hooks, outbound = await box.inbound.glance(), await box.hooks.glance(), await box.outbound.glance()
    inbox = await box.inbox_status()
    return [
        Pipe(
            "Outbound",
            "/messages?filter=pipe:outbound",
            outbound.pending + outbound.failed,
            outbound.oldest_age_seconds,
            (
                ("processing", outbound.processing, ""),
                ("retrying", outbound.failed, "warn"),
                ("failed", outbound.failed_for_good, "bad"),
            ),
        ),
        Pipe(
            "Inbound",
            "/messages?filter=pipe:inbound",
            inbound.pending + inbound.failed,
            inbound.oldest_age_seconds,
            (("processing", inbound.processing, ""), ("retrying", inbound.failed, "warn")),
        ),
        Pipe(
            "Hooks",
            "/hooks",
            hooks.pending + hooks.failed,
            hooks.oldest_age_seconds,
            (
                ("processing", hooks.processing, ""),
                ("retrying", hooks.failed, "warn"),
                ("dead", hooks.dead, "bad"),
                ("spooled", hooks.spooled, "warn"),
            ),
        ),
        Pipe("Inbox", "/inbox", inbox.leased, None, (("free", inbox.free, ""), ("processed", inbox.processed, ""))),
    ]
