"""The hook outbox as the engine sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from pillarbox.clock import Clock
from pillarbox.engine import Delivered, Lease, Room, Settlement, Skipped, Standby, Strand, Turn
from pillarbox.hooks import strands
from pillarbox.hooks.coalesce import Mark, Run, begin, coalesce, mark_from
from pillarbox.hooks.lone import FEW, claim_lone
from pillarbox.hooks.model import HookRow, row_from
from pillarbox.hooks.offers import Offer, Offers, Resting, forget, hands_over, offering
from pillarbox.hooks.settling import Held, has_ended, settled_row, settled_strand, sorted_out, what_is_behind
from pillarbox.hooks.strands import Locked, queries
from pillarbox.storage import UNREADABLE, Database, Row, Step, cut_overlong, is_legible, legible, together
from pillarbox.strands import StrandLeases

_MOST_RESCUED = 500
_STRETCH = 1000
# How much of one burst is looked through in one claim; a longer one is delivered in more than one piece.
_MOST_LOOKED_AT = 4096
_MOST_BYTES = 1024 * 1024
# What is not larger is read when it is looked at, although it may turn out to be superseded.
_SMALL = 4096

TakeEffect = Callable[[Sequence[HookRow], datetime], Step[None]]


@dataclass(frozen=True, slots=True)
class Rescue:
    """What becomes of a row whose worker went away: due at once, or after `later` once it outlived `deaths` workers."""

    deaths: int
    later: timedelta


class _Due(NamedTuple):
    """A strand that may be claimed, under our lock."""

    session_id: str
    token: int
    head_seq: int
    next_seq: int
    open_count: int


class HookLane(StrandLeases[HookRow]):
    """Claims a session's run of events; one run in flight for each session; every later write is fenced by its token."""

    def __init__(
        self,
        database: Database,
        *,
        rescue: Rescue,
        limit: int,
        take_effect: TakeEffect,
        superseded: Callable[[int], None] = lambda count: None,
        settled: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(database, "hook_strand")
        self._rescue = rescue
        self._limit = limit
        # As many as a run may have are read at once, and together no more than one may hold.
        self._small = min(_SMALL, _MOST_BYTES // limit)
        self._take_effect = take_effect
        self._superseded = superseded
        self._settled = settled
        self._pruned_up_to = 0
        self._quiet = True
        self._offers = Offers(database.clock)
        # Only where one file is shared by the processes of a machine does anybody offer to take an event.
        self._may_offer = hands_over(database)
        self._rests = False

    async def claim(self, lease: Lease, *, room: Room, now: datetime) -> Sequence[Strand[HookRow]]:
        turn = await self.turn((), lease, room=room, now=now)
        return [*turn.handed, *turn.claimed]

    async def settle(self, settlements: Sequence[Held], *, now: datetime) -> Sequence[Held]:
        def work() -> Step[list[Held]]:
            return (yield from self._settle(settlements, now))

        lost = await self._database.write(work)
        self._settled()
        self._database.ring()
        return lost

    async def turn(self, settlements: Sequence[Held], lease: Lease, *, room: Room, now: datetime) -> Turn[HookRow]:
        offer = self._offers.new(lease, now)

        def work() -> Step[tuple[Turn[HookRow], int, Sequence[Offer]]]:
            lost = yield from self._settle(settlements, now)
            if room.slots <= 0:
                return Turn([], lost), 0, ()
            turn = yield from self._offers.handed()
            free = room.slots - len(turn.handed)
            claimed, superseded = (yield from self._claim(lease, free, now)) if free > 0 else ([], 0)
            turn = replace(turn, claimed=claimed, lost=lost)
            if claimed or turn.handed:
                return turn, superseded, (yield from self._offers.withdraw())
            # Only with something else that is written: what is offered lapses, and costs no commit of its own.
            if settlements and self._rests:
                return turn, superseded, (yield from self._offers.make(offer))
            return turn, superseded, self._offers.standing(now)

        turn, superseded, stands = await self._database.write(work)
        self._superseded(superseded)
        if room.slots > 0:
            self._offers.now_stand(stands)
            self._quiet = len(turn.claimed) <= FEW
        if settlements:
            self._settled()
        if any(settlement.row.event_type == "session_start" for settlement in settlements):
            # Messages may have waited for this session on another node.
            self._database.ring()
        return turn

    def stand_by(self, lease: Lease, *, room: Room, ready: Callable[[], None]) -> Standby[HookRow] | None:
        work, look = partial(self._claim_by_itself, lease, room.slots), self._look
        standing = self._database.stand_by("hooks", work, ready=ready, look=look)
        if standing is None:
            return None
        self._rests = self._may_offer
        return Resting(standing, self._offers)

    async def retire(self, lease: Lease) -> Sequence[Strand[HookRow]]:
        self._rests = False
        if not self._offers.any:
            return ()

        def work() -> Step[Sequence[Strand[HookRow]]]:
            yield from self._offers.withdraw()
            return (yield from self._offers.handed()).handed

        handed = await self._database.write(work)
        self._offers.now_stand(())
        return handed

    async def bury(self, is_dead: Callable[[str], bool], *, now: datetime) -> bool:
        """Likewise, and take back what they had offered."""

        def look() -> Step[list[str]]:
            return [holder for holder in (yield from offering()) if is_dead(holder)]

        if self._may_offer and (dead := await self._database.read(look)):
            await self._database.write(partial(forget, dead))
        return await super().bury(is_dead, now=now)

    async def held_by(self, lease: Lease) -> Sequence[Strand[HookRow]]:
        def work() -> Step[list[Strand[HookRow]]]:
            held: dict[tuple[str, int], list[HookRow]] = {}
            for row in (yield queries.held_by(holder=lease.holder)):
                held.setdefault((row[1], row[-1]), []).append(row_from(row))
            return [Strand(key, key, token, _in_order(rows)) for (key, token), rows in held.items()]

        return await self._database.read(work)

    async def release(self, strands_held: Sequence[Strand[HookRow]], *, now: datetime) -> None:
        await self.settle([Settlement(strand, strand.rows[0], Skipped("", at=now)) for strand in strands_held], now=now)

    async def next_due(self, *, now: datetime) -> datetime | None:
        return await self._earliest(queries.earliest_due())

    async def prune(self, *, before: datetime, limit: int = _STRETCH) -> int:
        return (await self.prune_stretch(before=before, limit=limit))[0]

    async def prune_stretch(self, *, before: datetime, limit: int = _STRETCH) -> tuple[int, bool]:
        """Delete what ended before then in the next stretch of the table; how many, and whether there may be more."""

        def work() -> Step[tuple[int, bool, int]]:
            rows = yield queries.oldest_rows(after=self._pruned_up_to, limit=_STRETCH)
            over = [row[0] for row in rows if row[2] is not None and legible(row[2]) < before][:limit]
            deleted = len((yield queries.prune(ids=over))) if over else 0
            if deleted == limit:
                return deleted, True, self._pruned_up_to
            young = len(rows) < _STRETCH or before <= legible(rows[-1][1]) < UNREADABLE
            return deleted, not young, 0 if young else rows[-1][0]

        deleted, more, self._pruned_up_to = await self._database.write(work)
        return deleted, more

    async def straighten(self, *, clock: Clock, longest_wait: timedelta, lease: timedelta) -> None:
        """Cut waits and leases that a clock which was set back has made too long."""

        def work() -> Step[None]:
            yield from cut_overlong(self._leases, clock, lease)
            horizon = clock.now() + longest_wait
            if cut := (yield queries.pull_in(horizon=horizon)):
                yield queries.pull_in_rows(rows=cut, horizon=horizon)

        await self._database.write(work)

    def _look(self) -> Step[Turn[HookRow] | None]:
        """What was handed over, if anything was: nothing is written."""
        turn = yield from self._offers.handed()
        return turn if turn.handed else None

    def _claim_by_itself(self, lease: Lease, slots: int) -> Step[Turn[HookRow]]:
        clock = self._database.clock
        if turn := (yield from self._look()):
            # Others may have come with it.
            return replace(turn, partial=True)
        # One place is kept for what may still be handed over.
        kept = int(self._offers.may_be_taken(clock.now()))
        return (yield from claim_lone(lease, slots - kept, clock))

    def _claim(self, lease: Lease, slots: int, now: datetime) -> Step[tuple[list[Strand[HookRow]], int]]:
        """Rescue, then take the runs that are due; answers them, and how many events were superseded on the way."""
        look = queries.due_strands(now=now, limit=slots + self._passed_over.count)
        # Where little is due it is mostly one event of a session, and one round trip brings it.
        heads = [queries.lone_heads(now=now, limit=min(FEW, slots))] if self._quiet else []
        overdue, due, *found = yield from together(self._leases.overdue(now=now, limit=_MOST_RESCUED), look, *heads)
        if overdue := self._passed_over.legible(overdue):
            yield from self._rescue_strands(overdue, now)
            due, found = (yield look), []
        due = self._passed_over.sound(due, 1, 2, 3, 4)[:slots]
        if not due:
            return [], 0
        chosen = [_Due(*row) for row in due]
        lone = {row[1]: row_from(row) for rows in found for row in rows}
        runs = yield from self._runs([strand for strand in chosen if strand.session_id not in lone])
        taken = yield from self._take(chosen, runs, lone, lease, now)
        return taken, sum(len(run.superseded) for run in runs.values())

    def _runs(self, chosen: Sequence[_Due]) -> Step[dict[str, Run]]:
        """What each strand has waiting, coalesced; further into those where a burst goes on."""
        marks: dict[str, list[Mark]] = {strand.session_id: [] for strand in chosen}
        reached = {strand.session_id: strand.head_seq + self._limit - 1 for strand in chosen}
        stretches = [(strand.session_id, strand.head_seq, reached[strand.session_id]) for strand in chosen]
        for row in (yield queries.heads(rows=stretches, small=self._small)) if chosen else ():
            marks[row[1]].append(mark_from(row))
        runs = {session_id: coalesce(seen) for session_id, seen in marks.items()}
        stretch = 2 * self._limit
        while looking := [s for s in chosen if self._goes_on(s, runs[s.session_id], reached[s.session_id])]:
            behind = [(s.session_id, reached[s.session_id] + 1, reached[s.session_id] + stretch) for s in looking]
            for session_id, row_id, seq, event_type, size in (yield queries.window(rows=behind)):
                marks[session_id].append(Mark(row_id, seq, event_type, size, damaged=not is_legible(event_type)))
            for session_id, _, to_seq in behind:
                reached[session_id] = to_seq
                runs[session_id] = coalesce(marks[session_id])
            stretch = _MOST_LOOKED_AT // 2
        return runs

    def _goes_on(self, strand: _Due, run: Run, reached: int) -> bool:
        """Whether it takes a look at later rows to know this run, and that look may be had."""
        if reached + 1 >= strand.next_seq:
            return False
        if not run.kept:
            return True
        enough = len(run.kept) >= self._limit and not run.open_ended
        return not enough and reached - strand.head_seq < _MOST_LOOKED_AT

    def _take(
        self, chosen: Sequence[_Due], runs: dict[str, Run], lone: dict[str, HookRow], lease: Lease, now: datetime
    ) -> Step[list[Strand[HookRow]]]:
        firsts = {
            key: begin(run.kept, limit=self._limit, most_bytes=_MOST_BYTES) for key, run in runs.items() if run.kept
        }
        if emptied := [key for key, run in runs.items() if not run.kept]:
            yield queries.empty_strands(session_ids=emptied)
        if superseded := [(mark.id, by.id, by.event_type) for key in firsts for mark, by in runs[key].superseded]:
            yield queries.supersede(rows=superseded, now=now)
        large = [mark.id for first in firsts.values() for mark in first if mark.row is None]
        read = {row[0]: row for row in (yield queries.take_rows(ids=large))} if large else {}
        held_now = []
        for key, token, *_ in chosen:
            if key in lone:
                held_now.append(Strand(key, key, token + 1, (lone[key],)))
            elif key in firsts:
                found = [mark.row or read.get(mark.id) for mark in firsts[key]]
                if rows := tuple(row_from(row) for row in found if row is not None):
                    held_now.append(Strand(key, key, token + 1, rows))
        if not held_now:
            return []
        yield queries.take_strands(
            rows=[_taken_strand(strand, _superseded_by(runs.get(strand.key))) for strand in held_now],
            now=now,
            lease_until=now + lease.length,
            holder=lease.holder,
        )
        return held_now

    def _rescue_strands(self, overdue: list[Row], now: datetime) -> Step[None]:
        later = now + self._rescue.later
        outlived, *_ = yield from together(
            queries.outlived(rows=overdue, deaths=self._rescue.deaths),
            queries.rescue_behind(rows=overdue, now=now),
            queries.rescue_rows(rows=overdue, now=now, deaths=self._rescue.deaths, later=later),
        )
        due = {session_id: now for session_id, _ in overdue} | {session_id: later for (session_id,) in outlived}
        yield queries.rescue_strands(rows=list(due.items()), now=now)

    def _settle(self, settlements: Sequence[Held], now: datetime) -> Step[list[Held]]:
        if not settlements:
            return []
        locked = yield from strands.lock(settlement.strand.key for settlement in settlements)
        by_key, lost = sorted_out(settlements, locked)
        if by_key:
            taken = [settlement for key in locked for settlement in by_key.get(key, ())]
            if all(isinstance(settlement.outcome, Delivered) for settlement in taken):
                ended = [settlement.row for settlement in taken]
                yield queries.deliver_rows(ids=[row.id for row in ended], now=now)
            else:
                ended = [settlement.row for settlement in taken if has_ended(settlement)]
                yield queries.settle_rows(rows=[settled_row(settlement, now) for settlement in taken])
            yield from self._settle_strands(by_key, locked, now)
            telling = [row for row in ended if row.payload is not None and not row.took_effect]
            if telling:
                yield from self._take_effect(telling, now)
        return lost

    def _settle_strands(self, by_key: dict[str, list[Held]], locked: dict[str, Locked], now: datetime) -> Step[None]:
        behind = {key: what_is_behind(reported[-1]) for key, reported in by_key.items()}
        looking = [
            (key, reported[-1].row.seq)
            for key, reported in by_key.items()
            if not behind[key] and has_ended(reported[-1]) and reported[-1].row.seq + 1 < locked[key].next_seq
        ]
        heads = yield from strands.next_heads(looking)
        heads |= {key: rows[0].seq for key, rows in behind.items() if rows}
        yield queries.settle_strands(
            rows=[settled_strand(key, by_key[key], heads.get(key), now) for key in sorted(by_key)], now=now
        )


def _in_order(rows: Iterable[HookRow]) -> tuple[HookRow, ...]:
    return tuple(sorted(rows, key=lambda row: row.seq))


def _taken_strand(strand: Strand[HookRow], superseded: int) -> tuple[object, ...]:
    rows = strand.rows
    return strand.key, strand.token, rows[0].seq, rows[-1].seq, len(rows), superseded


def _superseded_by(run: Run | None) -> int:
    return 0 if run is None else len(run.superseded)
