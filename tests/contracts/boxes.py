"""Sessions and an inbound pipe on any database, in a time that the test moves by hand."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from pillarbox.box import open_database
from pillarbox.engine import Delivered, Lease, Outcome, Room, Settlement, Strand
from pillarbox.inbound import Inbound
from pillarbox.inbound.lane import InboundLane
from pillarbox.inbound.model import Enqueued, InboundMessage, Parcel
from pillarbox.inbound.policy import InboundPolicy
from pillarbox.sessions import Session, Sessions
from pillarbox.settings import Settings
from pillarbox.storage import Database, Row, Step
from pillarbox.storage.migrate import migrate
from pillarbox.storage.queries import parse_queries
from pillarbox.telemetry import Metrics
from pillarbox.testing import ManualClock

MINUTE = timedelta(minutes=1)


@dataclass(slots=True)
class Node:
    """One process on the database: its pipe, its sessions, and its name."""

    database: Database
    clock: ManualClock
    inbound: Inbound
    sessions: Sessions
    name: str
    lease: Lease

    @property
    def lane(self) -> InboundLane:
        return self.inbound.lane

    @property
    def now(self) -> datetime:
        return self.clock.now()

    async def open(self, session_id: str, *, url: str = "http://one.example/", **fields: Any) -> Session:
        fields.setdefault("target", {"kind": "http", "url": url})
        return await self.sessions.open(session_id=session_id, **fields)

    async def put(self, session_id: str, content: str = "hi", **fields: Any) -> Enqueued:
        return await self.inbound.enqueue(
            session_id=session_id, origin=fields.pop("origin", "chat"), content=content, **fields
        )

    async def claim(self, slots: int = 64, *, room: Room | None = None) -> Sequence[Strand[Parcel]]:
        return await self.lane.claim(self.lease, room=room or Room(slots, slots), now=self.now)

    async def claim_one(self) -> Strand[Parcel]:
        (strand,) = await self.claim()
        return strand

    async def settle(self, strand: Strand[Parcel], outcome: Outcome | None = None) -> bool:
        """Whether the report was taken."""
        settlement = Settlement(strand, strand.rows[0], outcome or Delivered())
        return not await self.lane.settle([settlement], now=self.now)

    def renew(self, *strands: Strand[Parcel]) -> Sequence[Strand[Parcel]]:
        return self.lane.renew(strands, self.lease, now=self.now)

    async def get(self, message_id: int) -> InboundMessage:
        return await self.inbound.get(message_id)

    async def statuses(self, session_id: str) -> list[str]:
        return [message.status for message in await self.inbound.list(session_id=session_id, limit=1000)]

    async def sql(self, text: str, **params: object) -> list[Row]:
        (query,) = parse_queries(f"-- name: one\n{text}\n")

        def work() -> Step[list[Row]]:
            return (yield query(**params))

        return await self.database.write(work)


def node_on(database: Database, clock: ManualClock, name: str = "here", policy: InboundPolicy | None = None) -> Node:
    """Another process on the same database."""
    chosen = policy or InboundPolicy()
    sessions = Sessions(database)
    inbound = Inbound(
        database,
        policy=chosen,
        node=name,
        holder=name,
        metrics=Metrics("pillarbox"),
        random=Random(0),
        sessions=sessions,
    )
    return Node(database, clock, inbound, sessions, name, Lease(name, chosen.lease))


@asynccontextmanager
async def node_at(url: str, name: str = "here", policy: InboundPolicy | None = None) -> AsyncIterator[Node]:
    """A migrated database and one node on it."""
    database = await open_database(url, Settings())
    try:
        clock = ManualClock()
        database.clock = clock  # type: ignore[misc]
        await migrate(database)
        node = node_on(database, clock, name, policy)
        try:
            yield node
        finally:
            await node.inbound.close()
    finally:
        await database.close()
