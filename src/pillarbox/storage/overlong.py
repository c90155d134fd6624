"""Leases that a clock which was set back has made too long are cut, and never by somebody whose own time is long past."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pillarbox.clock import Clock
from pillarbox.storage.database import Step

_SPARE = timedelta(minutes=1)
"""More than a transaction may stand still before its server ends it."""


def cut_overlong(queries: Any, clock: Clock, lease: timedelta) -> Step[None]:
    """Cut leases that are longer than any can be, if there are such.

    The time counts at which the first answer has come: who stands still after it loses the transaction, and who stood still
    before, for as long as others took hold of rows, must not cut these by the time at which he fell asleep.
    """
    if (yield queries.overlong(horizon=clock.now() + lease + _SPARE)):
        now = clock.now()
        yield queries.cut_leases(horizon=now + lease + _SPARE, lease_until=now + lease)
