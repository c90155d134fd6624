"""Leases on the strands of one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Generic

from pillarbox.engine import Lease, Settlement, Strand
from pillarbox.engine.lease import RowT
from pillarbox.storage import UNREADABLE, Database, Row, Statement, Step, legible, load_queries, together
from pillarbox.strands.passed_over import PassedOver


class StrandLeases(Generic[RowT]):
    """The verbs of a lane that touch nothing but its table of strands."""

    def __init__(self, database: Database, table: str) -> None:
        self._database = database
        self._leases = load_queries("pillarbox.strands", strand=table)
        self._passed_over = PassedOver(table)

    def apart(self, settlements: Sequence[Settlement[RowT]]) -> bool:
        """Whether these can be settled in one transaction while more is claimed in another."""
        return self._database.many_writers

    def renew(self, strands: Sequence[Strand[RowT]], lease: Lease, *, now: datetime) -> Sequence[Strand[RowT]]:
        def work() -> Step[list[Strand[RowT]]]:
            kept = yield self._leases.renew(rows=_names(strands), lease_until=now + lease.length)
            return _among(strands, kept)

        return self._database.write_blocking(work)

    def held(self, strands: Sequence[Strand[RowT]]) -> Sequence[Strand[RowT]]:
        def work() -> Step[list[Strand[RowT]]]:
            return _among(strands, (yield self._leases.held(rows=_names(strands))))

        return self._database.read_blocking(work)

    async def retire(self, lease: Lease) -> Sequence[Strand[RowT]]:
        """Nothing is claimed that nobody asked for."""
        return ()

    async def _earliest(self, *due: Statement) -> datetime | None:
        """When the first lease ends, or the first of these is due; a time that was damaged on disk is none."""

        def work() -> Step[datetime | None]:
            found = yield from together(self._leases.earliest_lease(), *due)
            times = [legible(at) for rows in found for (at,) in rows]
            return min((at for at in times if at is not UNREADABLE), default=None)

        return await self._database.read(work)

    async def bury(self, is_dead: Callable[[str], bool], *, now: datetime) -> bool:
        """End the leases of holders that are known to have died, without waiting; whether there were any."""

        def look() -> Step[list[str]]:
            return [holder for (holder,) in (yield self._leases.holders()) if is_dead(holder)]

        def end() -> Step[None]:
            yield self._leases.end_leases(holders=dead, now=now)

        dead = await self._database.read(look)
        if dead:
            await self._database.write(end)
        return bool(dead)


def _names(strands: Iterable[Strand[RowT]]) -> list[tuple[str, int]]:
    return [(strand.key, strand.token) for strand in strands]


def _among(strands: Iterable[Strand[RowT]], rows: Iterable[Row]) -> list[Strand[RowT]]:
    kept = {(key, token) for key, token in rows}
    return [strand for strand in strands if (strand.key, strand.token) in kept]
