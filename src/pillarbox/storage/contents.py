"""Whether what waits to be delivered is still what was stored; an operator asks before a delivery does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pillarbox.errors import Unavailable
from pillarbox.storage.checksum import is_intact
from pillarbox.storage.checkup import Finding
from pillarbox.storage.database import Database, Row, Statement, Step
from pillarbox.storage.queries import load_queries
from pillarbox.storage.values import UNREADABLE, legible

_queries = load_queries("pillarbox.storage", "contents.sql")

_MOST = 10_000
_AT_ONCE = 100
_SECONDS = 5.0
_MOST_NAMED = 5
_CREATED, _CHECKSUM = 3, 4

Place = tuple[str, int]


async def check_contents(database: Database) -> Finding:
    """Compare a bounded number of what is open with its checksums; names the ids of what was damaged, never its content."""
    deadline = time.monotonic() + _SECONDS
    looked, whole, damaged = 0, True, list[str]()
    try:
        for pipe, page in _PIPES.items():
            seen, ended, ids = await _check_pipe(database, page, deadline)
            looked, whole = looked + seen, whole and ended
            damaged += (f"{pipe} {each}" for each in ids)
    except Unavailable as error:
        return Finding("contents", False, str(error))
    seen_of = f"{looked} open messages and events" + ("" if whole else ", not all of them")
    if not damaged:
        return Finding("contents", True, f"as they were stored: {seen_of}")
    more = f" and {len(damaged) - _MOST_NAMED} more" if len(damaged) > _MOST_NAMED else ""
    return Finding(
        "contents",
        False,
        f"damaged on disk, and not delivered: {', '.join(damaged[:_MOST_NAMED])}{more} (of {seen_of}); restore a backup with "
        "`pillarbox restore FILE`, or let go of an inbound one with `pillarbox inbound expire ID`.",
    )


async def _check_pipe(
    database: Database, page: Callable[[Place], Statement], deadline: float
) -> tuple[int, bool, list[object]]:
    """How many were looked at, whether those were all, and the ids of the damaged ones."""
    looked, place, damaged = 0, ("", 0), list[object]()
    while looked < _MOST and time.monotonic() < deadline:

        def look(here: Place = place) -> Step[list[Row]]:
            return (yield page(here))

        rows: Sequence[Row] = await database.read(look)
        looked += len(rows)
        damaged += (row[0] for row in rows if not _is_whole(row))
        if len(rows) < _AT_ONCE:
            return looked, True, damaged
        place = (rows[-1][1], rows[-1][2])
    return looked, False, damaged


def _is_whole(row: Row) -> bool:
    return legible(row[_CREATED]) is not UNREADABLE and is_intact(row[_CHECKSUM], *row[_CHECKSUM + 1 :])


_PIPES: dict[str, Callable[[Place], Statement]] = {
    "inbound": lambda place: _queries.inbound(session_id=place[0], seq=place[1], limit=_AT_ONCE),
    "hooks": lambda place: _queries.hooks(session_id=place[0], seq=place[1], limit=_AT_ONCE),
    "outbound": lambda place: _queries.outbound(message_id=place[0], limit=_AT_ONCE),
}
