"""The inbound queue as the engine sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from pillarbox.clock import Clock
from pillarbox.engine import Delivered, Failed, Lease, Retry, Room, Settlement, Skipped, Standby, Strand, Turn
from pillarbox.inbound import strands, upkeep
from pillarbox.inbound.looks import Looks
from pillarbox.inbound.model import Parcel, message_from
from pillarbox.inbound.strands import Locked, queries
from pillarbox.sessions import Sessions
from pillarbox.storage import (
    DAMAGED,
    UNREADABLE,
    Database,
    Row,
    Step,
    cut_overlong,
    ending,
    is_intact,
    is_legible,
    together,
)
from pillarbox.strands import StrandLeases
from pillarbox.telemetry import logger
from pillarbox.text import printable

log = logger(__name__)

_MOST_RESCUED = 500
_EXCERPT = 200
_STATUS, _TOKEN, _CHECKSUM, _TRACE = 10, 20, 22, 23
_LONGEST_ERROR = 1000

Held = Settlement[Parcel]


@dataclass(frozen=True, slots=True)
class Rescue:
    """What becomes of a row whose worker went away: due at once, or after `later` once it outlived `deaths` workers."""

    deaths: int
    later: timedelta


class InboundLane(StrandLeases[Parcel]):
    """Claims heads of sessions; one in flight for each session; every later write is fenced by the session's token."""

    def __init__(
        self,
        database: Database,
        *,
        serves: Callable[[], Sequence[str]],
        rescue: Rescue,
        gate: timedelta,
        sessions: Sessions,
    ) -> None:
        super().__init__(database, "inbound_strand")
        self._rescue = rescue
        self._gate = gate
        self._sessions = sessions
        self._pruned_up_to = 0
        self._looks = Looks(serves, self._passed_over)

    async def claim(self, lease: Lease, *, room: Room, now: datetime) -> Sequence[Strand[Parcel]]:
        return (await self.turn((), lease, room=room, now=now)).claimed

    async def settle(self, settlements: Sequence[Held], *, now: datetime) -> Sequence[Held]:
        def work() -> Step[list[Held]]:
            return (yield from self._settle(_not_failed(settlements), now))

        lost = await self._database.write(work)
        lost += await self._fail_all(settlements, now)
        self._database.ring()
        return lost

    async def turn(self, settlements: Sequence[Held], lease: Lease, *, room: Room, now: datetime) -> Turn[Parcel]:
        failed_too_late = await self._fail_all(settlements, now)
        turn = await self._database.write(lambda: self._turn(_not_failed(settlements), lease, room, now))
        return Turn(turn.claimed, [*turn.lost, *failed_too_late])

    def stand_by(self, lease: Lease, *, room: Room, ready: Callable[[], None]) -> Standby[Parcel] | None:
        clock = self._database.clock

        def work() -> Step[Turn[Parcel]]:
            since = clock.monotonic()
            return (yield from self._turn((), lease, room, clock.now(), since))

        return self._database.stand_by("inbound", work, ready=ready)

    async def held_by(self, lease: Lease) -> Sequence[Strand[Parcel]]:
        def work() -> Step[list[Strand[Parcel]]]:
            rows = yield queries.held_by(holder=lease.holder)
            return [Strand(row[1], row[-2], row[-1], (Parcel(message_from(row), ""),)) for row in rows]

        return await self._database.read(work)

    async def release(self, strands_held: Sequence[Strand[Parcel]], *, now: datetime) -> None:
        settlements = [Settlement(strand, row, Skipped("", at=now)) for strand in strands_held for row in strand.rows]
        await self.settle(settlements, now=now)

    async def next_due(self, *, now: datetime) -> datetime | None:
        return await self._earliest(*(queries.earliest_due(served_by=each) for each in self._looks.serves()))

    async def prune(self, *, before: datetime, limit: int) -> int:
        return (await self.prune_by_origin(lambda origin: before, latest=before, limit=limit)).deleted

    async def prune_by_origin(
        self, before: Callable[[str], datetime], *, latest: datetime, limit: int = upkeep.STRETCH
    ) -> upkeep.Pruned:
        """Go over the next stretch of the table and delete what ended before the time that its origin's retention gives.

        Nothing of any origin that came in after `latest` can be old enough.
        """
        work = partial(upkeep.prune, self._pruned_up_to, before, latest=latest, limit=limit)
        pruned = await self._database.write(work)
        self._pruned_up_to = pruned.up_to
        return pruned

    async def straighten(self, *, clock: Clock, longest_wait: timedelta, lease: timedelta) -> None:
        """Cut waits and leases that a clock which was set back has made too long."""

        def work() -> Step[None]:
            yield from cut_overlong(self._leases, clock, lease)
            yield from upkeep.straighten(clock.now() + longest_wait)

        await self._database.write(work)

    def _turn(
        self, settlements: Sequence[Held], lease: Lease, room: Room, now: datetime, since: float = 0.0
    ) -> Step[Turn[Parcel]]:
        lost = yield from self._settle(settlements, now)
        heads = (yield from self._claim(lease, room, now)) if room.slots > 0 else []
        if not heads:
            return Turn([], lost, since)
        rows = [(session_id, head_seq, token + 1) for session_id, _, token, head_seq, *_ in heads]
        return (
            yield from ending(
                queries.take_rows(rows=rows, now=now),
                again=[queries.taken_rows(rows=[row[:2] for row in rows])],
                result=lambda taken: Turn(_strands(heads, taken), lost, since),
            )
        )

    def _claim(self, lease: Lease, room: Room, now: datetime) -> Step[list[Row]]:
        """Rescue, then take strands; where a destination is full, from the others. Their rows are still to be taken."""
        heads: list[Row] = []
        looks = self._looks.for_due(room, now)
        overdue, *found = yield from together(self._leases.overdue(now=now, limit=_MOST_RESCUED), *looks)
        overdue = self._passed_over.legible(overdue)
        if overdue:
            yield from self._rescue_strands(overdue, now)
            found = yield from together(*looks)
        room = yield from self._take_strands(found, heads, lease, room, now)
        if room.full and room.slots > 0:
            found = yield from together(*(yield from self._looks.elsewhere(room, now)))
            room = yield from self._take_strands(found, heads, lease, room, now)
        return heads

    def _take_strands(
        self, found: list[list[Row]], heads: list[Row], lease: Lease, room: Room, now: datetime
    ) -> Step[Room]:
        """Hold what fits of the candidates and add it to `heads`; answers the room that is left."""
        candidates = self._passed_over.sound([row for rows in found for row in rows], 2, 3, 6, 7)
        fitting, room = room.admit([row[1] for row in candidates])
        taken = [candidates[position] for position in fitting]
        if taken:
            rows = [(session_id, token + 1) for session_id, _, token, *_ in taken]
            yield queries.take_strands(rows=rows, lease_until=now + lease.length, holder=lease.holder)
            heads += taken
        return room

    def _rescue_strands(self, overdue: list[Row], now: datetime) -> Step[None]:
        later = now + self._rescue.later
        outlived, _ = yield from together(
            queries.outlived(rows=overdue, deaths=self._rescue.deaths),
            queries.rescue_rows(rows=overdue, now=now, deaths=self._rescue.deaths, later=later),
        )
        due = {session_id: now for session_id, _ in overdue} | {session_id: later for (session_id,) in outlived}
        yield queries.rescue_strands(rows=list(due.items()), now=now)

    def _settle(self, settlements: Sequence[Held], now: datetime) -> Step[list[Held]]:
        if not settlements:
            return []
        locked = yield from strands.lock({settlement.strand.key for settlement in settlements})
        held: list[Held] = []
        lost: list[Held] = []
        for settlement in settlements:
            (held if _still_held(settlement, locked) else lost).append(settlement)
        if held:
            yield queries.settle_rows(rows=[_settled_row(settlement, now) for settlement in held])
            behind = [(s.strand.key, s.row.message.seq) for s in held if _has_next(s, locked)]
            heads = yield from strands.next_heads(behind)
            yield queries.settle_strands(
                rows=[self._settled_strand(each, heads, locked[each.strand.key], now) for each in held], now=now
            )
        return lost

    def _settled_strand(
        self, settlement: Held, heads: dict[str, int | None], locked: Locked, now: datetime
    ) -> tuple[object, ...]:
        key, message, outcome = settlement.strand.key, settlement.row.message, settlement.outcome
        match outcome:
            case Retry():
                return key, message.seq, outcome.at, 1, 0, None, None, None
            case Skipped():
                return key, message.seq, outcome.at, int(message.attempt_count > 1), 0, None, None, None
            case _:
                head = heads.get(key)
                due = None if head is None else locked.due(now, self._gate)
                return key, head, due, 0, 1, message.content[:_EXCERPT], message.origin, now

    async def _fail_all(self, settlements: Sequence[Held], now: datetime) -> list[Held]:
        """A message that can never be delivered ends its session, each in a transaction of its own; answers the late ones."""
        lost = []
        for settlement in settlements:
            if isinstance(settlement.outcome, Failed):
                reason = _storable(settlement.outcome.error)
                ended = await self._database.write(partial(self._fail, settlement, reason, now))
                if ended is None:
                    lost.append(settlement)
                else:
                    self._sessions.announce_close(settlement.strand.key, ended)
        return lost

    def _fail(self, settlement: Held, reason: str, now: datetime) -> Step[int | None]:
        """Close the session if the claim is still ours; locks the session before its strand, as every close does."""
        key = settlement.strand.key
        yield from self._sessions.locking(key)
        if not _still_held(settlement, (yield from strands.lock({key}))):
            return None
        return (yield from self._sessions.closing(key, now, reason=reason))


