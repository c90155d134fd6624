"""Actions on all that match: counted first, then done in bounded steps that survive whoever does them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

import msgspec

from pillarbox.audit import Act, Audit, actor
from pillarbox.audit.ledger import record
from pillarbox.errors import InvalidInput, NotFound, Unavailable
from pillarbox.filters import Filter, parse_filter
from pillarbox.filters.model import words
from pillarbox.operators.bulk import ACTIONS, Action, Bulk, Deed, fitting
from pillarbox.operators.log import MOST_COUNTED, Log
from pillarbox.operators.model import Count, LogItem
from pillarbox.operators.routes import Heads
from pillarbox.operators.seeking import heads_after
from pillarbox.process import is_dead
from pillarbox.storage import Database, Row, Step, instant, instant_or_none, load_queries
from pillarbox.storage.ids import AFTER_ALL, earliest_id, new_id
from pillarbox.telemetry import brief, logger
from pillarbox.text import printable

_queries = load_queries("pillarbox.operators", "operations.sql")
log = logger(__name__)

State = Literal["running", "done", "stopped"]
_LEASE = timedelta(seconds=30)
_AT_ONCE = 50
_MOST_WAITING = 100


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """An action on all that matched a filter, and how far it has come.

    `total` was counted when it began, and is a lower bound where it is not `exact`. `refusals` counts the reasons why messages
    stayed as they were: most changed by themselves meanwhile.
    """

    operation_id: str
    action: Action
    filter: str
    who: str | None
    state: State
    total: int
    exact: bool
    done: int
    refused: int
    refusals: dict[str, int]
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None


class Operations:
    """Begins actions on all that match, and carries them out wherever a process has time for it."""

    def __init__(self, database: Database, log: Log, bulk: Bulk, *, holder: str) -> None:
        self._database = database
        self._clock = database.clock
        self._audit = Audit(database)
        self._log = log
        self._bulk = bulk
        self._holder = holder
        self._working: asyncio.Task[None] | None = None

    async def preview(self, action: Action, wanted: Filter) -> Count:
        """How many an action would be done to; what matches and cannot be acted on so is not counted."""
        matching, exact = 0, True
        for part in fitting(_checked(action), wanted):
            count = await self._log.count(part)
            matching, exact = matching + count.matching, exact and count.exact
        return Count(min(matching, MOST_COUNTED), exact and matching <= MOST_COUNTED)

    async def start(self, action: Action, wanted: Filter) -> Operation:
        """Begin an action on all that match now; it goes on by itself, here or on another node, and after a restart."""
        count = await self.preview(action, wanted)
        kept = str(self._log.without_addresses(wanted))
        # It is read again at every step, and is longer than what was asked for: an address became a hash.
        parse_filter(kept)
        operation_id, now, who = new_id(), self._clock.now(), actor()

        def work() -> Step[Row]:
            yield _queries.insert(
                operation_id=operation_id,
                action=action,
                filter=kept,
                who=who,
                total=count.matching,
                exact=int(count.exact),
                now=now,
            )
            rows: list[Row] = yield _queries.get(operation_id=operation_id)
            return rows[0]

        row = await self._audit.write(Act(f"{action}.all", "operation", operation_id, wanted.only("tenant")), work)
        self.kick()
        return self._operation(row)

    async def get(self, operation_id: str) -> Operation:
        def work() -> Step[list[Row]]:
            return (yield _queries.get(operation_id=operation_id))

        rows = await self._database.read(work)
        if not rows:
            raise _unknown(operation_id)
        return self._operation(rows[0])

    async def list(self, *, limit: int = 100, before: str = "") -> list[Operation]:
        """Operations, the newest first."""

        def work() -> Step[list[Row]]:
            return (yield _queries.list(before=before or AFTER_ALL, limit=limit))

        return [self._operation(row) for row in await self._database.read(work)]

    async def stop(self, operation_id: str) -> Operation:
        """End an operation where it is: what was done stays done, and nothing more is."""
        tenant = parse_filter((await self.get(operation_id)).filter).only("tenant")
        now = self._clock.now()

        def work() -> Step[None]:
            yield _queries.stop(operation_id=operation_id, now=now)

        await self._audit.write(Act("stop", "operation", operation_id, tenant), work)
        return await self.get(operation_id)

    def kick(self) -> None:
        """Begin to work on what waits, in the background."""
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())

    async def step_all(self) -> bool:
        """Carry out every operation that nobody holds; a chore of every node, so that a restart loses none."""
        await self._bury()
        for operation_id in await self._waiting():
            try:
                await self.finish(operation_id)
            except Unavailable:
                raise
            except Exception as error:
                log.error("an operation failed; the others go on", operation_id=operation_id, error=brief(error))
        return False

    async def finish(self, operation_id: str) -> Operation:
        """Carry an operation out to its end, unless somebody else does."""
        taken = await self._take(operation_id)
        if taken is not None:
            try:
                while await self._step(taken):
                    taken = await self._again(taken)
            finally:
                await self._let_go(taken)
        return await self.get(operation_id)

    async def prune(self, retention: timedelta) -> None:
        """Forget operations that ended long ago."""
        before = earliest_id(self._clock.shown(self._clock.now() - retention))

        def work() -> Step[None]:
            yield _queries.prune(before=before, limit=_MOST_WAITING)

        await self._database.write(work)

    async def close(self) -> None:
        """Stop working; what is not done is done by whoever comes next."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait([self._working])

    async def _work(self) -> None:
        try:
            await self.step_all()
        except Unavailable as error:
            log.warning("an operation on many messages waits for the database", error=brief(error))

    async def _waiting(self) -> Sequence[str]:
        now = self._clock.now()

        def work() -> Step[list[str]]:
            return [row[0] for row in (yield _queries.waiting(now=now, limit=_MOST_WAITING))]

        return await self._database.read(work)

    async def _bury(self) -> None:
        """Take over at once from processes of this machine that have died."""
        now = self._clock.now()

        def look() -> Step[list[str]]:
            return [holder for (holder,) in (yield _queries.holders(now=now)) if is_dead(holder)]

        def end() -> Step[None]:
            yield _queries.end_leases(holders=dead, now=now)

        dead = await self._database.read(look)
        if dead:
            await self._database.write(end)

    async def _take(self, operation_id: str) -> Row | None:
        now = self._clock.now()

        def work() -> Step[list[Row]]:
            return (
                yield _queries.take(operation_id=operation_id, holder=self._holder, lease_until=now + _LEASE, now=now)
            )

        rows = await self._database.write(work)
        return rows[0] if rows else None

    async def _again(self, taken: Row) -> Row:
        def work() -> Step[list[Row]]:
            return (yield _queries.get(operation_id=taken[0]))

        rows = await self._database.read(work)
        return (*rows[0][:-1], taken[-1])

    async def _step(self, taken: Row) -> bool:
        """The next few messages; whether there may be more."""
        action, reached = taken[1], json.loads(taken[13] or '{"part": 0}')
        parts = fitting(action, parse_filter(taken[2]))
        part, heads = parts[reached["part"]], Heads(*reached.get("heads", ()))
        if "cursor" not in reached:
            heads = await self._database.read(partial(heads_after, part, heads.after))
        wanted = part & words("status", "failed") if heads.after else part
        cursor = reached.get("cursor", "")
        found, following = await self._log.look(wanted, cursor=cursor, limit=_AT_ONCE, heads=heads)
        place: dict[str, Any] | None = {"part": reached["part"], "cursor": following, "heads": heads}
        if following is None and heads.last is not None:
            # There are more failing sessions than are looked at together.
            place = {"part": reached["part"], "heads": [heads.last]}
        elif following is None:
            further = reached["part"] + 1
            place = {"part": further} if further < len(parts) else None
        items = [each.item for each in found]
        deed = await self._database.write(partial(self._advance, taken, items, place, self._clock.now()))
        if deed is not None:
            self._bulk.after(deed)
        return deed is not None and place is not None

    def _advance(
        self, taken: Row, items: Sequence[LogItem], place: dict[str, Any] | None, now: datetime
    ) -> Step[Deed | None]:
        """What is done and how far that is, together: no message is counted twice, whatever crashes."""
        held = yield _queries.hold(operation_id=taken[0], token=taken[-1])
        if not held:
            return None
        done, refused, refusals = held[0]
        deed = yield from self._bulk.act(taken[1], items, now)
        against = deed.refusals
        if taken[3] is not None:
            yield from record(taken[3], deed.acts, now)
        yield _queries.advance(
            operation_id=taken[0],
            done=done + len(items) - against.total(),
            refused=refused + against.total(),
            refusals=json.dumps(Counter(json.loads(refusals)) + against),
            reached=json.dumps(place) if place is not None else "",
            state="done" if place is None else "running",
            ended_at=now if place is None else None,
            lease_until=None if place is None else now + _LEASE,
            now=now,
        )
        return deed

    async def _let_go(self, taken: Row) -> None:
        def work() -> Step[None]:
            yield _queries.let_go(operation_id=taken[0], token=taken[-1])

        try:
            await asyncio.shield(self._database.write(work))
        except Unavailable as error:
            log.warning("an operation on many messages goes on when its lease has ended", error=brief(error))

    def _operation(self, row: Row) -> Operation:
        shown: Callable[[datetime], datetime] = self._clock.shown
        ended_at = instant_or_none(row[12])
        return Operation(
            operation_id=row[0],
            action=row[1],
            filter=row[2],
            who=row[3],
            state=row[4],
            total=row[5],
            exact=bool(row[6]),
            done=row[7],
            refused=row[8],
            refusals=json.loads(row[9]),
            created_at=shown(instant(row[10])),
            updated_at=shown(instant(row[11])),
            ended_at=None if ended_at is None else shown(ended_at),
        )


def _checked(action: str) -> Action:
    for known in ACTIONS:
        if action == known:
            return known
    raise InvalidInput("action", f"must be one of {', '.join(ACTIONS)}.")


def _unknown(operation_id: str) -> NotFound:
    return NotFound(f"There is no operation {printable(operation_id)}; list them to see their ids.")
