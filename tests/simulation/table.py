"""A table of strands in memory, faithful to what a lane promises: tokens that only grow, leases, deaths, one head per key."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from pillarbox.engine import Delivered, Lease, Retry, Room, Settlement, Skipped, Strand, Turn
from tests.simulation.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Parcel:
    """A row as it was claimed."""

    id: str
    key: str
    seq: int
    token: int
    attempt_count: int


@dataclass(slots=True)
class Row:
    seq: int
    status: Literal["open", "held", "delivered", "expired"] = "open"
    attempt_count: int = 0
    death_count: int = 0


@dataclass(slots=True)
class State:
    destination: str
    rows: list[Row] = field(default_factory=list)
    token: int = 0
    due: datetime | None = None
    lease_until: datetime | None = None
    holder: str | None = None
    closed: bool = False

    @property
    def open_rows(self) -> list[Row]:
        return [row for row in self.rows if row.status in ("open", "held")]


class Table:
    """What the store knows; each verb is one transaction."""

    def __init__(self, ledger: Ledger, *, most: int, deaths: int, later: timedelta) -> None:
        self._ledger = ledger
        self._most = most
        self._deaths = deaths
        self._later = later
        self.strands: dict[str, State] = {}

    def enqueue(self, key: str, now: datetime) -> bool:
        state = self.strands[key]
        if state.closed:
            return False
        if not state.open_rows:
            state.due = now
        state.rows.append(Row(len(state.rows) + 1))
        return True

    def close(self, key: str) -> None:
        state = self.strands[key]
        for row in state.open_rows:
            row.status = "expired"
        state.closed, state.due, state.lease_until, state.holder = True, None, None, None
        state.token += 1
        self._ledger.closed(key)

    def turn(
        self, settlements: Sequence[Settlement[Parcel]], lease: Lease, *, room: Room, now: datetime
    ) -> Turn[Parcel]:
        lost = self.settle(settlements, now=now)
        if room.slots <= 0:
            return Turn((), lost)
        self._rescue(now)
        due = [key for key, state in self.strands.items() if state.due is not None and state.due <= now]
        due.sort(key=lambda key: str(self.strands[key].due))
        fitting, _ = room.admit([self.strands[key].destination for key in due])
        return Turn([self._take(due[position], lease, now) for position in fitting], lost)

    def settle(self, settlements: Sequence[Settlement[Parcel]], *, now: datetime) -> list[Settlement[Parcel]]:
        return [settlement for settlement in settlements if not self._settle(settlement, now)]

    def renew(self, strands: Sequence[Strand[Parcel]], lease: Lease, *, now: datetime) -> list[Strand[Parcel]]:
        kept = [strand for strand in strands if self._holds(strand)]
        for strand in kept:
            self._ledger.renewed(strand)
            self.strands[strand.key].lease_until = now + lease.length
        return kept

    def next_due(self) -> datetime | None:
        times = [time for state in self.strands.values() for time in (state.due, state.lease_until) if time]
        return min(times, default=None)

    def held_by(self, holder: str) -> list[str]:
        return [key for key, state in self.strands.items() if state.holder == holder]

    def strands_of(self, holder: str) -> list[Strand[Parcel]]:
        return [self._held_strand(key) for key in self.held_by(holder)]

    def release(self, strands: Sequence[Strand[Parcel]], *, now: datetime) -> None:
        for strand in strands:
            self._settle(Settlement(strand, strand.rows[0], Skipped("", at=now)), now)

    def _held_strand(self, key: str) -> Strand[Parcel]:
        state = self.strands[key]
        held = (row for row in state.rows if row.status == "held")
        parcels = (Parcel(f"{key}/{row.seq}", key, row.seq, state.token, row.attempt_count) for row in held)
        return Strand(key, state.destination, state.token, tuple(parcels))

    def _holds(self, strand: Strand[Parcel]) -> bool:
        state = self.strands[strand.key]
        return state.lease_until is not None and state.token == strand.token

    def _rescue(self, now: datetime) -> None:
        for key, state in self.strands.items():
            if state.lease_until is not None and state.lease_until <= now:
                self._ledger.rescued(key, state.token, state.lease_until)
                held = [row for row in state.rows if row.status == "held"]
                for row in held:
                    row.status, row.death_count = "open", row.death_count + 1
                waits = held[0].death_count >= self._deaths
                state.due, state.lease_until, state.holder = now + self._later if waits else now, None, None

    def _take(self, key: str, lease: Lease, now: datetime) -> Strand[Parcel]:
        state = self.strands[key]
        assert state.due is not None
        self._ledger.claimed(key, state.token + 1, lease.holder, due=state.due, now=now)
        state.token, state.due, state.lease_until, state.holder = (
            state.token + 1,
            None,
            now + lease.length,
            lease.holder,
        )
        taken = state.open_rows[: self._most]
        for row in taken:
            row.status, row.attempt_count = "held", row.attempt_count + 1
            self._ledger.counted(key, row.seq, 1)
        parcels = (Parcel(f"{key}/{row.seq}", key, row.seq, state.token, row.attempt_count) for row in taken)
        return Strand(key, state.destination, state.token, tuple(parcels))

    def _settle(self, settlement: Settlement[Parcel], now: datetime) -> bool:
        state, row = self.strands[settlement.strand.key], self._row(settlement.row)
        if not self._holds(settlement.strand):
            return False
        self._ledger.settled(settlement, current=state.token)
        match settlement.outcome:
            case Delivered():
                row.status, due = "delivered", now
            case Retry(at=at) | Skipped(at=at):
                assert at is not None
                row.status, due = "open", at
                if isinstance(settlement.outcome, Skipped):
                    self._give_back(settlement.row.key, row)
            case other:
                raise AssertionError(other)
        if settlement.ends:
            for begun in (row for row in state.rows if row.status == "held"):
                begun.status = "open"
                self._give_back(settlement.row.key, begun)
            state.lease_until, state.holder = None, None
            state.due = due if state.open_rows else None
        return True

    def _row(self, parcel: Parcel) -> Row:
        return self.strands[parcel.key].rows[parcel.seq - 1]

    def _give_back(self, key: str, row: Row) -> None:
        row.attempt_count -= 1
        self._ledger.counted(key, row.seq, -1)
