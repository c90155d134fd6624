"""Where a walk can begin when nothing newer than an instant is wanted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from pillarbox.filters import Filter
from pillarbox.operators import routes
from pillarbox.operators.routes import Heads, Route
from pillarbox.operators.walking import Place
from pillarbox.storage import Step, instant, load_queries
from pillarbox.storage.ids import earliest_id

_queries = load_queries("pillarbox.operators", "seeking.sql")
_LARGEST = 2**63 - 1
_NEAR_ENOUGH = 1000


def start_of(route: Route, at: datetime, shown: Callable[[datetime], datetime]) -> Step[Place | None]:
    """A place behind everything that came in before an instant, or None for the very beginning."""
    if route.is_bounded or route.key == "m.seq":
        return None
    if route.pipe == "outbound":
        return earliest_id(shown(at))
    look = _queries.inbound_at if route.pipe == "inbound" else _queries.hooks_at
    low, high = 0, _LARGEST
    rows = yield look(id=high)
    if not rows or instant(rows[0][1]) < at:
        return None
    high = int(rows[0][0])
    while high - low > _NEAR_ENOUGH:
        middle = (low + high) // 2
        rows = yield look(id=middle)
        if rows and instant(rows[0][1]) >= at:
            high = int(rows[0][0])
        else:
            low = middle
    return high + 1


def heads_after(part: Filter, after: str) -> Step[Heads]:
    """The next failing sessions of a part of a filter, as many as are looked at together."""
    look = {"inbound": _queries.inbound_heads, "hooks": _queries.hooks_heads}.get(part.only("pipe") or "")
    is_found_otherwise = part.only("session") is not None or part.wanted("id") is not None
    rows = [] if look is None or is_found_otherwise else (yield look(after=after, most=routes.MOST_HEADS))
    return Heads(after, rows[0][0] if rows else None)
