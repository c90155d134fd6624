"""What the queue needs now and then: the old deleted, the dead buried, a clock that was set put right. Bounded, on any node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pillarbox.inbound.strands import queries
from pillarbox.storage import UNREADABLE, Step, legible

STRETCH = 1000


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows one look deleted, whether the next may find more, and where it goes on."""

    deleted: int
    more: bool
    up_to: int


def prune(after: int, before: Callable[[str], datetime], *, latest: datetime, limit: int) -> Step[Pruned]:
    """Delete what ended long enough ago in one stretch of the table; the next look begins at the oldest again."""
    rows = yield queries.oldest_rows(after=after, limit=STRETCH)
    over = [row[0] for row in rows if row[3] is not None and legible(row[3]) < before(row[1])][:limit]
    deleted = len((yield queries.prune(ids=over))) if over else 0
    reached_the_young = len(rows) < STRETCH or latest <= legible(rows[-1][2]) < UNREADABLE
    if deleted == limit:
        return Pruned(deleted, more=True, up_to=after)
    return Pruned(deleted, more=not reached_the_young, up_to=0 if reached_the_young else rows[-1][0])


def straighten(due: datetime) -> Step[None]:
    """No head may be due later than this."""
    for (served_by,) in (yield queries.served()):
        if cut := (yield queries.pull_in(served_by=served_by, horizon=due)):
            yield queries.pull_in_rows(rows=cut, horizon=due)
