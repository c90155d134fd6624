"""Strands that were damaged on disk: passed over, so that the others go on, and told of once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from operator import itemgetter

from pillarbox.storage import DAMAGED, Row, is_legible
from pillarbox.telemetry import logger

log = logger(__name__)

_MOST = 1000
_INTEGERS = {int}
_SESSION = itemgetter(0)


class PassedOver:
    """Those of one table, as this process has come across them; a row of a strand begins with its session."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._told: set[str] = set()

    @property
    def count(self) -> int:
        """How many may stand in front of others: a look has to reach so much further."""
        return len(self._told)

    def legible(self, rows: list[Row]) -> list[Row]:
        """Those whose session can be read."""
        if all(map(is_legible, map(_SESSION, rows))):
            return rows
        return self._without([row for row in rows if not is_legible(row[0])], rows)

    def sound(self, rows: list[Row], *places: int) -> list[Row]:
        """Likewise, and with nothing but whole numbers in these places."""
        numbers: Callable[[Row], tuple[object, ...]] = itemgetter(*places)
        # All at once, for every claim asks, and hardly ever is there anything.
        if set(map(type, chain.from_iterable(map(numbers, rows)))) <= _INTEGERS:
            return self.legible(rows)
        spoilt = [row for row in rows if set(map(type, numbers(row))) != _INTEGERS or not is_legible(row[0])]
        return self._without(spoilt, rows)

    def _without(self, spoilt: list[Row], rows: list[Row]) -> list[Row]:
        if not spoilt:
            return rows
        for row in spoilt:
            self._tell(str(row[0]))
        return [row for row in rows if row not in spoilt]

    def _tell(self, session_id: str) -> None:
        if session_id not in self._told and len(self._told) < _MOST:
            self._told.add(session_id)
            log.error("a session is passed over", table=self._table, session_id=session_id, hint=DAMAGED)
