"""Events that are alone in their strands, as nearly all are while little happens."""

from __future__ import annotations

from datetime import datetime

from pillarbox.engine import Lease, Strand, Turn
from pillarbox.hooks.model import HookRow, row_from
from pillarbox.hooks.strands import queries
from pillarbox.storage import Row, Step, ending

FEW = 8


def claim_lone(lease: Lease, limit: int, now: datetime, since: float) -> Step[Turn[HookRow]]:
    """Take events that are alone in their strands, in one round trip, the commit included."""

    def claimed(taken: list[Row], found: list[Row]) -> Turn[HookRow]:
        rows = {row[1]: row_from(row) for row in found}
        held = [Strand(key, key, token, (rows[key],)) for key, token in taken]
        return Turn(held, (), since, partial=True)

    hold = {"holder": lease.holder, "now": now, "lease_until": now + lease.length}
    found = queries.lone_rows(**hold)
    return (
        yield from ending(
            queries.take_lone(limit=limit, **hold),
            found,
            again=[queries.taken_lone(**hold), found],
            result=claimed,
        )
    )
