"""The speed of a drain."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

_LEAST_AT_ONCE = 32
_LOOK_AGAIN = 1.0
_SHORTEST_REST = 0.01


@dataclass(frozen=True, slots=True)
class Pace:
    """How much at once, how long each, how often to look: seconds."""

    concurrency: int
    timeout: float
    poll: float

    def rest(self, due: datetime | None, *, looked: datetime, now: datetime) -> float:
        """How long to rest until something is due; what was due at the last look and not taken has a full destination, or
        another taker."""
        if due is None:
            return self.poll
        if due <= looked:
            return min(self.poll, _LOOK_AGAIN)
        return min(self.poll, max(_SHORTEST_REST, (due - now).total_seconds()))

    @property
    def at_once(self) -> int:
        """The most that one turn claims: half, so that the other half is delivered meanwhile; a few are not worth halving."""
        return max(_LEAST_AT_ONCE, -(-self.concurrency // 2))
