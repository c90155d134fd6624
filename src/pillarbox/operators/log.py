"""All messages and events in one log, the newest first, at the same price at any depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from functools import partial

from pillarbox.filters import EVERYTHING, Filter, Term, Value
from pillarbox.filters.conditions import needs_tenant
from pillarbox.filters.model import words
from pillarbox.operators.model import Count, LogItem, Stretch
from pillarbox.operators.places import ENDED, Places, cursor_of, places_of, unknown_cursor
from pillarbox.operators.routes import Heads, Route, routes_of
from pillarbox.operators.seeking import start_of
from pillarbox.operators.tail import Changes, Tail
from pillarbox.operators.walking import Found, Place, Walked, walk
from pillarbox.outbound.model import MessageItem
from pillarbox.outbound.pipe import Outbound
from pillarbox.storage import Database, Step

MOST_ROUNDS = 8
MOST_COUNTED = 10_000
_ROUNDS_COUNTED = 200
_COUNTED_AT_ONCE = 1000
# Rows are dated before they are stored, and stored in about that order.
SLACK = timedelta(minutes=5)


class Log:
    """Looks at every pipe through one filter."""

    def __init__(self, database: Database, outbound: Outbound) -> None:
        self._database = database
        self._clock = database.clock
        self._outbound = outbound
        self._tails: set[Tail] = set()

    async def page(self, wanted: Filter = EVERYTHING, *, cursor: str = "", limit: int = 100) -> Stretch[LogItem]:
        """Messages and events that match, from where the page before ended."""
        found, following = await self.look(wanted, cursor=cursor, limit=limit)
        return Stretch([each.item for each in found], following)

    async def messages(
        self, tenant_id: str, wanted: Filter = EVERYTHING, *, cursor: str = "", limit: int = 100
    ) -> Stretch[MessageItem]:
        """One tenant's outbound messages that match, as its own list shows them."""
        scope = words("pipe", "outbound") & (words("tenant", tenant_id) if tenant_id else EVERYTHING)
        found, following = await self.look(scope & wanted, cursor=cursor, limit=limit)
        return Stretch([each.message for each in found if each.message is not None], following)

    async def count(self, wanted: Filter) -> Count:
        """How many match, exactly up to ten thousand of them."""
        matching, cursor, rounds = 0, "", 0
        while rounds < _ROUNDS_COUNTED:
            found, following = await self.look(wanted, cursor=cursor, limit=_COUNTED_AT_ONCE)
            matching += len(found)
            if following is None:
                return Count(min(matching, MOST_COUNTED), matching <= MOST_COUNTED)
            if matching > MOST_COUNTED:
                return Count(MOST_COUNTED, False)
            cursor, rounds = following, rounds + 1
        return Count(matching, False)

    def follow(self, wanted: Filter = EVERYTHING, *, tenant_id: str = "") -> AbstractAsyncContextManager[Changes]:
        """What comes in, changes or no longer matches from now on; None now and then while nothing does."""
        scope = words("pipe", "outbound") & words("tenant", tenant_id) if tenant_id else EVERYTHING
        return Tail(self._database, self._glance, scope & wanted, self._tails).following()

    def without_addresses(self, wanted: Filter) -> Filter:
        """The same filter with recipients as they are kept, fit to be stored."""
        tenant = wanted.only("tenant")
        return Filter(tuple(self._hashed(term, tenant) if term.name == "to" else term for term in wanted.terms))

    def _hashed(self, term: Term, tenant: str | None) -> Term:
        if tenant is None:
            raise needs_tenant()
        hashes = (self._contact_hash(tenant, str(value.content)) for value in term.values)
        return Term("contact", tuple(Value(hashed, hashed) for hashed in hashes), term.negated)

    def heard(self) -> None:
        """Something was committed; from any thread."""
        for tail in tuple(self._tails):
            tail.ring()

    async def look(
        self, wanted: Filter, *, cursor: str, limit: int, rounds: int = MOST_ROUNDS, heads: Heads | None = None
    ) -> tuple[list[Found], str | None]:
        """Matches and the cursor of the next page, out of a bounded number of stretches of each walk."""
        places = places_of(cursor, wanted)
        now = self._clock.now()
        routes = routes_of(wanted, now=now, contact_hash=self._contact_hash, heads=heads)
        found: list[Found] = []
        while rounds and len(found) < limit:
            left = limit - len(found)
            routes = [route for route in routes if places.get(route.name) is not ENDED]
            if not routes:
                break
            work = partial(self._round, routes, places, wanted, left, now)
            more, places = await self._database.read(work)
            found += more
            rounds -= 1
        over = all(places.get(route.name) is ENDED for route in routes)
        return found, None if over else cursor_of(places, wanted)

    async def _glance(self, wanted: Filter, cursor: str, limit: int) -> tuple[list[Found], str | None]:
        return await self.look(wanted, cursor=cursor, limit=limit, rounds=1)

    def _contact_hash(self, tenant_id: str, address: str) -> str:
        return self._outbound.contact_hash(tenant_id, "", address)

    def _round(
        self, routes: Sequence[Route], places: Places, wanted: Filter, limit: int, now: datetime
    ) -> Step[tuple[list[Found], Places]]:
        """One stretch of every walk, merged; what is older than where some walk has come waits for the next round."""
        newest, oldest = _bounds(wanted, now)
        walks: dict[str, Walked] = {}
        for route in routes:
            place = _place(places, route)
            if place is None and newest is not None:
                place = yield from start_of(route, newest + SLACK, self._clock.shown)
            bound = None if oldest is None else oldest - SLACK
            walks[route.name] = yield from walk(route, place, limit=limit, oldest=bound, shown=self._clock.shown)
        return merged(walks, places, limit)


def merged(walks: Mapping[str, Walked], before: Places, limit: int) -> tuple[list[Found], Places]:
    """The newest of several walks, up to where all of them have looked, and how far each has come by that."""
    places = dict(before)
    barrier = max((walked.reached[1] for walked in walks.values() if walked.reached is not None), default=None)
    every = [(each, name) for name, walked in walks.items() for each in walked.found]
    every.sort(key=lambda pair: pair[0].at, reverse=True)
    fitting = [(each, name) for each, name in every if barrier is None or each.at >= barrier][:limit]
    taken = dict.fromkeys(walks, 0)
    for _, name in fitting:
        taken[name] += 1
    for name, walked in walks.items():
        if taken[name] < len(walked.found):
            if taken[name]:
                places[name] = walked.found[taken[name] - 1].place
        elif walked.reached is None:
            places[name] = ENDED
        else:
            places[name] = walked.reached[0]
    return [each for each, _ in fitting], places


def _place(places: Places, route: Route) -> Place | None:
    place = places.get(route.name)
    if place is not None and isinstance(place, str) is not (route.pipe == "outbound"):
        raise unknown_cursor()
    return place


def _bounds(wanted: Filter, now: datetime) -> tuple[datetime | None, datetime | None]:
    """The newest and the oldest that can match, by what the filter says of ages."""
    newest: datetime | None = None
    oldest: datetime | None = None
    for term in wanted.terms:
        if term.name == "age" and not term.negated and len(term.values) == 1:
            value = term.values[0]
            assert isinstance(value.content, timedelta)
            edge = now - value.content
            if value.comparison.startswith(">"):
                newest = edge if newest is None else min(newest, edge)
            else:
                oldest = edge if oldest is None else max(oldest, edge)
    return newest, oldest
