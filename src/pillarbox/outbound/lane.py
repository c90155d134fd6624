"""The outbound queue as the engine sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from pillarbox.clock import Clock
from pillarbox.engine import Batch, Lease, Room, Settlement, Skipped, Standby, Strand, Turn
from pillarbox.outbound import settling
from pillarbox.outbound.attempt import Parcel
from pillarbox.outbound.candidates import (
    Candidate,
    ReadyTenant,
    Walk,
    candidate,
    counted,
    failed_among,
    in_turns,
    opted_out_among,
    overtaken,
    ready_tenant,
    where_to_go_on,
    within_caps,
)
from pillarbox.outbound.model import Channel
from pillarbox.outbound.parcels import bare_strand, candidate_of, strand
from pillarbox.outbound.passing import PassedOver
from pillarbox.outbound.settling import Ending
from pillarbox.outbound.taking import keep_hidden, take
from pillarbox.storage import (
    Database,
    Row,
    Statement,
    Step,
    cut_overlong,
    is_legible,
    legible,
    load_queries,
    together,
)

queries = load_queries("pillarbox.outbound")

_MOST_AT_ONCE = 500
_MOST_PROMOTED = 1000
_MOST_TENANTS = 64
_MOST_FRUITLESS = 16
_MOST_BEGUN = 256
_INSTEAD_OF_DAMAGED = 16

Held = Settlement[Parcel]


class OutboundLane:
    """Claims messages tenant by tenant; every later write is fenced by the message's token.

    No send begins to a contact whose opt-out was acknowledged: the claim holds its tenants against opt-outs, and reads those
    that there are in a later statement; and so does the begin of a send that comes long after its claim.
    """

    def __init__(self, database: Database, *, default_rate: int, failed: Callable[[Candidate, Ending], None]) -> None:
        self._database = database
        self._default_rate = default_rate
        self._tell_of_failed = failed
        self._failed: list[tuple[Candidate, Ending]] = []
        self._passed_over = PassedOver()
        self._after = ""
        self._pruned_up_to = ""
        self._fruitless = 0
        self._ready_again: datetime | None = None
        # A provider that is slow to begin has many such messages at once.
        self._begins: Batch[tuple[Parcel, datetime], bool] = Batch(self._begin_set, most=_MOST_BEGUN, at_once=2)

    def apart(self, settlements: Sequence[Held]) -> bool:
        """Whether these can be settled in one transaction while more is claimed in another: not if somebody was unsubscribed,
        to whom something may wait."""
        return self._database.many_writers and not settling.unsubscribed(settlements)

    async def claim(self, lease: Lease, *, room: Room, now: datetime) -> Sequence[Strand[Parcel]]:
        return (await self.turn((), lease, room=room, now=now)).claimed

    async def settle(self, settlements: Sequence[Held], *, now: datetime) -> Sequence[Held]:
        lost = await self._database.write(lambda: settling.settle(queries, settlements, now))
        self._database.ring()
        return lost

    async def turn(self, settlements: Sequence[Held], lease: Lease, *, room: Room, now: datetime) -> Turn[Parcel]:
        if settling.unsubscribed(settlements):
            # By itself: it holds tenants that another node's claim may share while it holds some that this one would.
            lost = await self._database.write(lambda: settling.settle(queries, settlements, now))
            return Turn((await self.turn((), lease, room=room, now=now)).claimed if room.slots > 0 else [], lost)

        def work() -> Step[Turn[Parcel]]:
            lost = yield from settling.settle(queries, settlements, now)
            claimed = (yield from self._claim(lease, room, now)) if room.slots > 0 else []
            return Turn(claimed, lost)

        turn = await self._database.write(work)
        self._tell()
        return turn

    def renew(self, strands: Sequence[Strand[Parcel]], lease: Lease, *, now: datetime) -> Sequence[Strand[Parcel]]:
        def work() -> Step[list[Strand[Parcel]]]:
            kept = yield queries.renew(rows=_names(strands), lease_until=now + lease.length)
            return _among(strands, kept)

        return self._database.write_blocking(work)

    def held(self, strands: Sequence[Strand[Parcel]]) -> Sequence[Strand[Parcel]]:
        def work() -> Step[list[Strand[Parcel]]]:
            return _among(strands, (yield queries.held(rows=_names(strands))))

        return self._database.read_blocking(work)

    def stand_by(self, lease: Lease, *, room: Room, ready: Callable[[], None]) -> Standby[Parcel] | None:
        clock = self._database.clock

        def work() -> Step[Turn[Parcel]]:
            since = clock.monotonic()
            return Turn((yield from self._claim(lease, room, clock.now())), (), since)

        return self._database.stand_by("outbound", work, ready=ready)

    async def held_by(self, lease: Lease) -> Sequence[Strand[Parcel]]:
        def work() -> Step[list[Strand[Parcel]]]:
            return [bare_strand(*row) for row in self._passed_over.by_id((yield queries.held_by(holder=lease.holder)))]

        return await self._database.read(work)

    async def release(self, strands: Sequence[Strand[Parcel]], *, now: datetime) -> None:
        await self.settle(
            [Settlement(each, row, Skipped("", at=now)) for each in strands for row in each.rows], now=now
        )

    async def retire(self, lease: Lease) -> Sequence[Strand[Parcel]]:
        """Nothing is claimed that nobody asked for."""
        return ()

    async def begin(self, parcel: Parcel, now: datetime) -> bool:
        """Mark a message that we hold as about to be sent, as if it were claimed now; whether it may still be sent."""
        return await self._begins.add((parcel, now))

    async def next_due(self, *, now: datetime) -> datetime | None:
        ready_again = self._ready_again
        self._tell()

        def work() -> Step[datetime | None]:
            *found, ((ready,),) = yield from together(
                queries.earliest_due(), queries.earliest_lease(), queries.earliest_expiry(), queries.any_ready()
            )
            due = [legible(at) for rows in found for (at,) in rows]
            if ready:
                due.append(ready_again or now)
            return min(due, default=None)

        return await self._database.read(work)

    async def prune(self, *, before: datetime, limit: int = settling.STRETCH) -> int:
        return (await self.prune_by_channel(lambda channel: before, latest=before, keys=before, limit=limit))[0]

    async def prune_by_channel(
        self,
        before: Callable[[Channel], datetime],
        *,
        latest: datetime,
        keys: datetime,
        limit: int = settling.STRETCH,
    ) -> tuple[int, bool]:
        """Delete what ended before its channel's time in the next stretch of the history, and idempotency keys before theirs;
        how many messages, and whether there may be more. None that came in after `latest` can be old enough."""
        work = partial(settling.prune, queries, self._pruned_up_to, before, latest, limit)
        deleted, further = await self._database.write(work)
        forgotten = await self._database.write(partial(settling.prune_keys, queries, keys, limit))
        self._pruned_up_to = further or ""
        return deleted, further is not None or forgotten == limit

    async def bury(self, is_dead: Callable[[str], bool], *, now: datetime) -> bool:
        """End the leases of holders that are known to have died, without waiting; whether there were any."""

        def look() -> Step[list[str]]:
            return [holder for (holder,) in (yield queries.holders()) if is_legible(holder) and is_dead(holder)]

        def end() -> Step[None]:
            yield queries.end_leases(holders=dead, now=now)

        dead = await self._database.read(look)
        if dead:
            await self._database.write(end)
        return bool(dead)

    async def straighten(self, *, clock: Clock, lease: timedelta) -> None:
        """Cut leases that a clock which was set back has made too long."""
        await self._database.write(partial(cut_overlong, queries, clock, lease))

    async def _begin_set(self, items: Sequence[tuple[Parcel, datetime]]) -> list[bool]:
        parcels = {parcel.id: parcel for parcel, _ in items}
        tenants = sorted({parcel.tenant_id for parcel in parcels.values()})
        contacts = sorted({(parcel.tenant_id, contact) for parcel in parcels.values() for contact in parcel.contacts})

        latest = max(now for _, now in items)

        def work() -> Step[list[bool]]:
            yield queries.hold_against_opt_outs(tenant_ids=tenants)
            opted = yield queries.opted_out(rows=contacts)
            refused = opted_out_among([candidate_of(parcel) for parcel in parcels.values()], opted)
            rows = sorted({(parcel.id, parcel.token) for parcel, _ in items if parcel.id not in refused})
            begun = {message_id for (message_id,) in ((yield queries.begin(rows=rows, now=latest)) if rows else ())}
            return [parcel.id in begun for parcel, _ in items]

        return await self._database.write(work)

    def _claim(self, lease: Lease, room: Room, now: datetime) -> Step[list[Strand[Parcel]]]:
        """Rescue, expire, promote; then the most urgent of each tenant in turn."""
        self._failed = []
        walk = yield from self._walk(now)
        open_to = [each for each in walk.tenants if each.tenant_id not in room.full and each.free_at <= now]
        chosen = open_to[: room.slots]
        self._after = where_to_go_on(walk, open_to, chosen, room.slots)
        claimed, unsent = (yield from self._claim_for(chosen, lease, room, now)) if chosen else ([], 0)
        self._note_when_to_look(walk, progress=bool(claimed or unsent), unseen=len(open_to) > len(chosen), now=now)
        return claimed

    def _walk(self, now: datetime) -> Step[Walk]:
        """Some tenants that have something ready, from where the last look ended, and round from the first again."""
        after = self._after
        overdue, expired, _, found = yield from together(
            queries.overdue(now=now, limit=_MOST_AT_ONCE),
            queries.expired(now=now, limit=_MOST_AT_ONCE),
            queries.promote(now=now, limit=_MOST_PROMOTED),
            self._ready_tenants(after, _MOST_TENANTS),
        )
        if overdue := self._passed_over.by_id(overdue):
            yield from settling.rescue(queries, overdue, now)
            # What is given back may have expired while it was held.
            expired = yield queries.expired(now=now, limit=_MOST_AT_ONCE)
        if expired := self._passed_over.by_id(expired):
            yield from settling.expire(queries, [message_id for (message_id,) in expired], now)
        if overdue or expired:
            found = yield self._ready_tenants(after, _MOST_TENANTS)
        left = _MOST_TENANTS - len(found)
        whole = left > 0
        if after and left:
            again = yield self._ready_tenants("", left)
            before = [row for row in again if row[0] <= after]
            whole = len(before) < left
            found = [*found, *before]
        return Walk([ready_tenant(*row, now=now) for row in found], whole)

    def _ready_tenants(self, after: str, steps: int) -> Statement:
        walk: Statement = queries.ready_tenants(after=after, steps=steps, default_rate=self._default_rate)
        return walk

    def _note_when_to_look(self, walk: Walk, *, progress: bool, unseen: bool, now: datetime) -> None:
        """When what is ready is worth another look: at once while there is progress, or tenants that were not looked at."""
        self._fruitless = 0 if progress or walk.whole else self._fruitless + 1
        if progress or unseen or 0 < self._fruitless < _MOST_FRUITLESS:
            self._ready_again = None
        else:
            self._fruitless = 0
            capped = [each.free_at for each in walk.tenants if each.free_at > now]
            self._ready_again = min(capped, default=now)

    def _claim_for(
        self, chosen: Sequence[ReadyTenant], lease: Lease, room: Room, now: datetime
    ) -> Step[tuple[list[Strand[Parcel]], int]]:
        """What goes out for these tenants now, and how many messages ended unsent or were put off instead."""
        names, most = [each.tenant_id for each in chosen], -(-room.slots // len(chosen))
        shared, capped, rows = yield from together(
            queries.share_tenants(tenant_ids=names, default_rate=self._default_rate),
            queries.hold_capped_tenants(tenant_ids=names, default_rate=self._default_rate),
            queries.ready(tenant_ids=names, each=most),
        )
        found = self._passed_over.by_tenant(rows)
        if len(found) < len(rows):
            rows = yield queries.ready(tenant_ids=names, each=most + _INSTEAD_OF_DAMAGED)
            found = self._passed_over.by_tenant(rows)
        candidates = in_turns([candidate(*row[:-1]) for row in found], names)
        gone = {each.tenant_id for each in chosen if not each.known}
        hidden = (yield from keep_hidden(queries, candidates, gone, now)) if gone else []
        candidates = [each for each in candidates if each not in hidden] if hidden else candidates
        unsent = overtaken(candidates, gone, now)
        sendable = [each for each in candidates if each.message_id not in unsent] if unsent else candidates
        fitting = within_caps(sendable, {row[0] for row in shared}, capped, now)
        places, _ = room.admit([each.tenant_id for each in fitting])
        admitted = [fitting[place] for place in places]
        taken, refused = (yield from take(queries, admitted, lease, now)) if admitted else ({}, {})
        unsent |= refused
        going = [each for each in admitted if each.message_id in taken]
        closing = settling.closing(queries, unsent, now) if unsent else []
        spent = counted(going, capped, now)
        counting = [queries.count_sends(rows=spent)] if spent else []
        if closing or counting:
            yield from together(*closing, *counting)
            self._failed = failed_among(candidates, unsent)
        ways = {row[0]: (row[1], row[2]) for row in (*shared, *capped)}
        strands = [strand(each, *taken[each.message_id], *ways[each.tenant_id], now) for each in going]
        return strands, len(unsent) + len(hidden)

    def _tell(self) -> None:
        failed, self._failed = self._failed, []
        for each in failed:
            self._tell_of_failed(*each)


def _names(strands: Sequence[Strand[Parcel]]) -> list[tuple[str, int]]:
    return [(strand.key, strand.token) for strand in strands]


def _among(strands: Sequence[Strand[Parcel]], rows: Sequence[Row]) -> list[Strand[Parcel]]:
    kept = {(key, token) for key, token in rows}
    return [strand for strand in strands if (strand.key, strand.token) in kept]
