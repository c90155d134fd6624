"""The inbox on SQLite, PostgreSQL and CockroachDB: concurrent callers share statements and transactions."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pillarbox.engine.batch import Batch
from pillarbox.inbox.model import (
    BUSY,
    LEASE_LOST,
    MARKED,
    MISMATCH,
    RELEASED,
    UNKNOWN,
    Begun,
    InboxStatus,
    LeaseAnswer,
    Sighting,
    check_retention,
    differ,
    digest_of,
    result_text,
    result_value,
)
from pillarbox.storage import Database, Row, Statement, Step, instant, instant_or_none, load_queries, together

_queries = load_queries("pillarbox.inbox")

_MOST_TOGETHER = 256
_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class _Begin:
    digest: str
    key: str
    lease_id: str
    lease: timedelta
    owner: str | None
    fingerprint: str | None


@dataclass(frozen=True, slots=True)
class _Hold:
    """A lease that its holder wants to change; `value` is what the verb needs beside its name."""

    digest: str
    lease_id: str
    value: Any = None


class SqlInbox:
    """An `InboxStore` in the database of a box; processed keys are remembered for `retention`."""

    def __init__(self, database: Database, *, retention: timedelta) -> None:
        self._database = database
        self._clock = database.clock
        self._retention = check_retention(retention)
        self._begins: Batch[_Begin, Begun] = Batch(self._begin_set, most=_MOST_TOGETHER, at_once=_AT_ONCE)
        self._extends: Batch[_Hold, LeaseAnswer] = Batch(self._extend_set, most=_MOST_TOGETHER, at_once=_AT_ONCE)
        self._marks: Batch[_Hold, LeaseAnswer] = Batch(self._mark_set, most=_MOST_TOGETHER, at_once=_AT_ONCE)
        self._releases: Batch[_Hold, LeaseAnswer] = Batch(self._release_set, most=_MOST_TOGETHER, at_once=_AT_ONCE)

    async def try_begin(
        self,
        key: str,
        *,
        lease: float,
        owner: str | None = None,
        fingerprint: str | None = None,
        lease_id: str | None = None,
    ) -> Begun:
        name = lease_id or uuid.uuid4().hex
        return await self._begins.add(_Begin(digest_of(key), key, name, timedelta(seconds=lease), owner, fingerprint))

    async def extend(self, key: str, lease_id: str, *, lease: float) -> LeaseAnswer:
        return await self._extends.add(_Hold(digest_of(key), lease_id, timedelta(seconds=lease)))

    async def mark_processed(self, key: str, lease_id: str, *, result: Any = None) -> LeaseAnswer:
        return await self._marks.add(_Hold(digest_of(key), lease_id, result_text(result)))

    async def release(self, key: str, lease_id: str) -> LeaseAnswer:
        return await self._releases.add(_Hold(digest_of(key), lease_id))

    async def look(self, key: str) -> Sighting:
        digest, now = digest_of(key), self._clock.now()

        def work() -> Step[Sighting]:
            rows = yield _queries.look(digest=digest)
            return self._sighting(rows[0], now) if rows else UNKNOWN

        return await self._database.read(work)

    async def status(self) -> InboxStatus:
        """How many keys there are of each kind."""
        now = self._clock.now()

        def work() -> Step[InboxStatus]:
            rows = yield _queries.status(now=now)
            return InboxStatus(*(int(count) for count in rows[0]))

        return await self._database.read(work)

    async def cleanup(self, *, limit: int) -> int:
        """Forget up to `limit` keys whose retention is over, never one whose lease runs; answers how many."""
        before = self._clock.now() - self._retention

        def work() -> Step[int]:
            removed = len((yield _queries.remove_processed(before=before, limit=limit)))
            if removed < limit:
                removed += len((yield _queries.remove_abandoned(before=before, limit=limit - removed)))
            return removed

        return await self._database.write(work)

    async def close(self) -> None:
        """The database is its owner's to close."""

    async def _begin_set(self, items: Sequence[_Begin]) -> Sequence[Begun | Exception]:
        now = self._clock.now()
        rounds = _rounds(items)

        def work() -> Step[list[list[Row]]]:
            statements = [_queries.begin(rows=[_begin_row(item, now) for item in set_], now=now) for set_ in rounds]
            return (yield from together(*statements))

        found = await self._database.write_new(work)
        answers: dict[int, Begun] = {}
        for set_, rows in zip(rounds, found, strict=True):
            by_digest = {row[0]: row for row in rows}
            answers |= {id(item): self._begun(item, by_digest[item.digest]) for item in set_}
        return [answers[id(item)] for item in items]

    async def _extend_set(self, items: Sequence[_Hold]) -> Sequence[LeaseAnswer | Exception]:
        now = self._clock.now()
        rows = [(item.digest, item.lease_id, now + item.value, now) for item in items]
        found = await self._change(items, _queries.extend(rows=rows))
        until = {(digest, lease_id): instant(lease_until) for digest, lease_id, lease_until in found}
        return [
            LeaseAnswer("Extended", self._clock.shown(end))
            if (end := until.get((item.digest, item.lease_id)))
            else LEASE_LOST
            for item in items
        ]

    async def _mark_set(self, items: Sequence[_Hold]) -> Sequence[LeaseAnswer | Exception]:
        rows = [(item.digest, item.lease_id, item.value) for item in items]
        return _settled(items, await self._change(items, _queries.mark(rows=rows, now=self._clock.now())), MARKED)

    async def _release_set(self, items: Sequence[_Hold]) -> Sequence[LeaseAnswer | Exception]:
        rows = [(item.digest, item.lease_id) for item in items]
        return _settled(items, await self._change(items, _queries.release(rows=rows)), RELEASED)

    async def _change(self, items: Sequence[_Hold], change: Statement) -> list[Row]:
        digests = sorted({item.digest for item in items})

        def work() -> Step[list[Row]]:
            _, changed = yield from together(_queries.hold(digests=digests), change)
            return changed

        return await self._database.write(work)

    def _begun(self, item: _Begin, row: Row) -> Begun:
        _, status, lease_id, lease_until, fingerprint, result = row
        if status != "free" and differ(fingerprint, item.fingerprint):
            return MISMATCH
        if status == "leased" and lease_id == item.lease_id:
            return Begun("Acquired", lease_id, self._clock.shown(instant(lease_until)))
        return Begun("Processed", result=result_value(result)) if status == "processed" else BUSY

    def _sighting(self, row: Row, now: datetime) -> Sighting:
        status, attempts, first_seen, last_seen, lease_until = row
        first, last = (self._clock.shown(instant(seen)) for seen in (first_seen, last_seen))
        until = instant_or_none(lease_until)
        if until is not None and until > now:
            return Sighting("Leased", attempts, first, last, self._clock.shown(until))
        return Sighting("Processed" if status == "processed" else "Free", attempts, first, last)


def _rounds(items: Sequence[_Begin]) -> list[list[_Begin]]:
    """Sets in which no key occurs twice, which PostgreSQL refuses, each in the order of the digests, against deadlocks."""
    rounds: list[list[_Begin]] = []
    seen: dict[str, int] = defaultdict(int)
    for item in sorted(items, key=lambda each: each.digest):
        turn = seen[item.digest]
        seen[item.digest] += 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(item)
    return rounds


def _begin_row(item: _Begin, now: datetime) -> tuple[object, ...]:
    return item.digest, item.key, item.lease_id, item.owner, now + item.lease, item.fingerprint


def _settled(items: Sequence[_Hold], changed: list[Row], answer: LeaseAnswer) -> list[LeaseAnswer]:
    done = {(digest, lease_id) for digest, lease_id in changed}
    return [answer if (item.digest, item.lease_id) in done else LEASE_LOST for item in items]
