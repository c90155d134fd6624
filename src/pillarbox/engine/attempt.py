"""One attempt at a row: it always ends with an outcome that can be recorded, or with none because others decide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Generic

from pillarbox.clock import Clock
from pillarbox.engine.flight import Flight
from pillarbox.engine.judgement import completed, judged, worded
from pillarbox.engine.lease import RowT
from pillarbox.engine.outcome import Delivered, Outcome, Skipped
from pillarbox.engine.policy import Policy
from pillarbox.engine.time_limit import TimeLimit
from pillarbox.telemetry import logger

log = logger(__name__)

Deliver = Callable[[RowT], Awaitable[Outcome]]
Observe = Callable[[RowT, Outcome, float], None]


def nobody(row: object, outcome: Outcome, seconds: float) -> None:
    """Observes nothing."""


class Attempt(Generic[RowT]):
    """Delivers a row within its time and judges how it went, whatever the delivery answers or raises."""

    def __init__(
        self,
        deliver: Deliver[RowT],
        *,
        observe: Observe[RowT],
        policy: Policy,
        timeout: float,
        clock: Clock,
        random: Random,
    ) -> None:
        self._deliver = deliver
        self._observe = observe
        self._policy = policy
        self._timeout = timeout
        self._time_limit: TimeLimit[RowT] = TimeLimit(timeout)
        self._clock = clock
        self._random = random

    async def __call__(self, flight: Flight[RowT], row: RowT) -> Outcome | None:
        """None when the hold was lost before or meanwhile."""
        began = self._clock.monotonic()
        if flight.is_lost(began):
            log.info("a lease was lost; its delivery was not begun", id=row.id, token=flight.strand.token)
            return None
        if flight.called_off:
            return Skipped("", at=self._clock.now())
        flight.deadline = began + self._timeout
        self._time_limit.begin(flight)
        try:
            outcome = await self._deliver(row)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if not flight.is_at_work:
                raise
            if flight.lost:
                _tell_of_the_stop(flight, row, error)
                return None
            late_after = self._timeout if self._time_limit.end(flight) else None
            outcome = judged(
                error, self._policy, late_after=late_after, called_off=flight.called_off, now=self._clock.now()
            )
        finally:
            self._time_limit.end(flight)
        if flight.dropped_itself:
            return None
        self._tell(row, outcome, self._clock.monotonic() - began)
        if isinstance(outcome, Delivered):
            return outcome
        return completed(outcome, self._policy, attempt=row.attempt_count, now=self._clock.now(), random=self._random)

    def _tell(self, row: RowT, outcome: Outcome, seconds: float) -> None:
        """Let it be observed; what was delivered stays so, whatever becomes of that."""
        try:
            self._observe(row, outcome, seconds)
        except Exception as error:
            log.error("an attempt could not be observed", id=row.id, error=worded(error))


def _tell_of_the_stop(flight: Flight[RowT], row: RowT, error: BaseException) -> None:
    if flight.dropped_itself:
        log.warning("a delivery ended its own row and then failed", id=row.id, error=worded(error))
    else:
        log.info("a lease was lost; its delivery was stopped", id=row.id, token=flight.strand.token)
