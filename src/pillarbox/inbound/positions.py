"""How far adapters have read at each place of their platforms; it moves in the transaction that stores the message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pillarbox.storage import Database, Step, load_queries

queries = load_queries("pillarbox.inbound", "positions.sql")

_MOST = 100_000


class Position(NamedTuple):
    """All up to this number at this place has been seen."""

    origin: str
    place: str
    number: int


def moving(positions: Iterable[Position]) -> Step[None]:
    """Move on, the furthest of each place, as a step of the transaction that made it so."""
    furthest: dict[tuple[str, str], int] = {}
    for position in positions:
        key = position.origin, position.place
        furthest[key] = max(position.number, furthest.get(key, position.number))
    if furthest:
        yield queries.move(rows=[(*key, furthest[key]) for key in sorted(furthest)])


class Positions:
    """The places of one platform."""

    def __init__(self, database: Database, origin: str) -> None:
        self._database = database
        self._origin = origin

    async def known(self) -> dict[str, int]:
        """How far each place was read."""

        def work() -> Step[dict[str, int]]:
            rows = yield queries.known(origin=self._origin, limit=_MOST)
            return {place: int(number) for place, number in rows}

        return await self._database.read(work)

    async def move(self, place: str, number: int) -> None:
        """Move on where nothing had to be stored."""
        await self._database.write(lambda: moving([Position(self._origin, place, number)]))

    async def forget(self, place: str) -> None:
        """A place that is no longer there."""

        def work() -> Step[None]:
            yield queries.forget(origin=self._origin, place=place)

        await self._database.write(work)
