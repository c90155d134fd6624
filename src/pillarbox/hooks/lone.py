"""Events that are alone in their strands, as nearly all are while little happens: each way takes one round trip, the commit
included."""

from __future__ import annotations

from datetime import datetime

from pillarbox.clock import Clock
from pillarbox.engine import Lease, Strand, Turn
from pillarbox.hooks.model import Checked, HookRow, Stored, row_from
from pillarbox.hooks.offers import LONGEST
from pillarbox.process import neighbourhood
from pillarbox.sessions.registry import unknown_session
from pillarbox.storage import Row, Statement, Step, checksum, ending, load_queries

_queries = load_queries("pillarbox.hooks", "lone.sql")

FEW = 8


def append(item: Checked, *, now: datetime) -> Step[list[Stored | Exception]]:
    """Store one event that cannot have been stored before."""

    def answer(stored: list[Row]) -> list[Stored | Exception]:
        return [Stored(stored[0][0]) if stored else unknown_session(item.session_id)]

    return (
        yield from ending(
            _queries.lengthen(session_id=item.session_id, now=now),
            _insert(item, now),
            again=[_queries.inserted(**_said(item))],
            result=answer,
        )
    )


def hand_over(item: Checked, *, now: datetime, clock: Clock) -> Step[list[Stored | Exception]]:
    """The same, and claim the event at once for a node that has offered to take it, if its session is quiet."""
    # Not `now`: whoever stores may have waited, and what was offered meanwhile be over.
    present = clock.now()
    taken = yield _queries.hand_over(
        session_id=item.session_id, now=present, latest=present + LONGEST, near=neighbourhood()
    )
    if not taken:
        return (yield from append(item, now=now))
    yield _queries.accept(holder=taken[0][0])
    ((event_id,),) = yield _insert(item, now)
    return [Stored(event_id)]


def _insert(item: Checked, now: datetime) -> Statement:
    return _queries.insert(**_said(item), now=now, payload=item.payload_json, trace=item.trace)  # type: ignore[no-any-return]


def _said(item: Checked) -> dict[str, object]:
    return {
        "session_id": item.session_id,
        "event_type": item.event_type,
        "created_at": item.created_at,
        "checksum": checksum(item.session_id, item.event_type, item.payload_json),
    }


def claim_lone(lease: Lease, slots: int, clock: Clock) -> Step[Turn[HookRow]]:
    """Take events that are alone in the strands that are due first; others may be due as well."""
    since, now = clock.monotonic(), clock.now()

    def claimed(taken: list[Row], found: list[Row]) -> Turn[HookRow]:
        rows = {row[1]: row_from(row) for row in found}
        held = [Strand(key, key, token, (rows[key],)) for key, token in taken]
        return Turn(held, (), since, partial=True)

    hold = {"holder": lease.holder, "now": now, "lease_until": now + lease.length}
    found = _queries.rows_taken(**hold)
    return (
        yield from ending(
            _queries.take(limit=min(slots, FEW), **hold),
            found,
            again=[_queries.taken(**hold), found],
            result=claimed,
        )
    )
