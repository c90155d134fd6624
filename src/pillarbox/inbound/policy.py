"""The numbers of the inbound pipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pillarbox.engine import Backoff


def _a_week(origin: str) -> timedelta:
    return timedelta(days=7)


_STEPS = Backoff((5, 10, 20, 40, 80, 160, 300))


@dataclass(frozen=True, slots=True)
class InboundPolicy:
    """Retries without end by fixed steps; a lease of five minutes; a starting session is waited for before it counts as away."""

    backoff: Backoff = _STEPS
    lease: timedelta = timedelta(minutes=5)
    timeout: float = 30.0
    poll: float = 1.0
    concurrency: int = 64
    startup_gate: timedelta = timedelta(seconds=15)
    deaths: int = 3
    retention: Callable[[str], timedelta] = _a_week
    shortest_retention: timedelta = timedelta(days=7)
