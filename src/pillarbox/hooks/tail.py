"""Following what was delivered, on whatever node."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from typing import NamedTuple

from pillarbox.engine import Bell
from pillarbox.hooks.model import HookEvent, read_payload
from pillarbox.hooks.strands import queries
from pillarbox.storage import UNREADABLE, Database, Row, Step, is_intact, legible

# A commit may become visible this much later than the instant it carries.
_OVERLAP = timedelta(seconds=3)
_LOOK_EVERY = 1.0
_MOST_IDS = 20_000
_MOST_AT_ONCE = 20


class _Page(NamedTuple):
    """What was delivered from some time on, as far as its time can be read; and whether there is more behind it."""

    ids: list[tuple[int, datetime]]
    goes_on: bool


class Tail:
    """One follower's place in the stream of delivered events."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._since = database.clock.now()
        self._from = self._since
        self._seen: dict[int, datetime] = {}
        self._bell = Bell()

    def ring(self) -> None:
        """Something was delivered; from any thread."""
        self._bell.ring_from_thread()

    async def begin(self, last_id: int | None) -> None:
        """Start with what comes now, or behind an event that was seen before."""
        since = self._since
        if last_id is not None:
            record = await self._database.read(lambda: _delivered_at(last_id))
            since = record or since
        for row_id, at in (await self._page(since - _OVERLAP)).ids:
            if last_id is None or at < since or (at == since and row_id <= last_id):
                self._seen[row_id] = at
        self._since = self._from = since

    async def events(self) -> AsyncGenerator[HookEvent | None, None]:
        """Every event delivered from now on, about once; None now and then while there is none."""
        while True:
            self._bell.clear()
            page = await self._page(self._from)
            fresh = [(row_id, at) for row_id, at in page.ids if row_id not in self._seen]
            for start in range(0, len(fresh), _MOST_AT_ONCE):
                ids = [row_id for row_id, _ in fresh[start : start + _MOST_AT_ONCE]]
                for event in await self._database.read(lambda ids=ids: _read(ids)):  # type: ignore[misc]
                    yield event
            self._remember(fresh)
            self._from = page.ids[-1][1] if page.goes_on else self._since - _OVERLAP
            if not fresh and not page.goes_on:
                yield None
                await self._bell.wait(_LOOK_EVERY)

    async def _page(self, since: datetime) -> _Page:
        def work() -> Step[list[Row]]:
            return (yield queries.delivered_since(since=since, limit=_MOST_IDS))

        rows = await self._database.read(work)
        # What was not delivered yet has a time that was damaged, and would have to be waited for.
        latest = self._database.clock.now() + _OVERLAP
        ids = [(row_id, at) for row_id, value in rows if (at := legible(value)) <= latest]
        return _Page(ids, goes_on=bool(ids) and len(rows) == _MOST_IDS)

    def _remember(self, fresh: list[tuple[int, datetime]]) -> None:
        self._seen |= dict(fresh)
        self._since = max([self._since, *(at for _, at in fresh)])
        oldest = self._since - 2 * _OVERLAP
        self._seen = {row_id: at for row_id, at in self._seen.items() if at >= oldest}


def _delivered_at(row_id: int) -> Step[datetime | None]:
    rows = yield queries.get(id=row_id)
    at = legible(rows[0][8]) if rows and rows[0][8] is not None else UNREADABLE
    return None if at is UNREADABLE else at


def _read(ids: list[int]) -> Step[list[HookEvent]]:
    """In the order they were processed, those of one session that were closed together by their `seq`; none that was damaged."""
    rows = yield queries.delivered(ids=ids)
    return [
        HookEvent(row[0], row[1], row[2], read_payload(row[3]) or {}, row[4])
        for row in rows
        if is_intact(row[5], row[1], row[2], row[3])
    ]
