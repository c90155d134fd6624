"""What must never happen to messages on their way to a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from pillarbox.inbound.model import ENDED, InboundMessage
from pillarbox.storage import instant
from tests.simulation.watching import Delivery, Watch

_ROWS = "SELECT id, session_id, seq, status, attempt_count, token, source_message_id FROM inbound_queue"
_STRANDS = """SELECT session_id, state, next_seq, head_seq, due_at, token, lease_until, holder, open_count
FROM inbound_strand"""


class Seen(NamedTuple):
    id: int
    session_id: str
    seq: int
    status: str
    attempt_count: int
    token: int
    source: str


class SeenStrand(NamedTuple):
    session_id: str
    state: str
    next_seq: int
    head_seq: int | None
    due_at: str | None
    token: int
    lease_until: str | None
    holder: str | None
    open_count: int


@dataclass(slots=True, kw_only=True)
class InboundWatch(Watch):
    """Order, holds, closes, gates and attempts, looked at after every commit and at every delivery."""

    gate: float
    latency: float
    rings_lost: bool
    stuck: str | None = None
    undisturbed: bool = False
    rows: dict[int, Seen] = field(default_factory=dict)
    strands: dict[str, SeenStrand] = field(default_factory=dict)
    acknowledged: dict[str, int] = field(default_factory=dict)
    closing: set[str] = field(default_factory=set)
    expiring: set[int] = field(default_factory=set)
    hastened: set[str] = field(default_factory=set)
    over_since: dict[object, float] = field(default_factory=dict)
    closed_by: set[tuple[str, str]] = field(default_factory=set)
    heads_since: dict[str, float] = field(default_factory=dict)
    claimed_starting: set[tuple[int, int]] = field(default_factory=set)

    def committed(self, by: str, now: datetime) -> None:
        rows = {row[0]: Seen(*row) for row in self.store.rows(_ROWS)}
        strands = {row[0]: SeenStrand(*row) for row in self.store.rows(_STRANDS)}
        before, held = self.rows, self.strands
        self.rows, self.strands = rows, strands
        for row in rows.values():
            old = before.get(row.id)
            if old is None:
                self._check_new(row, held[row.session_id])
            elif old != row:
                self._check_change(old, row, held[row.session_id], by, now)
        for gone in before.keys() - rows.keys():
            self.problem(f"{gone} is gone")
        for strand in strands.values():
            self._check_strand(held.get(strand.session_id), strand, by, now)

    def _check_new(self, row: Seen, strand: SeenStrand) -> None:
        self.say(f"{row.id} ({row.session_id}/{row.seq}) comes in")
        if strand.state == "closed":
            self.problem(f"{row.id} came into {row.session_id}, which is closed")
        if row.seq < strand.next_seq:
            self.problem(f"{row.id} came in as {row.seq} of {row.session_id}, where {strand.next_seq} is next")
        if any(other.source == row.source and other.id != row.id for other in self.rows.values()):
            self.problem(f"{row.source} came in twice")

    def _check_change(self, old: Seen, row: Seen, strand: SeenStrand, by: str, now: datetime) -> None:
        if old.status != row.status:
            self.say(f"{by}: {row.id} ({row.session_id}/{row.seq}) {old.status} -> {row.status}")
        if old.status in ENDED:
            self.problem(f"{row.id} was {old.status} and became {row}")
        if row.status == "expired":
            if row.session_id not in self.closing and row.id not in self.expiring:
                self.problem(f"{row.id} was given up, and nobody asked for that")
        elif old.status == "processing" and (row.status != "processing" or row.token != old.token):
            assert strand.lease_until is not None
            assert strand.holder is not None
            if strand.holder != by or instant(strand.lease_until) <= now:
                self.taken_away(row.id, strand.holder, instant(strand.lease_until), by=by, now=now)
        if row.status == "delivered" and old.status != "delivered":
            self._check_told(old, row)
        if row.status == "processing" and row.token != old.token:
            self._check_claim(row, strand)

    def _check_told(self, old: Seen, row: Seen) -> None:
        delivery = self.deliveries.get((row.id, row.token))
        if old.status != "processing" or delivery is None or not delivery.done:
            self.problem(f"{row.id} counts as delivered under token {row.token} and was not")

    def _check_claim(self, row: Seen, strand: SeenStrand) -> None:
        for other in self._of(row.session_id):
            if other.seq < row.seq and other.status not in ENDED:
                self.problem(f"{row.id} was claimed before {other.id}")
        since = self.heads_since.pop(row.session_id, None)
        if strand.state != "starting":
            return
        self.claimed_starting.add((row.id, row.token))
        exempt = self.clocks_differ or row.session_id in self.hastened
        if since is not None and not exempt and self.clock.monotonic() - since < self.gate - 4 * self.latency - 0.2:
            self.problem(f"{row.id} was claimed before {row.session_id} had its time to start")

    def _check_strand(self, old: SeenStrand | None, strand: SeenStrand, by: str, now: datetime) -> None:
        open_rows = [row for row in self._of(strand.session_id) if row.status not in ENDED]
        head = min((row.seq for row in open_rows), default=None)
        if (len(open_rows), head) != (strand.open_count, strand.head_seq):
            self.problem(f"{strand} miscounts {len(open_rows)} open, of which {head} is the first")
        held = [row for row in open_rows if row.status == "processing"]
        if [row.seq for row in held] != ([head] if strand.lease_until else []):
            self.problem(f"{strand} is held for {held}")
        if (strand.due_at is not None) != (head is not None and strand.lease_until is None):
            self.problem(f"{strand} is neither due nor held nor empty")
        if old is None:
            return
        if strand.token < old.token:
            self.problem(f"the token of {strand.session_id} went back")
        live = old.lease_until is not None and instant(old.lease_until) > now
        claimed = strand.token > old.token and strand.lease_until is not None
        if claimed and live and old.holder != by and not self.clocks_differ:
            self.problem(f"{by} claimed {strand.session_id}, which {old.holder} holds")
        self._note_head(old, strand)

    def _note_head(self, old: SeenStrand, strand: SeenStrand) -> None:
        """A head that a starting session gets, or has while it begins to start, is given the time of the gate."""
        is_new = old.head_seq != strand.head_seq or old.state != "starting"
        if strand.state != "starting" or strand.head_seq is None or strand.lease_until is not None:
            self.heads_since.pop(strand.session_id, None)
        elif is_new:
            self.heads_since[strand.session_id] = self.clock.monotonic()

    def _of(self, session_id: str) -> list[Seen]:
        return [row for row in self.rows.values() if row.session_id == session_id]

    def began(self, node: str, message: InboundMessage) -> Delivery:
        self.say(f"{node} delivers {message.id} attempt {message.attempt_count} token {message.token}")
        delivery = self.begin(message.id, message.token, node)
        row, strand = self.rows[message.id], self.strands[message.session_id]
        if (row.id, message.token) in self.claimed_starting:
            self.problem(f"{row.id} was given to {row.session_id}, which was still starting")
        if row.status == "expired":
            self._check_over(node, row, "begun")
            return delivery
        held = (row.status, row.token) == ("processing", message.token) and strand.token == message.token
        if not self.clocks_differ and (not held or strand.holder != node or self.is_over(strand.lease_until)):
            self.problem(f"{node} began {message.id} under a lease that was over")
        for other in self._of(message.session_id):
            if other.seq < row.seq and other.status not in ENDED:
                self.problem(f"{message.id} passed {other.id}, which waits")
        return delivery

    def ended(self, message: InboundMessage, delivery: Delivery) -> None:
        delivery.ended = self.clock.monotonic()
        row = self.rows[message.id]
        if row.status == "expired" and delivery.done:
            self._check_over(delivery.node, row, "delivered")

    def _check_over(self, node: str, row: Seen, what: str) -> None:
        """Who gave it up knows at once, the others as soon as they hear of it and have asked."""
        if (node, row.session_id) in self.closed_by:
            self.problem(f"{row.id} was {what} by {node}, which had closed its session")
        since = min((self.over_since[key] for key in (row.id, row.session_id) if key in self.over_since), default=None)
        if since is None or self.rings_lost or self.disturbed(node):
            return
        if (late := self.clock.monotonic() - since) > 1 + 4 * self.latency:
            self.problem(f"{row.id} was still {what} by {node} {late:.3f} s after it was given up")

    def answered(self, source: str, message_id: int) -> None:
        """A producer was told that its message is on disk."""
        if self.acknowledged.setdefault(source, message_id) != message_id or message_id not in self.rows:
            self.problem(f"{source} was acknowledged as {message_id} and as {self.acknowledged[source]}")

    @property
    def messages(self) -> int:
        return len(self.rows)

    def unended(self) -> bool:
        return any(row.status not in ENDED for row in self.rows.values() if row.session_id != self.stuck)

    def held_by(self, node: str) -> list[str]:
        return [strand.session_id for strand in self.strands.values() if strand.lease_until and strand.holder == node]

    def finish(self) -> list[str]:
        for source, row_id in self.acknowledged.items():
            if row_id not in self.rows:
                self.problem(f"{source} was acknowledged and is gone")
        for row in self.rows.values():
            if row.status not in ENDED and row.session_id != self.stuck:
                self.problem(f"{row} was not delivered: {self.strands[row.session_id]}")
            counted = sum(each.counted for each in self.tries(row.id))
            if row.attempt_count < counted:
                self.problem(f"{row} was begun {counted} times")
            if self.undisturbed and row.status == "delivered" and row.attempt_count != counted:
                self.problem(f"{row} was begun {counted} times and nothing was in the way")
        self.check_duplicates(self.rows)
        return self.problems
