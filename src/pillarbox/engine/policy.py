"""Judging what went wrong: pure, so that it can be tested by tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

from pillarbox.engine.backoff import Backoff
from pillarbox.engine.outcome import Outcome, Retry, Skipped
from pillarbox.telemetry import brief


def _retry(error: Exception) -> Outcome:
    return Retry(brief(error))


@dataclass(frozen=True, slots=True)
class Policy:
    """When to try again, and what an exception means."""

    backoff: Backoff
    judge: Callable[[Exception], Outcome] = _retry

    def complete(self, outcome: Outcome, *, attempt: int, now: datetime, random: Random) -> Outcome:
        """The outcome with its next time filled in."""
        match outcome:
            case Retry():
                at = outcome.at or now + timedelta(seconds=self.backoff.delay(attempt, random))
                return replace(outcome, at=max(at, outcome.not_before or at))
            case Skipped(at=None):
                return Skipped(outcome.reason, now + timedelta(seconds=self.backoff.delay(1, random)))
            case _:
                return outcome
