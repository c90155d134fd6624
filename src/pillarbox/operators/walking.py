"""One walk along an index: a bounded stretch of it at a time, from where the last one ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from pillarbox.operators.model import LogItem
from pillarbox.operators.routes import Route
from pillarbox.outbound import reading
from pillarbox.outbound.model import MessageItem
from pillarbox.storage import Query, Row, Step, instant, instant_or_none
from pillarbox.storage.ids import AFTER_ALL
from pillarbox.storage.queries import parse_queries
from pillarbox.text import on_one_line

Shown = Callable[[datetime], datetime]
Place = str | int

WINDOW = 5000
_LARGEST = 2**63 - 1
# One row of a stretch may have come late with an old date; not so many in a row.
_ASKED_FOR_THEIR_AGE = 5
_SUMMARY = 120

_COLUMNS = {
    "outbound": reading.MESSAGE,
    "inbound": f"""m.id, m.created_at, m.status, m.attempt_count, m.next_retry_at, m.last_error, substr(m.content, 1, {_SUMMARY}),
        m.session_id, m.seq, m.origin, m.message_type""",
    "hooks": """m.id, m.created_at, m.status, m.attempt_count, m.next_attempt_at, m.last_error, m.event_type,
        m.session_id, m.seq, NULL, m.event_type""",
}


@dataclass(slots=True)
class Found:
    """A match, where it stands on its walk, and when it came in."""

    place: Place
    at: datetime
    item: LogItem
    message: MessageItem | None = None


@dataclass(slots=True)
class Walked:
    """What a stretch held; `reached` is where it ended and when that was, None at the end of the walk."""

    found: Sequence[Found]
    reached: tuple[Place, datetime] | None


def walk(route: Route, before: Place | None, *, limit: int, oldest: datetime | None, shown: Shown) -> Step[Walked]:
    """The next matches, the newest first, out of one stretch."""
    edge = before if before is not None else _beyond(route)
    floor: Place | None = None
    ended_at: datetime | None = None
    if not route.is_plain and not route.is_bounded:
        rows = yield _floor(route)(**route.params, before=edge, window=WINDOW)
        ages = [instant(row[1]) for row in rows]
        if rows and (oldest is None or max(ages) >= oldest):
            floor, ended_at = rows[0][0], ages[0]
    params = route.params | route.conditions.params
    lowest = ("" if isinstance(edge, str) else 0) if floor is None else floor
    rows = yield _select(route)(**params, before=edge, floor=lowest, limit=limit + 1)
    found = [found_of(route, row, shown) for row in rows]
    _date_by_arrival(found, ended_at)
    if len(found) > limit:
        return Walked(found[:limit], (found[limit - 1].place, found[limit - 1].at))
    # The next stretch begins below this one: the floor itself was looked at.
    return Walked(found, None if floor is None or ended_at is None else (floor, ended_at))


def found_of(route: Route, row: Row, shown: Shown) -> Found:
    if route.pipe == "outbound":
        message = reading.item_from(row, shown)
        return Found(message.message_id, instant(row[19]), _outbound_item(message), message)
    item = _item_of_session(route, row, shown)
    by_seq = route.key == "m.seq"
    return Found(row[8] if by_seq else row[0], instant(row[1]), item)


def _date_by_arrival(found: Sequence[Found], ended_at: datetime | None) -> None:
    """What came in late with an old date stands where it came in: never before what stands below it."""
    earliest = ended_at
    for each in reversed(found):
        earliest = each.at = each.at if earliest is None else max(each.at, earliest)


def _outbound_item(message: MessageItem) -> LogItem:
    return LogItem(
        pipe="outbound",
        id=message.message_id,
        created_at=message.created_at,
        status=message.status,
        attempt_count=message.attempt_count,
        next_attempt_at=message.next_attempt_at,
        error=message.error_message,
        summary=message.subject,
        tenant_id=message.tenant_id,
        channel=message.channel,
        to_address=message.to_address,
        provider=message.provider,
        category=message.category,
        priority=message.priority,
        tags=message.tags,
    )


def _item_of_session(route: Route, row: Row, shown: Shown) -> LogItem:
    row_id, created_at, status, attempts, due, error, summary, session_id, seq, origin, kind = row
    next_at = instant_or_none(due)
    return LogItem(
        pipe=route.pipe,
        id=str(row_id),
        created_at=shown(instant(created_at)),
        status=status,
        attempt_count=attempts,
        next_attempt_at=None if next_at is None else shown(next_at),
        error=error,
        summary=None if summary is None else on_one_line(summary),
        session_id=session_id,
        seq=seq,
        origin=origin,
        type=kind,
    )


def _beyond(route: Route) -> Place:
    return AFTER_ALL if route.pipe == "outbound" else _LARGEST


def _within(route: Route) -> str:
    return f" AND {route.within}" if route.within else ""


def _order(route: Route) -> str:
    return route.order or f"{route.key} DESC"


def _select(route: Route) -> Query:
    return _query(
        f"SELECT {_COLUMNS[route.pipe]} FROM {route.table} {route.join} "
        f"WHERE {route.key} < :before AND {route.key} >= :floor{_within(route)}{route.conditions.sql} "
        f"ORDER BY {_order(route)} LIMIT :limit"
    )


def _floor(route: Route) -> Query:
    """Where a stretch ends, and how old what stands there is: keys alone until then."""
    ends = (
        f"FROM {route.table} WHERE {route.key} < :before{_within(route)} "
        f"ORDER BY {_order(route)} LIMIT {_ASKED_FOR_THEIR_AGE} OFFSET :window"
    )
    if route.pipe != "outbound":
        return _query(f"SELECT {route.key}, m.created_at {ends}")
    return _query(
        f"SELECT ends.message_id, dated.created_at FROM (SELECT {route.key} AS message_id {ends}) AS ends "
        "CROSS JOIN message_history dated WHERE dated.message_id = ends.message_id ORDER BY ends.message_id DESC"
    )


@lru_cache(maxsize=1024)
def _query(text: str) -> Query:
    (query,) = parse_queries(f"-- name: log\n{text}\n")
    return query
