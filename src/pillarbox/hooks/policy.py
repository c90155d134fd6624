"""The numbers of the hooks pipe."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pillarbox.engine import Backoff

_STEPS = Backoff((1, 2, 4, 8, 16, 32, 60))


@dataclass(frozen=True, slots=True)
class HooksPolicy:
    """Retries without end by fixed steps, a lease of half a minute, at most 32 events of a session in memory."""

    backoff: Backoff = _STEPS
    lease: timedelta = timedelta(seconds=30)
    timeout: float = 20.0
    poll: float = 1.0
    concurrency: int = 64
    strand_limit: int = 32
    deaths: int = 3
    retention: timedelta = timedelta(days=7)
    forward_url: str | None = None
    spool_dir: Path | None = None
