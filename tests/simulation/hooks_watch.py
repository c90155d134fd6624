"""What must never happen to events."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from pillarbox.hooks.coalesce import CRITICAL
from pillarbox.hooks.model import HookEvent
from pillarbox.storage import instant
from tests.simulation.watching import Delivery, Watch

_ROWS = """SELECT e.id, e.session_id, e.seq, e.event_type, e.status, e.attempt_count,
    CASE WHEN e.status = 'processing' THEN s.token ELSE 0 END, e.superseded_by, o.took_effect
FROM hook_event e JOIN hook_outbox o ON o.id = e.id JOIN hook_strand s ON s.session_id = e.session_id"""
_STRANDS = "SELECT session_id, token, lease_until, holder, open_count, held_count FROM hook_strand"
_OFFERS = "SELECT holder FROM hook_offer"
_TOLD = "SELECT payload ->> '$.prompt' FROM hook_outbox WHERE event_type = 'user_prompt_submit' AND took_effect = 1"
ENDED = ("delivered", "superseded", "dead")
PROMPT = "user_prompt_submit"


class Seen(NamedTuple):
    id: int
    session_id: str
    seq: int
    event_type: str
    status: str
    attempt_count: int
    token: int
    superseded_by: int | None
    took_effect: int


class SeenStrand(NamedTuple):
    session_id: str
    token: int
    lease_until: str | None
    holder: str | None
    open_count: int
    held_count: int


@dataclass(slots=True, kw_only=True)
class HooksWatch(Watch):
    """Order, holds, coalescing, attempts and effects, looked at after every commit and at every delivery."""

    stuck: str | None = None
    undisturbed: bool = False
    rows: dict[int, Seen] = field(default_factory=dict)
    strands: dict[str, SeenStrand] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    retried: set[int] = field(default_factory=set)
    offering: set[str | None] = field(default_factory=set)

    def committed(self, by: str, now: datetime) -> None:
        rows = {row[0]: Seen(*row) for row in self.store.rows(_ROWS)}
        seen = (SeenStrand(*row) for row in self.store.rows(_STRANDS))
        strands = {strand.session_id: strand._replace(holder=_node(strand.holder)) for strand in seen}
        before, held = self.rows, self.strands
        self.rows, self.strands = rows, strands
        for row in rows.values():
            old = before.get(row.id)
            if old is not None and old != row:
                self._check_change(old, row, held.get(row.session_id), by, now)
        for strand in strands.values():
            self._check_strand(held.get(strand.session_id), strand, by, now)
        self.offering = {_node(name) for (name,) in self.store.rows(_OFFERS)}

    def _check_change(self, old: Seen, row: Seen, strand: SeenStrand | None, by: str, now: datetime) -> None:
        if old.status != row.status:
            self.say(f"{by}: {row.id} ({row.session_id}/{row.seq} {row.event_type}) {old.status} -> {row.status}")
        if old.status == "processing" and (row.status != "processing" or row.token != old.token):
            assert strand is not None
            assert strand.lease_until is not None
            assert strand.holder is not None
            if strand.holder != by or instant(strand.lease_until) <= now:
                self.taken_away(row.id, strand.holder, instant(strand.lease_until), by=by, now=now)
        if old.status in ENDED and row.status != old.status and not (old.status == "dead" and row.id in self.retried):
            self.problem(f"{row.id} was {old.status} and came back as {row.status}")
        match row.status:
            case "delivered" if old.status != "delivered":
                self._check_told(old, row)
            case "dead" if old.status != "dead":
                delivery = self.deliveries.get((row.id, row.attempt_count))
                if delivery is None or not delivery.refused:
                    self.problem(f"{row.id} is dead and nobody refused it")
            case "superseded" if old.status != "superseded":
                self._check_superseded(row)
            case "processing" if row.token != old.token:
                self._check_claim(row)

    def _check_told(self, old: Seen, row: Seen) -> None:
        delivery = self.deliveries.get((row.id, row.attempt_count))
        if old.status != "processing" or delivery is None or not delivery.done:
            self.problem(f"{row.id} counts as delivered by attempt {row.attempt_count} and was not")

    def _check_superseded(self, row: Seen) -> None:
        by = self.rows.get(row.superseded_by or 0)
        if row.event_type in CRITICAL:
            self.problem(f"{row.id} is critical and was dropped")
        elif by is None or (by.session_id, by.event_type) != (row.session_id, row.event_type) or by.seq <= row.seq:
            self.problem(f"{row.id} was superseded by {by}")
        elif any(each.event_type in CRITICAL for each in self._of(row.session_id) if row.seq < each.seq < by.seq):
            self.problem(f"{row.id} was superseded across a critical event")

    def _check_claim(self, row: Seen) -> None:
        for other in self._of(row.session_id):
            if other.seq < row.seq and other.status not in ENDED and other.token != row.token:
                self.problem(f"{row.id} was claimed before {other.id}")

    def _check_strand(self, old: SeenStrand | None, strand: SeenStrand, by: str, now: datetime) -> None:
        rows = self._of(strand.session_id)
        open_rows = sum(row.status not in ENDED for row in rows)
        held_rows = sum(row.status == "processing" for row in rows)
        if (open_rows, held_rows) != (strand.open_count, strand.held_count):
            self.problem(f"{strand} miscounts {open_rows} open and {held_rows} held")
        if strand.token > (old.token if old else 0) and strand.holder != by and strand.holder not in self.offering:
            self.problem(f"{by} claimed {strand.session_id} for {strand.holder}, who had not offered to take it")
        if old is None:
            return
        if strand.token < old.token:
            self.problem(f"the token of {strand.session_id} went back")
        live = old.lease_until is not None and instant(old.lease_until) > now
        if strand.token > old.token and live and old.holder != by and not self.clocks_differ:
            self.problem(f"{by} claimed {strand.session_id}, which {old.holder} holds")

    def _of(self, session_id: str) -> list[Seen]:
        return [row for row in self.rows.values() if row.session_id == session_id]

    def began(self, node: str, event: HookEvent) -> Delivery:
        self.say(f"{node} delivers {event.id} attempt {event.attempt}")
        delivery = self.begin(event.id, event.attempt, node)
        row, strand = self.rows[event.id], self.strands[event.session_id]
        held = (row.status, row.attempt_count, row.token) == ("processing", event.attempt, strand.token)
        if not self.clocks_differ and (not held or strand.holder != node or self.is_over(strand.lease_until)):
            self.problem(f"{node} began {event.id} under a lease that was over")
        for other in self._of(event.session_id):
            told = any(each.answered or each.refused for each in self.tries(other.id))
            if other.seq < row.seq and other.status not in ENDED and not told:
                self.problem(f"{event.id} passed {other.id}, which waits")
        return delivery

    @property
    def messages(self) -> int:
        return len(self.rows)

    def unended(self) -> bool:
        return any(row.status not in ENDED for row in self.rows.values() if row.session_id != self.stuck)

    def held_by(self, node: str) -> list[str]:
        return [strand.session_id for strand in self.strands.values() if strand.lease_until and strand.holder == node]

    def finish(self) -> list[str]:
        for row_id in self.acknowledged - self.rows.keys():
            self.problem(f"{row_id} was acknowledged and is gone")
        for row in self.rows.values():
            if row.status not in ENDED and row.session_id != self.stuck:
                self.problem(f"{row} was not delivered: {self.strands[row.session_id]}")
            begun = [attempt for of, attempt in self.deliveries if of == row.id]
            if row.attempt_count < max(begun, default=0):
                self.problem(f"{row} was begun {len(begun)} times")
            if self.undisturbed and row.attempt_count != len(begun):
                self.problem(f"{row} was begun {len(begun)} times and nothing was in the way")
        self._check_effects()
        self.check_duplicates(self.rows.keys() - self.retried)
        return self.problems

    def _check_effects(self) -> None:
        effects = sorted(name for (name,) in self.store.rows("SELECT name FROM effect"))
        told = sorted(name for (name,) in self.store.rows(_TOLD))
        if effects != told:
            self.problem(f"prompts took effect as {effects} instead of {told}")


def _node(holder: str | None) -> str | None:
    """Whose name it is, or whose offer's."""
    return holder and holder.partition("#")[0]
