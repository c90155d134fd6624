"""What is measured of the machinery below the pipes: turns, leases, the event loop, the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

PIPES = ("inbound", "hooks", "outbound")

_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_LOOK_EVERY = 1.0


class LaneMetrics:
    """What one pipe's drain asks of the database, and how that goes."""

    def __init__(self, pipe: str, families: WorksMetrics) -> None:
        self.turn_seconds = families.turn_seconds.labels(pipe=pipe)
        self.turn_failures = families.turn_failures.labels(pipe=pipe)
        self.claimed = families.claimed.labels(pipe=pipe)
        self.leases_lost = families.leases_lost.labels(pipe=pipe)


class WorksMetrics:
    """The families behind all drains of a process, its event loop and its database."""

    def __init__(self, prefix: str, registry: CollectorRegistry) -> None:
        self.turn_seconds = Histogram(
            f"{prefix}_turn_seconds",
            "Duration of one turn: settling what ended and claiming what is due, in one transaction.",
            ["pipe"],
            buckets=_QUICK,
            registry=registry,
        )
        self.turn_failures = Counter(
            f"{prefix}_turn_failures_total", "Turns that the database refused.", ["pipe"], registry=registry
        )
        self.claimed = Counter(
            f"{prefix}_claimed_total", "Rows claimed, each attempt anew.", ["pipe"], registry=registry
        )
        self.leases_lost = Counter(
            f"{prefix}_leases_lost_total",
            "Holds that were gone when they were to be renewed or settled.",
            ["pipe"],
            registry=registry,
        )
        self.loop_lag = Histogram(
            f"{prefix}_loop_lag_seconds",
            "How late the event loop woke, looked at once a second.",
            buckets=_QUICK,
            registry=registry,
        )
        self.database_waiting = Gauge(
            f"{prefix}_database_waiting",
            "Transactions of this process that wait for the database or are under way.",
            registry=registry,
        )
        self.lanes = {pipe: LaneMetrics(pipe, self) for pipe in PIPES}

    def watch_database(self, waiting: Callable[[], int]) -> None:
        """Ask how much waits for the database whenever somebody looks."""
        self.database_waiting.set_function(waiting)

    async def watch_loop(self) -> None:
        """Measure, for as long as this runs, how late the event loop wakes whoever asked to be woken."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LOOK_EVERY
            await asyncio.sleep(_LOOK_EVERY)
            self.loop_lag.observe(max(0.0, loop.time() - due))
