"""The outbound queue as the engine sees it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

import uuid_utils

from pillarbox.engine import Lease, Room, Settlement, Skipped, Strand, Turn
from pillarbox.outbound import settling
from pillarbox.outbound.attempt import Parcel, parcel_from
from pillarbox.outbound.rates import Cap, allowance, next_free, used
from pillarbox.storage import Database, Row, Statement, Step, instant, instant_or_none, load_queries, together

_MESSAGE = """h.message_id, h.tenant_id, h.channel, h.to_address, h.subject,
    CASE WHEN q.state = 'sending' THEN 'processing' ELSE h.status END,
    CASE WHEN q.state = 'sending' THEN q.attempt_count ELSE h.attempt_count END,
    h.max_attempts, h.priority, CASE WHEN q.state = 'sending' THEN NULL ELSE h.next_attempt_at END,
    CASE WHEN q.state = 'sending' THEN q.claimed_at ELSE h.last_attempt_at END,
    h.sent_at, h.delivered_at, h.failed_at, h.error_message, h.provider, h.provider_msg_id, h.category, h.tags,
    h.created_at, h.updated_at"""
# A message as it is read: an attempt that runs is known to the queue alone.
queries = load_queries("pillarbox.outbound", message=_MESSAGE)

_MOST_AT_ONCE = 500
_MOST_PROMOTED = 1000
_MOST_TENANTS = 64
OPTED_OUT = "The recipient has opted out ({}); nothing was sent."

Held = Settlement[Parcel]


class _Candidate(NamedTuple):
    """A message that is ready, under our lock."""

    message_id: str
    tenant_id: str
    channel: str
    token: int
    contacts: tuple[str, ...]


class OutboundLane:
    """Claims messages tenant by tenant; every later write is fenced by the message's token.

    No send begins to a contact whose opt-out was acknowledged: the claim holds its tenants against opt-outs, and reads those
    that there are in a later statement.
    """

    def __init__(self, database: Database, *, default_rate: int) -> None:
        self._database = database
        self._default_rate = default_rate
        self._after = ""
        self._pruned_up_to = ""
        self._blocked_until: datetime | None = None

    async def claim(self, lease: Lease, *, room: Room, now: datetime) -> Sequence[Strand[Parcel]]:
        return (await self.turn((), lease, room=room, now=now)).claimed

    async def settle(self, settlements: Sequence[Held], *, now: datetime) -> Sequence[Held]:
        lost = await self._database.write(lambda: settling.settle(queries, settlements, now))
        self._database.ring()
        return lost

    async def turn(self, settlements: Sequence[Held], lease: Lease, *, room: Room, now: datetime) -> Turn[Parcel]:
        def work() -> Step[Turn[Parcel]]:
            lost = yield from settling.settle(queries, settlements, now)
            claimed = (yield from self._claim(lease, room, now)) if room.slots > 0 else []
            return Turn(claimed, lost)

        return await self._database.write(work)

    def renew(self, strands: Sequence[Strand[Parcel]], lease: Lease, *, now: datetime) -> Sequence[Strand[Parcel]]:
        def work() -> Step[list[Strand[Parcel]]]:
            kept = yield queries.renew(rows=_names(strands), lease_until=now + lease.length)
            return _among(strands, kept)

        return self._database.write_blocking(work)

    def held(self, strands: Sequence[Strand[Parcel]]) -> Sequence[Strand[Parcel]]:
        def work() -> Step[list[Strand[Parcel]]]:
            return _among(strands, (yield queries.held(rows=_names(strands))))

        return self._database.read_blocking(work)

    async def held_by(self, lease: Lease) -> Sequence[Strand[Parcel]]:
        def work() -> Step[list[Strand[Parcel]]]:
            rows = yield queries.held_by(holder=lease.holder)
            return [_bare_strand(*row) for row in rows]

        return await self._database.read(work)

    async def release(self, strands: Sequence[Strand[Parcel]], *, now: datetime) -> None:
        settlements = [Settlement(strand, row, Skipped("", at=now)) for strand in strands for row in strand.rows]
        await self.settle(settlements, now=now)

    async def next_due(self, *, now: datetime) -> datetime | None:
        blocked = self._blocked_until

        def work() -> Step[datetime | None]:
            *found, ((ready,),) = yield from together(
                queries.earliest_due(), queries.earliest_lease(), queries.earliest_expiry(), queries.any_ready()
            )
            due = [instant(at) for rows in found for (at,) in rows]
            if ready is not None:
                due.append(blocked or now)
            return min(due, default=None)

        return await self._database.read(work)

    async def prune(self, *, before: datetime, limit: int = settling.STRETCH) -> int:
        return (await self.prune_stretch(before=before, limit=limit))[0]

    async def prune_stretch(self, *, before: datetime, limit: int = settling.STRETCH) -> tuple[int, bool]:
        """Delete what ended before then in the next stretch of the history; how many, and whether there may be more."""
        work = partial(settling.prune, queries, self._pruned_up_to, before, limit)
        deleted, further = await self._database.write(work)
        self._pruned_up_to = further or ""
        return deleted, further is not None

    async def bury(self, is_dead: Callable[[str], bool], *, now: datetime) -> bool:
        """End the leases of holders that are known to have died, without waiting; whether there were any."""

        def look() -> Step[list[str]]:
            return [holder for (holder,) in (yield queries.holders()) if is_dead(holder)]

        def end() -> Step[None]:
            yield queries.end_leases(holders=dead, now=now)

        dead = await self._database.read(look)
        if dead:
            await self._database.write(end)
        return bool(dead)

    async def straighten(self, *, now: datetime, lease: timedelta) -> None:
        """Cut leases that a clock which was set back has made too long."""

        def work() -> Step[None]:
            yield queries.cut_leases(horizon=now + lease)

        await self._database.write(work)

    def _claim(self, lease: Lease, room: Room, now: datetime) -> Step[list[Strand[Parcel]]]:
        """Rescue, expire, promote; then the most urgent of each tenant in turn."""
        tenants = yield from self._ready_tenants(now)
        chosen = [tenant for tenant in tenants if tenant not in room.full][: room.slots]
        self._after = chosen[-1] if chosen and len(chosen) < len(tenants) else ""
        self._blocked_until = None
        if not chosen:
            return []
        each = -(-room.slots // len(chosen))
        shared, capped, rows = yield from together(
            queries.share_tenants(tenant_ids=chosen, default_rate=self._default_rate),
            queries.hold_capped_tenants(tenant_ids=chosen, default_rate=self._default_rate),
            queries.ready(tenant_ids=chosen, each=each),
        )
        candidates = [_Candidate(row[0], row[1], row[2], row[3], tuple(json.loads(row[4]))) for row in rows]
        fitting = self._within_caps(candidates, {tenant for (tenant,) in shared}, capped, now)
        places, _ = room.admit([candidate.tenant_id for candidate in fitting])
        admitted = [fitting[place] for place in places]
        if not admitted:
            return []
        return (yield from self._take(admitted, capped, lease, now))

    def _ready_tenants(self, now: datetime) -> Step[list[str]]:
        walk = queries.ready_tenants(after=self._after, steps=_MOST_TENANTS)
        overdue, expired, _, found = yield from together(
            queries.overdue(now=now, limit=_MOST_AT_ONCE),
            queries.take_expired(now=now, limit=_MOST_AT_ONCE),
            queries.promote(now=now, limit=_MOST_PROMOTED),
            walk,
        )
        if overdue:
            yield from settling.rescue(queries, overdue, now)
        if expired:
            yield from settling.expire(queries, [message_id for (message_id,) in expired], now)
        if overdue or (self._after and not found):
            found = yield queries.ready_tenants(after="" if not found else self._after, steps=_MOST_TENANTS)
        return [tenant for (tenant,) in found]

    def _within_caps(
        self, candidates: Sequence[_Candidate], shared: set[str], capped: Sequence[Row], now: datetime
    ) -> list[_Candidate]:
        """Those whose tenants may send now; a tenant that another node claims for is left to it."""
        left: Counter[str] = Counter()
        for tenant, rate, used_until in capped:
            cap, until = Cap.of(rate), instant_or_none(used_until)
            left[tenant] = allowance(cap, until, now)
            if until is not None and left[tenant] == 0:
                free = next_free(cap, until)
                self._blocked_until = min(free, self._blocked_until or free)
        fitting = []
        for candidate in candidates:
            if candidate.tenant_id in shared or left[candidate.tenant_id] > 0:
                fitting.append(candidate)
                left[candidate.tenant_id] -= 1
        return fitting

    def _take(
        self, admitted: Sequence[_Candidate], capped: Sequence[Row], lease: Lease, now: datetime
    ) -> Step[list[Strand[Parcel]]]:
        contacts = {(each.tenant_id, contact) for each in admitted for contact in each.contacts}
        opted, contents = yield from together(
            queries.opted_out(rows=sorted(contacts)),
            queries.contents(message_ids=[each.message_id for each in admitted]),
        )
        refused = _refused(admitted, opted)
        if refused:
            yield from settling.cancel(queries, refused, now)
        going = [each for each in admitted if each.message_id not in refused]
        if not going:
            return []
        take = queries.take(
            message_ids=[each.message_id for each in going],
            now=now,
            lease_until=now + lease.length,
            holder=lease.holder,
        )
        (taken, *_) = yield from together(take, *_counted(going, capped, now))
        by_id = {row[0]: row for row in contents}
        contacts_of = {each.message_id: each.contacts for each in going}
        return [
            _strand(by_id[message_id], token, attempt, last_attempt, contacts_of[message_id], now)
            for message_id, token, attempt, last_attempt in taken
        ]


def _strand(
    row: Row, token: int, attempt: int, last_attempt: int, contacts: tuple[str, ...], now: datetime
) -> Strand[Parcel]:
    parcel = parcel_from(row, attempt=attempt, last_attempt=last_attempt, claimed_at=now, contacts=contacts)
    return Strand(parcel.id, parcel.tenant_id, token, (parcel,))


def _refused(admitted: Sequence[_Candidate], opted: Sequence[Row]) -> dict[str, str]:
    """Which messages would go to someone who does not want them, and the error that says so."""
    by_contact: dict[tuple[str, str], set[str]] = {}
    for tenant_id, contact, channel, _ in opted:
        by_contact.setdefault((tenant_id, contact), set()).add(channel)
    refused = {}
    for each in admitted:
        channels = {channel for contact in each.contacts for channel in by_contact.get((each.tenant_id, contact), ())}
        if found := channels & {each.channel, "all"}:
            refused[each.message_id] = OPTED_OUT.format(sorted(found)[0])
    return refused


def _counted(going: Sequence[_Candidate], capped: Sequence[Row], now: datetime) -> list[Statement]:
    """The statement that counts these sends against their tenants' caps, if any have one."""
    sends = Counter(each.tenant_id for each in going)
    rows = [
        (tenant, used(Cap.of(rate), instant_or_none(until), now, sends[tenant]))
        for tenant, rate, until in capped
        if sends[tenant]
    ]
    return [queries.count_sends(rows=rows)] if rows else []


def _bare_strand(message_id: str, tenant_id: str, token: int) -> Strand[Parcel]:
    """A strand that is only to be given back: what it says does not matter."""
    nothing = ("",) * 2
    row = (message_id, tenant_id, "email", "transactional", "", None, None, None, "{}", None, None, None)
    return _strand((*row, datetime.min.isoformat(), *nothing), token, 1, 1, (), datetime.min)


def _names(strands: Sequence[Strand[Parcel]]) -> list[tuple[str, int]]:
    return [(strand.key, strand.token) for strand in strands]


def _among(strands: Sequence[Strand[Parcel]], rows: Sequence[Row]) -> list[Strand[Parcel]]:
    kept = {(key, token) for key, token in rows}
    return [strand for strand in strands if (strand.key, strand.token) in kept]


def new_id() -> str:
    """An id that sorts by time."""
    return str(uuid_utils.uuid7())
