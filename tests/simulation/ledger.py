"""What happened, written down as it happens, and what must never have happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from pillarbox.engine import Backoff, Delivered, Pace, Retry, Room, Settlement, Strand
from tests.simulation.chronicle import Chronicle, Fault

if TYPE_CHECKING:
    from tests.simulation.table import Parcel, Table

# A node that is alive comes back to the store within its longest pause of two seconds.
_KEEPS_TRYING = 4.0


@dataclass(slots=True)
class Claim:
    node: str
    at: float


@dataclass(slots=True)
class Delivery:
    """One call of a target."""

    node: str
    parcel: Parcel
    began: float
    ended: float | None = None
    done: bool = False


@dataclass(slots=True, kw_only=True)
class Ledger(Chronicle):
    """The checker: it sees the store from inside and the targets from outside, and believes neither."""

    backoff: Backoff
    pace: Pace
    latency: float
    late: float | None
    rings_lost: bool
    table: Table = field(init=False)
    claims: dict[tuple[str, int], Claim] = field(default_factory=dict)
    deliveries: dict[tuple[str, int, int], Delivery] = field(default_factory=dict)
    closings: dict[str, float] = field(default_factory=dict)
    told: dict[tuple[str, str], float] = field(default_factory=dict)
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    rescues: dict[tuple[str, int], float] = field(default_factory=dict)

    def claimed(self, key: str, token: int, node: str, *, due: datetime, now: datetime) -> None:
        self.say(f"{node} claims {key} token {token}")
        self.claims[key, token] = Claim(node, self.clock.monotonic())
        if now > self.clock.now():
            self.problem(f"{node} claimed {key} with a time that has not come")
        late = (self.clock.now() - due).total_seconds()
        if self.late is not None and late > self.late:
            self.problem(f"{key} was due and waited {late:.3f} s although nothing was in its way")

    def rescued(self, key: str, token: int, lease_until: datetime) -> None:
        self.say(f"{key} token {token} is rescued")
        over = (self.clock.now() - lease_until).total_seconds()
        self.rescues[key, token] = self.clock.monotonic() - over
        holder = self.claims[key, token].node
        if not self.disturbed(holder) and holder not in self.ended_nodes:
            self.problem(f"the lease of {key} ran out although {holder} was well")

    def renewed(self, strand: Strand[Parcel]) -> None:
        """A delivery that is over its time must not be held on to."""
        began = [
            d.began for (key, token, _), d in self.deliveries.items() if (key, token) == (strand.key, strand.token)
        ]
        if began and max(began) + self.pace.timeout < self.clock.monotonic() - 0.001:
            self.problem(f"{strand.key} token {strand.token} was renewed past its deadline")

    def counted(self, key: str, seq: int, change: int) -> None:
        self.counts[key, seq] += change

    def closed(self, key: str) -> None:
        self.say(f"{key} is closed")
        self.closings[key] = self.clock.monotonic()

    def close_told(self, node: str, key: str) -> None:
        """From here on this node knows, because it closed the strand itself."""
        self.told[node, key] = self.clock.monotonic()

    def began(self, node: str, parcel: Parcel) -> Delivery:
        self.say(f"{node} delivers {parcel.id} token {parcel.token} attempt {parcel.attempt_count}")
        delivery = Delivery(node, parcel, self.clock.monotonic())
        place = (parcel.key, parcel.token, parcel.seq)
        if place in self.deliveries:
            self.problem(f"{parcel.id} was delivered twice under token {parcel.token}")
        if self.claims[parcel.key, parcel.token].node != node:
            self.problem(f"{node} delivered {parcel.id} under a token that is not its own")
        self._check_hold(node, parcel)
        self._check_order(parcel)
        self.deliveries[place] = delivery
        self._check_room(node)
        return delivery

    def ended(self, delivery: Delivery) -> None:
        delivery.ended = self.clock.monotonic()
        key, node = delivery.parcel.key, delivery.node
        if self.disturbed(node):
            return
        if delivery.ended - delivery.began > self.pace.timeout + 0.001:
            self.problem(f"{delivery.parcel.id} was left to run for {delivery.ended - delivery.began:.3f} s")
        # The node that closed a strand knows at once, the others as soon as they hear of it and have asked.
        heard = self.closings.get(key, delivery.ended) + 1 + 4 * self.latency
        if delivery.ended > self.told.get((node, key), heard) and delivery.done and not self.rings_lost:
            self.problem(f"{delivery.parcel.id} was still delivered by {node} after the close of its strand")

    def _check_room(self, node: str) -> None:
        under_way = [d for d in self.deliveries.values() if d.node == node and d.ended is None]
        if len(under_way) > self.pace.concurrency and not self.disturbed(node):
            self.problem(f"{node} delivers {len(under_way)} at once")
        room = Room.of(self.pace.concurrency, {})
        by_destination = Counter(self.table.strands[d.parcel.key].destination for d in under_way)
        if max(by_destination.values()) > room.cap and not self.disturbed(node):
            self.problem(f"{node} gives one destination more than its share: {by_destination}")

    def _check_hold(self, node: str, parcel: Parcel) -> None:
        key, state = parcel.key, self.table.strands[parcel.key]
        claimed_at = self.claims[key, parcel.token].at
        if key in self.closings:
            if claimed_at > self.closings[key]:
                self.problem(f"{parcel.id} was claimed and delivered after its strand was closed")
            if (node, key) in self.told:
                self.problem(f"{node} began {parcel.id} after it had closed the strand itself")
        elif state.token != parcel.token or state.lease_until is None or state.lease_until <= self.clock.now():
            self.problem(f"{node} began {parcel.id} under a lease that was over")

    def _check_order(self, parcel: Parcel) -> None:
        rows = self.table.strands[parcel.key].rows
        tried = {seq for key, _, seq in self.deliveries if key == parcel.key}
        # A row of the same strand that was delivered under this token may still wait to be settled.
        done = {seq for (key, _, seq), d in self.deliveries.items() if key == parcel.key and d.done}
        for row in rows[: parcel.seq - 1]:
            if row.seq not in tried:
                self.problem(f"{parcel.id} passed seq {row.seq}, which was never tried")
            elif row.status in ("open", "held") and row.seq not in done:
                self.problem(f"{parcel.id} passed seq {row.seq}, which waits for its retry")

    def settled(self, settlement: Settlement[Parcel], *, current: int) -> None:
        parcel, outcome = settlement.row, settlement.outcome
        self.say(f"{parcel.id} token {parcel.token} is settled: {type(outcome).__name__}")
        if settlement.strand.token != current:
            self.problem(f"{parcel.id} was settled under token {parcel.token}, the current one is {current}")
        delivery = self.deliveries.get((parcel.key, parcel.token, parcel.seq))
        if isinstance(outcome, Delivered) and (delivery is None or not delivery.done):
            self.problem(f"{parcel.id} was settled as delivered and was not")
        if self.late is not None and delivery is not None and delivery.ended is not None:
            waited = self.clock.monotonic() - delivery.ended
            if waited > self.late:
                self.problem(f"{parcel.id} waited {waited:.3f} s to be settled although nothing was in its way")
        if isinstance(outcome, Retry):
            self._check_schedule(parcel, outcome, delivery)

    def _check_schedule(self, parcel: Parcel, outcome: Retry, delivery: Delivery | None) -> None:
        assert outcome.at is not None
        if delivery is None or delivery.ended is None:
            self.problem(f"{parcel.id} is to be retried and was not tried")
            return
        steps = self.backoff.steps
        step = steps[min(parcel.attempt_count, len(steps)) - 1]
        ended = self.clock.now() - timedelta(seconds=self.clock.monotonic() - delivery.ended)
        waits = (outcome.at - ended).total_seconds()
        at_once = delivery.node in self.ended_nodes and abs(waits) < 0.001
        if not at_once and abs(waits - step) > 0.001:
            self.problem(f"{parcel.id} waits {waits:.3f} s after attempt {parcel.attempt_count} instead of {step} s")

    def finish(self) -> list[str]:
        """The checks that need the whole story."""
        for key, state in self.table.strands.items():
            for row in state.rows:
                if row.attempt_count != self.counts[key, row.seq]:
                    self.problem(f"{key}/{row.seq} says {row.attempt_count} attempts of {self.counts[key, row.seq]}")
                if row.status in ("open", "held"):
                    self.problem(f"{key}/{row.seq} was not delivered: {state}")
                if row.status == "delivered" and not any(self._successes(key, row.seq)):
                    self.problem(f"{key}/{row.seq} counts as delivered and never was")
                self._check_duplicates(key, row.seq)
        return self.problems

    def _successes(self, key: str, seq: int) -> Iterator[Delivery]:
        return (d for (k, _, s), d in self.deliveries.items() if (k, s) == (key, seq) and d.done)

    def _check_duplicates(self, key: str, seq: int) -> None:
        successes = sorted(self._successes(key, seq), key=lambda delivery: delivery.began)
        for first, second in pairwise(successes):
            if not any(self._explains(fault, first, second) for fault in self.faults):
                self.problem(f"{key}/{seq} was delivered twice, and no fault explains it")

    def _explains(self, fault: Fault, first: Delivery, second: Delivery) -> bool:
        if fault.node != first.node or fault.at > second.began or fault.at + fault.lasts < first.began:
            return False
        # While a node lives it keeps trying to settle, so a short trouble of the store is no excuse.
        lease_ended = self.rescues.get((first.parcel.key, first.parcel.token))
        return (
            fault.kind != "store"
            or first.node in self.ended_nodes
            or (lease_ended is not None and fault.at >= lease_ended - _KEEPS_TRYING)
        )
