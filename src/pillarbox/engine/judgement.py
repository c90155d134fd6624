"""What an exception of a delivery means."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from random import Random

from pillarbox.engine.outcome import Outcome, Retry, Skipped
from pillarbox.engine.policy import Policy
from pillarbox.telemetry import brief


class Untouched(asyncio.CancelledError):
    """Cancelled before anything could have reached the destination."""


@contextmanager
def not_begun() -> Iterator[None]:
    """Around what a delivery waits for before it begins: stopped in here, its attempt is given back."""
    try:
        yield
    except asyncio.CancelledError:
        raise Untouched from None


def judged(
    error: BaseException, policy: Policy, *, late_after: float | None, called_off: bool, now: datetime
) -> Outcome:
    """The outcome of a delivery that raised, in its own task; after so many seconds, if it was stopped for being late.

    A destination may raise anything, even a cancellation that nobody asked for, and may cancel its own task: only what was
    called off goes again at once.
    """
    if late_after is not None:
        return Retry(f"The delivery took longer than {late_after:g} s.")
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        if isinstance(error, Untouched):
            return Skipped("", at=now)
        return Retry("The node stopped during the delivery.", at=now) if called_off else Retry(brief(error))
    try:
        return policy.judge(error) if isinstance(error, Exception) else Retry(brief(error))
    except Exception:
        return Retry(type(error).__name__)


def completed(outcome: Outcome, policy: Policy, *, attempt: int, now: datetime, random: Random) -> Outcome:
    """The outcome with its next time filled in; where that cannot be done, the attempt has failed."""
    try:
        return policy.complete(outcome, attempt=attempt, now=now, random=random)
    except Exception as error:
        unusable = Retry(f"The outcome of the delivery cannot be used: {worded(error)}")
        return policy.complete(unusable, attempt=attempt, now=now, random=random)


def worded(error: BaseException) -> str:
    """An error's first sentence, or at least its name: strangers' errors may have no words."""
    try:
        return brief(error)
    except Exception:
        return type(error).__name__
