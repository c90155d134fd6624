"""How long to wait before the next try."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Backoff:
    """Fixed steps in seconds, the last of which repeats for ever, spread by a jitter of plus or minus that share."""

    steps: tuple[float, ...]
    jitter: float = 0.0

    def delay(self, attempt: int, random: Random) -> float:
        """The wait after the given attempt, counted from 1, has failed."""
        step = self.steps[min(max(attempt, 1), len(self.steps)) - 1]
        return step * (1 + random.uniform(-self.jitter, self.jitter)) if self.jitter else step

    @property
    def longest(self) -> float:
        """The longest wait there can be."""
        return max(self.steps) * (1 + self.jitter)