def _strands(heads: Sequence[Row], rows: Sequence[Row]) -> list[Strand[Parcel]]:
    """What was taken; a strand whose row is not there waits for the end of its lease, and holds up no other.

    Where the first answer was lost, others may have taken a message away before the second one came.
    """
    taken = {(row[1], row[2]): row for row in rows}
    strands_taken = []
    for session_id, destination, token, seq, target, state, *_ in heads:
        row = taken.get((session_id, seq))
        if row is None:
            log.error("a message is not where its session's queue has it", session_id=session_id, seq=seq, hint=DAMAGED)
        elif (row[_STATUS], row[_TOKEN]) == ("processing", token + 1):
            strands_taken.append(Strand(session_id, destination, token + 1, (_parcel(row, target, state),)))
    return strands_taken


def _parcel(row: Row, target: str, state: str) -> Parcel:
    message = message_from(row)
    intact = (
        message.created_at is not UNREADABLE and is_intact(row[_CHECKSUM], row[1], *row[3:10]) and is_legible(target)
    )
    return Parcel(message, target, state == "starting", intact, row[_TRACE])


def _not_failed(settlements: Sequence[Held]) -> list[Held]:
    return [settlement for settlement in settlements if not isinstance(settlement.outcome, Failed)]


def _still_held(settlement: Held, locked: dict[str, Locked]) -> bool:
    strand = locked.get(settlement.strand.key)
    return strand is not None and strand.in_flight and strand.token == settlement.strand.token


def _has_next(settlement: Held, locked: dict[str, Locked]) -> bool:
    """Whether anything can stand behind a delivered row."""
    return isinstance(settlement.outcome, Delivered) and (
        settlement.row.message.seq + 1 < locked[settlement.strand.key].next_seq
    )


def _settled_row(settlement: Held, now: datetime) -> tuple[object, ...]:
    row_id, token, outcome = settlement.row.id, settlement.strand.token, settlement.outcome
    match outcome:
        case Delivered():
            return row_id, token, "delivered", now, None, None, 0
        case Retry():
            return row_id, token, "failed", None, outcome.at, _storable(outcome.error), 0 if outcome.counts else 1
        case Skipped():
            status = "failed" if settlement.row.attempt_count > 1 else "pending"
            reason = _storable(outcome.reason) or settlement.row.message.last_error
            return row_id, token, status, None, outcome.at, reason, 1
        case Failed():
            raise AssertionError("a failed message closes its session instead")


def _storable(error: str) -> str:
    """An error's text as every database takes it: a callable may raise anything, NUL and unpaired surrogates included."""
    return printable(error, _LONGEST_ERROR)
