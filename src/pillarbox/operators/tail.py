"""Following the log: what comes in, and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

from pillarbox.audit.ledger import queries as audit_queries
from pillarbox.engine import Bell
from pillarbox.errors import TooMany
from pillarbox.filters import PIPES, Filter, Pipe
from pillarbox.filters.model import words
from pillarbox.operators.model import Left, LogItem
from pillarbox.operators.walking import Found
from pillarbox.storage import Database, Row, Step

Changes = AsyncIterator[LogItem | Left | None]
Key = tuple[Pipe, str]
Look = Callable[[Filter, str, int], Awaitable[tuple[list[Found], str | None]]]

_MOST_FOLLOWERS = 100
_LOOK_EVERY = 1.0
_REST = 0.1
_PAGE = 200
_MOST_PAGES = 5
_MOST_WATCHED = 300
_MOST_ACTIONS = 300
_MOST_REMEMBERED = 3000
_OPEN = ("pending", "processing", "retrying")


class Tail:
    """One follower: the newest that match, and those seen before which have not ended, looked at again and again.

    Changes of older messages are seen where an operator's action made them, or an attempt under way or waiting when it began.
    Of what was seen and no longer matches it is told that it left.
    """

    def __init__(self, database: Database, look: Look, wanted: Filter, others: set[Tail]) -> None:
        self._database = database
        self._look = look
        self._wanted = wanted
        self._others = others
        self._grows_old = any(term.name == "age" for term in wanted.terms)
        self._seen: dict[Key, LogItem] = {}
        self._last_action = ""
        self._bell = Bell()

    def ring(self) -> None:
        """Something was committed; from any thread."""
        self._bell.ring_from_thread()

    @asynccontextmanager
    async def following(self) -> AsyncIterator[Changes]:
        if len(self._others) >= _MOST_FOLLOWERS:
            raise TooMany(f"{_MOST_FOLLOWERS} others follow the log of this process already; try again later.")
        self._others.add(self)
        try:
            await self._begin()
            async with aclosing(self._changes()) as changes:
                yield changes
        finally:
            self._others.discard(self)

    async def _begin(self) -> None:
        found, _ = await self._look(self._wanted, "", _PAGE)
        open_ones, _ = await self._look(words("status", *_OPEN) & self._wanted, "", _MOST_WATCHED)
        self._differing([*open_ones, *found])
        self._last_action = await self._database.read(_newest_action)

    async def _changes(self) -> AsyncGenerator[LogItem | Left | None, None]:
        while True:
            self._bell.clear()
            changed = await self._step()
            for item in changed:
                yield item
            if not changed:
                yield None
                await self._bell.wait(_LOOK_EVERY)
            await asyncio.sleep(_REST)

    async def _step(self) -> list[LogItem | Left]:
        """What is new or otherwise than it was, the oldest first, and what left."""
        found = await self._newest()
        there = {_key(each.item) for each in found}
        doubtful = self._doubtful(found, there)
        again = dict.fromkeys([*(row_id for _, row_id in doubtful), *(await self._acted_on())])
        if not again:
            return [*self._differing(found)]
        doubtful += [key for pipe in PIPES for row_id in again if (key := (pipe, row_id)) in self._seen]
        found += (await self._look(words("id", *again) & self._wanted, "", len(again) * 2))[0]
        there = {_key(each.item) for each in found}
        left = [key for key in dict.fromkeys(doubtful) if key not in there]
        return [*self._differing(found), *self._leaving(left)]

    async def _newest(self) -> list[Found]:
        """The newest, back to one that was seen before."""
        found: list[Found] = []
        cursor: str | None = ""
        for _ in range(_MOST_PAGES):
            page, cursor = await self._look(self._wanted, cursor or "", _PAGE)
            found += page
            if cursor is None or any(_key(each.item) in self._seen for each in page):
                break
        return found

    def _doubtful(self, found: list[Found], there: set[Key]) -> list[Key]:
        """Those that were seen and may have changed: open ones, and those that should stand among the newest and do not."""
        elsewhere = [(key, item) for key, item in reversed(self._seen.items()) if key not in there]
        watched = [key for key, item in elsewhere if not _has_ended(item)][:_MOST_WATCHED]
        if self._grows_old:
            watched += [key for key, _ in elsewhere[-_MOST_WATCHED:]]
        oldest = min((each.item.created_at for each in found), default=None)
        missing = [key for key, item in elsewhere if oldest is None or item.created_at > oldest][:_MOST_WATCHED]
        return [*watched, *missing]

    async def _acted_on(self) -> list[str]:
        def work() -> Step[list[Row]]:
            return (yield audit_queries.list_since(after=self._last_action, limit=_MOST_ACTIONS))

        rows = await self._database.read(work)
        if rows:
            self._last_action = rows[-1][0]
        return [row[5] for row in rows if row[4] in ("message", "inbound", "event")]

    def _leaving(self, keys: list[Key]) -> list[Left]:
        for key in keys:
            self._seen.pop(key, None)
        return [Left(pipe=pipe, id=row_id) for pipe, row_id in keys]

    def _differing(self, found: list[Found]) -> list[LogItem]:
        """Those that are not as they were, which are now remembered as they are."""
        changed = []
        in_order = sorted(found, key=lambda each: each.at)
        for item in {_key(each.item): each.item for each in in_order}.values():
            before = self._seen.pop(_key(item), None)
            self._seen[_key(item)] = item
            if before is None or (before.status, before.attempt_count) != (item.status, item.attempt_count):
                changed.append(item)
        while len(self._seen) > _MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return changed


def _newest_action() -> Step[str]:
    ((newest,),) = yield audit_queries.newest()
    return newest or ""


def _key(item: LogItem) -> Key:
    return item.pipe, item.id


def _has_ended(item: LogItem) -> bool:
    return item.status not in _OPEN and (item.pipe == "outbound" or item.status != "failed")
