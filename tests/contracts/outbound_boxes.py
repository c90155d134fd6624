"""An outbound pipe on any database, in a time that the test moves by hand, and a check that its tables agree."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any

from pillarbox.box import open_database
from pillarbox.engine import Lease, Outcome, Room, Settlement, Strand
from pillarbox.outbound.attempt import Accepted, Parcel, Rejected, Report, Transient
from pillarbox.outbound.lane import OutboundLane
from pillarbox.outbound.model import NewMessage, NewTenant, OutboundMessage, TenantSettings
from pillarbox.outbound.pipe import Outbound
from pillarbox.outbound.policy import OutboundPolicy
from pillarbox.outbound.providers import providers
from pillarbox.secrets.sealing import Sealer
from pillarbox.settings import Settings
from pillarbox.storage import Database, Row, Step, instant
from pillarbox.storage.migrate import migrate
from pillarbox.storage.queries import parse_queries
from pillarbox.telemetry import Metrics
from pillarbox.testing import ManualClock

KEY = bytes(range(32))
WAITING = ("pending", "retrying")
TABLES = (
    "message_queue",
    "message_history",
    "message_copy",
    "message_attempt",
    "message_event",
    "message_opt_out",
    "idempotency_key",
    "tenants",
)


def accepted(**report: Any) -> Accepted:
    return Accepted(report=Report("accepted", "sandbox", **report))


def rejected(error: str = "Refused.", **report: Any) -> Rejected:
    return Rejected(error, Report("rejected", "sandbox", error=error, **report))


def transient(at: datetime, error: str = "Busy.", **report: Any) -> Transient:
    return Transient(error, at, report=Report("transient", "sandbox", error=error, **report))


def unknown(at: datetime, error: str = "No answer.") -> Transient:
    return Transient(error, at, report=Report("unknown", "sandbox", error=error))


@dataclass(slots=True)
class OutboundNode:
    """One process on the database, as its outbound pipe sees it."""

    database: Database
    clock: ManualClock
    outbound: Outbound
    lease: Lease

    @property
    def lane(self) -> OutboundLane:
        return self.outbound.lane

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def later(self, seconds: float) -> datetime:
        return self.now + timedelta(seconds=seconds)

    async def tenant(self, *tenant_ids: str, rate: int | None = None, **settings: Any) -> None:
        """Make tenants that send by the sandbox."""
        sandbox = {channel: {"provider": "sandbox"} for channel in ("email", "sms", "webhook")}
        new = NewTenant(providers=sandbox, settings=TenantSettings(rate_per_minute=rate, **settings))
        for tenant_id in tenant_ids:
            await self.outbound.tenants.put(tenant_id, new)

    async def put(
        self, tenant_id: str = "acme", to: str = "ann@example.com", *, key: str | None = None, **of: Any
    ) -> str:
        fields = {"channel": "email", "subject": "Hello", "text": "How are you?", **of}
        new = NewMessage(to=to, **fields)
        return await self.outbound.send(tenant_id, new, idempotency_key=key)

    async def put_many(self, tenant_id: str, count: int, **of: Any) -> list[str]:
        return [await self.put(tenant_id, **of) for _ in range(count)]

    async def claim(self, slots: int = 64, *, room: Room | None = None) -> Sequence[Strand[Parcel]]:
        return await self.lane.claim(self.lease, room=room or Room(slots, slots), now=self.now)

    async def claim_one(self) -> Strand[Parcel]:
        claimed = await self.claim()
        assert len(claimed) == 1, "exactly one message was to be claimed"
        return claimed[0]

    async def claimed_ids(self, slots: int = 64) -> list[str]:
        return [strand.key for strand in await self.claim(slots)]

    async def settle(self, strand: Strand[Parcel], outcome: Outcome | None = None) -> bool:
        """Whether the report was taken."""
        settlement = Settlement(strand, strand.rows[0], outcome or accepted())
        return not await self.lane.settle([settlement], now=self.now)

    async def fail(self, message_id: str) -> None:
        """Let a message that is ready be rejected."""
        strands = {strand.key: strand for strand in await self.claim()}
        assert await self.settle(strands.pop(message_id), rejected())
        await self.lane.release(list(strands.values()), now=self.now)

    async def get(self, message_id: str) -> OutboundMessage:
        return await self.outbound.get(message_id)

    async def status_of(self, *message_ids: str) -> list[str]:
        return [(await self.get(message_id)).status for message_id in message_ids]

    async def sql(self, text: str, **params: object) -> list[Row]:
        (query,) = parse_queries(f"-- name: one\n{text}\n")

        def work() -> Step[list[Row]]:
            return (yield query(**params))

        return await self.database.write(work)

    async def everything(self) -> str:
        """All that any row says, as one text."""
        return repr([await self.sql(f"SELECT * FROM {table}") for table in TABLES])

    async def check_agreement(self) -> None:
        """Queue, history and attempts tell the same of every message."""
        history = {
            row[0]: row
            for row in await self.sql(
                "SELECT message_id, tenant_id, channel, status, attempt_count, next_attempt_at, priority FROM message_history"
            )
        }
        queue = {
            row[0]: row
            for row in await self.sql(
                "SELECT message_id, tenant_id, channel, state, attempt_count, next_attempt_at, priority, last_attempt, "
                "lease_until, holder, claimed_at FROM message_queue"
            )
        }
        attempts: dict[str, list[int]] = {message_id: [] for message_id in history}
        for message_id, attempt in await self.sql("SELECT message_id, attempt FROM message_attempt ORDER BY attempt"):
            attempts[message_id].append(attempt)
        assert queue.keys() == {key for key, row in history.items() if row[3] in WAITING}
        for message_id, row in history.items():
            assert attempts[message_id] == list(range(1, row[4] + 1)), message_id
            assert (row[5] is not None) == (row[3] in WAITING), message_id
        for message_id, (_, tenant, channel, state, count, due, priority, last, *hold) in queue.items():
            told = history[message_id]
            running = state == "sending"
            assert (tenant, channel, priority) == (told[1], told[2], told[6])
            assert count == told[4] + running, message_id
            assert count <= last, message_id
            assert [part is not None for part in hold] == [running] * 3, message_id
            assert running or instant(due) == instant(told[5]), message_id


def outbound_node_on(
    database: Database, clock: ManualClock, name: str = "here", policy: OutboundPolicy | None = None
) -> OutboundNode:
    """A process on a database that is there already."""
    chosen = policy or OutboundPolicy()
    outbound = Outbound(
        database,
        policy=chosen,
        providers=providers(),
        sealer=Sealer(KEY),
        holder=name,
        metrics=Metrics("pillarbox"),
        random=Random(0),
    )
    return OutboundNode(database, clock, outbound, Lease(name, chosen.lease))


@asynccontextmanager
async def another(here: OutboundNode, policy: OutboundPolicy | None = None) -> AsyncIterator[OutboundNode]:
    """Another process on the same database."""
    there = outbound_node_on(here.database, here.clock, "there", policy)
    yield there
    await there.outbound.close()


@asynccontextmanager
async def outbound_node_at(url: str, policy: OutboundPolicy | None = None) -> AsyncIterator[OutboundNode]:
    """A migrated database and one node on it, whose tables are checked at the end."""
    database = await open_database(url, Settings())
    try:
        clock = ManualClock()
        database.clock = clock  # type: ignore[misc]
        await migrate(database)
        here = outbound_node_on(database, clock, policy=policy)
        try:
            yield here
            await here.check_agreement()
        finally:
            await here.outbound.close()
    finally:
        await database.close()
