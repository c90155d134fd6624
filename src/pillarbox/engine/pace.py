"""The speed of a drain."""

from __future__ import annotations

from dataclasses import dataclass

_LEAST_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Pace:
    """How much at once, how long each, how often to look: seconds."""

    concurrency: int
    timeout: float
    poll: float

    @property
    def at_once(self) -> int:
        """The most that one turn claims: half, so that the other half is delivered meanwhile; a few are not worth halving."""
        return max(_LEAST_AT_ONCE, -(-self.concurrency // 2))
