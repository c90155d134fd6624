"""What the engine asks of a table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol

from pillarbox.engine.lease import Lease, RowT, Settlement, Strand
from pillarbox.engine.room import Room


@dataclass(frozen=True, slots=True)
class Turn(Generic[RowT]):
    """What one turn brought: new strands, and the settlements that came too late."""

    claimed: Sequence[Strand[RowT]]
    lost: Sequence[Settlement[RowT]]
    since: float = 0.0
    """For one that a lane took by itself, the monotonic time at which it began."""
    partial: bool = False
    """Likewise, whether it did not look at all that a turn looks at."""
    handed: Sequence[Strand[RowT]] = ()
    """What others have claimed for the holder."""
    handed_since: float = 0.0
    """When the leases of that began, at the soonest, in monotonic time."""


class Standby(Protocol[RowT]):
    """A claim that waits for work."""

    def withdraw(self) -> Awaitable[Turn[RowT]] | None:
        """None if it was not begun and never will be; otherwise what comes of it."""


class Lane(Protocol[RowT]):
    """A table of rows to deliver.

    Each verb is one transaction, and each later write is fenced: it changes a row only while the strand's token is the
    one the row is held under. `claim` first takes back what others held too long, then takes the strands that are due,
    never two of one key and never into a full destination. A refused settlement is answered, not raised. `Unavailable`
    may be raised by all.
    """

    def apart(self, settlements: Sequence[Settlement[RowT]]) -> bool:
        """Whether these can be settled in one transaction while more is claimed in another."""

    async def claim(self, lease: Lease, *, room: Room, now: datetime) -> Sequence[Strand[RowT]]: ...

    async def settle(self, settlements: Sequence[Settlement[RowT]], *, now: datetime) -> Sequence[Settlement[RowT]]:
        """Record how deliveries ended; answers those whose hold had been lost."""

    async def turn(
        self, settlements: Sequence[Settlement[RowT]], lease: Lease, *, room: Room, now: datetime
    ) -> Turn[RowT]:
        """Settle, then claim, in one transaction."""

    def stand_by(self, lease: Lease, *, room: Room, ready: Callable[[], None]) -> Standby[RowT] | None:
        """Claim by itself, once, the moment another process brings work, and call `ready` on the loop that called this.

        Saves that loop from being woken only to ask; None where there is nothing to be saved.
        """

    def renew(self, strands: Sequence[Strand[RowT]], lease: Lease, *, now: datetime) -> Sequence[Strand[RowT]]:
        """Hold on for another lease, from a thread that may block; answers those still held."""

    def held(self, strands: Sequence[Strand[RowT]]) -> Sequence[Strand[RowT]]:
        """Those of the strands that are still held under their token, without changing anything; may block."""

    async def held_by(self, lease: Lease) -> Sequence[Strand[RowT]]:
        """Everything that the lease's holder holds, whether or not it knows: the answer to a claim may have been lost."""

    async def release(self, strands: Sequence[Strand[RowT]], *, now: datetime) -> None:
        """Give back what was not begun, and the attempt with it."""

    async def retire(self, lease: Lease) -> Sequence[Strand[RowT]]:
        """Nobody waits any more: nothing is claimed from now on that the holder does not ask for; answers what may have been."""

    async def next_due(self, *, now: datetime) -> datetime | None:
        """When something is to be done next: a row falls due, or a lease ends."""

    async def prune(self, *, before: datetime, limit: int) -> int:
        """Delete up to `limit` rows that ended before then; answers how many."""
