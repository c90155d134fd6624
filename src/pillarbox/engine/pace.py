"""The speed of a drain."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """How much at once, how long each, how often to look: seconds."""

    concurrency: int
    timeout: float
    poll: float
