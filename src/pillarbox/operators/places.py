"""Cursors of the log: how far each walk has come, bound to the filter that it is for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from pillarbox.errors import InvalidInput
from pillarbox.filters import Filter
from pillarbox.operators.walking import Place

ENDED = False
"""Stands where a walk has come to its end."""

Places = dict[str, Place | bool]
_LARGEST = 2**63


def cursor_of(places: Mapping[str, Place | bool], wanted: Filter) -> str:
    """The places as text that means nothing to callers."""
    return json.dumps([_digest(wanted), dict(places)], separators=(",", ":"))


def places_of(cursor: str, wanted: Filter) -> Places:
    """The places that a cursor tells; none where it is empty."""
    if not cursor:
        return {}
    try:
        digest, places = json.loads(cursor)
    except (TypeError, ValueError, RecursionError):
        raise unknown_cursor() from None
    if digest != _digest(wanted) or not isinstance(places, dict) or not all(map(_is_place, places.values())):
        raise unknown_cursor()
    return places


def _is_place(value: object) -> bool:
    match value:
        case bool():
            return value is ENDED
        case int():
            return 0 <= value < _LARGEST
        case str():
            return len(value) <= 64 and value.isascii() and value.isprintable()
        case _:
            return False


def _digest(wanted: Filter) -> str:
    return hashlib.sha256(str(wanted).encode()).hexdigest()[:16]


def unknown_cursor() -> InvalidInput:
    return InvalidInput("cursor", "must be the next_cursor of an earlier page of the same list with the same filter.")
