"""Offers of a node that has come to rest: whoever stores an event that comes alone claims it for the node, in the same commit."""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from pillarbox.clock import Clock
from pillarbox.engine import Lease, Standby, Strand, Turn
from pillarbox.hooks.model import HookRow, row_from
from pillarbox.process import neighbourhood
from pillarbox.storage import Database, Row, Step, load_queries

_queries = load_queries("pillarbox.hooks", "offers.sql")

# Longer ones would have to be kept up, and what is handed to a node that was stopped meanwhile waits for its lease.
LONGEST = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Offer:
    """To take one event: until when, and until when it is held then, by this name; `since` is the monotonic time of all that.

    The name is a holder's, and no other offer has it: what was handed over is known by it, whatever becomes of the lease.
    """

    name: str
    until: datetime
    lease_until: datetime
    since: float


def hands_over(database: Database) -> bool:
    """Whether anybody does: where the processes of one machine share a file, and see each other die."""
    return database.dialect == "sqlite" and neighbourhood() != ""


def offering() -> Step[list[str]]:
    """Everybody who offers to take something."""
    return [holder for (holder,) in (yield _queries.offering())]


def forget(holders: Sequence[str]) -> Step[None]:
    """Take back what these have offered."""
    yield _queries.withdraw(holders=list(holders))


class Offers:
    """What one node has offered, or may have: the answer to a transaction that offered something can be lost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._numbers = count(1)
        self._possible: dict[str, Offer] = {}

    @property
    def any(self) -> bool:
        """Whether something may be handed over, or may have been."""
        return bool(self._possible)

    def may_be_taken(self, now: datetime) -> bool:
        """Whether something may still be handed over."""
        return any(now < offer.until for offer in self._possible.values())

    def new(self, lease: Lease, now: datetime) -> Offer:
        until = now + min(LONGEST, lease.length / 2)
        return Offer(f"{lease.holder}#{next(self._numbers)}", until, now + lease.length, self._clock.monotonic())

    def make(self, offer: Offer) -> Step[Sequence[Offer]]:
        """Offer to take an event, instead of what was offered before."""
        now = self._clock.now()
        # Or they would become more and more where nothing can be committed.
        self.now_stand(self.standing(now))
        yield from self.withdraw()
        # Noted before anybody knows whether it is committed, and the same however often this is run.
        self._possible[offer.name] = offer
        yield _queries.clear(now=now, latest=now + LONGEST)
        yield _queries.make(holder=offer.name, until=offer.until, lease_until=offer.lease_until)
        return (offer,)

    def withdraw(self) -> Step[Sequence[Offer]]:
        """Take back what is offered, if anything is."""
        if self._possible:
            yield _queries.withdraw(holders=list(self._possible))
        return ()

    def standing(self, now: datetime) -> Sequence[Offer]:
        """What may be offered, as long as something may be held under it: who accepts it has read the time before."""
        return [offer for offer in self._possible.values() if now < offer.lease_until]

    def handed(self) -> Step[Turn[HookRow]]:
        """A turn with what was handed over and is still held."""
        possible, now = tuple(self._possible.values()), self._clock.now()
        rows: list[Row] = []
        for offer in possible:
            rows += yield _queries.handed(holder=offer.name, now=now, lease_until=offer.lease_until)
        strands = [Strand(row[1], row[1], row[11], (row_from(row),)) for row in rows]
        return Turn([], [], handed=strands, handed_since=min((offer.since for offer in possible), default=0.0))

    def now_stand(self, offers: Sequence[Offer]) -> None:
        """Only these may be on disk now, and what was handed over under any other is known."""
        self._possible = {offer.name: offer for offer in offers}


@dataclass(frozen=True, slots=True)
class Resting:
    """A claim that waits for work; what comes by it may have been handed over."""

    standby: Standby[HookRow]
    offers: Offers

    def withdraw(self) -> Awaitable[Turn[HookRow]] | None:
        coming = self.standby.withdraw()
        return None if coming is None else _Coming(coming, self.offers)


@dataclass(frozen=True, slots=True)
class _Coming:
    """A turn that was taken by itself; whoever takes it on knows what was handed over."""

    turn: Awaitable[Turn[HookRow]]
    offers: Offers

    def __await__(self) -> Generator[Any, None, Turn[HookRow]]:
        turn = yield from self.turn.__await__()
        if turn.handed:
            self.offers.now_stand(())
        return turn
