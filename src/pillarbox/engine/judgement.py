"""What an exception of a delivery means."""

from __future__ import annotations

import asyncio
from datetime import datetime

from pillarbox.engine.outcome import Outcome, Retry
from pillarbox.engine.policy import Policy
from pillarbox.telemetry import brief


def judged(error: BaseException, policy: Policy, *, late_after: float | None, now: datetime) -> Outcome:
    """The outcome of a delivery that raised, in its own task; after so many seconds, if it was stopped for being late.

    A destination may raise anything, even a cancellation that nobody asked for.
    """
    if late_after is not None:
        return Retry(f"The delivery took longer than {late_after:g} s.")
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        return Retry("The node stopped during the delivery.", at=now)
    try:
        return policy.judge(error) if isinstance(error, Exception) else Retry(brief(error))
    except Exception:
        return Retry(type(error).__name__)
