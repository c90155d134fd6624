"""The statements that the log asks for a filter, as they are asked of one pipe."""

from datetime import datetime

from pillarbox.filters import parse_filter
from pillarbox.operators.routes import Route, routes_of
from pillarbox.operators.walking import Place, _floor, _select
from pillarbox.storage import Statement


def stretch(text: str, now: datetime, *, before: Place, floor: Place) -> Statement:
    """The matches of one stretch of a filter's first walk."""
    route = _first(text, now)
    params = route.params | route.conditions.params
    return _select(route)(**params, before=before, floor=floor, limit=101)


def end_of_stretch(text: str, now: datetime, *, before: Place) -> Statement:
    """Where that stretch ends."""
    route = _first(text, now)
    return _floor(route)(**route.params, before=before, window=500)


def _first(text: str, now: datetime) -> Route:
    return routes_of(parse_filter(text), now=now, contact_hash=lambda tenant, to: to)[0]
