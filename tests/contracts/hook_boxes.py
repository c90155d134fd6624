"""A hooks pipe on any database, beside the sessions and the inbound pipe, in a time that the test moves by hand."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from random import Random
from typing import Any

from pillarbox.engine import Delivered, Lease, Outcome, Room, Settlement, Strand
from pillarbox.hooks.lane import HookLane
from pillarbox.hooks.model import Checked, HookRecord, HookRow
from pillarbox.hooks.pipe import Hooks
from pillarbox.hooks.policy import HooksPolicy
from pillarbox.hooks.strands import Answer, enqueue
from pillarbox.telemetry import Metrics
from pillarbox.testing import ManualClock
from tests.contracts.boxes import Node, node_at, node_on

OPEN = ("pending", "processing", "failed")


@dataclass(slots=True)
class HookNode:
    """One process on the database, as its hooks see it."""

    node: Node
    hooks: Hooks
    lease: Lease

    @property
    def lane(self) -> HookLane:
        return self.hooks.lane

    @property
    def clock(self) -> ManualClock:
        return self.node.clock

    @property
    def now(self) -> datetime:
        return self.node.now

    async def post(self, session_id: str, event_type: str = "agent_stop", **payload: Any) -> int:
        return (await self.hooks.post(session_id, event_type, payload)).id

    async def post_all(self, session_id: str, *event_types: str) -> list[int]:
        return [await self.post(session_id, event_type) for event_type in event_types]

    async def store(self, *items: Checked) -> list[Answer]:
        """Take events in as one set, in this order."""
        answers: list[Answer] = await self.node.database.write(partial(enqueue, items, now=self.now))
        return answers

    async def store_types(self, session_id: str, *event_types: str) -> None:
        await self.store(*(Checked(session_id, event_type, "{}", self.now) for event_type in event_types))

    async def claim(self, slots: int = 64) -> Sequence[Strand[HookRow]]:
        return await self.lane.claim(self.lease, room=Room(slots, slots), now=self.now)

    async def claim_one(self) -> Strand[HookRow]:
        (strand,) = await self.claim()
        return strand

    async def settle(self, strand: Strand[HookRow], *outcomes: Outcome) -> bool:
        """Report on the strand's first rows, on all of them unless told otherwise; whether every report was taken."""
        reports = reports_on(strand, outcomes or (Delivered(),) * len(strand.rows))
        return not await self.lane.settle(reports, now=self.now)

    def renew(self, *strands: Strand[HookRow]) -> Sequence[Strand[HookRow]]:
        return self.lane.renew(strands, self.lease, now=self.now)

    async def get(self, event_id: int) -> HookRecord:
        return await self.hooks.get(event_id)

    async def records(self, session_id: str) -> list[HookRecord]:
        return await self.hooks.list(session_id=session_id, limit=10_000)

    async def statuses(self, session_id: str) -> list[str]:
        return [record.status for record in await self.records(session_id)]

    async def corrupt(self, event_id: int, payload: str) -> None:
        await self.node.sql(
            "UPDATE hook_outbox SET payload = :payload, checksum = NULL WHERE id = :id", id=event_id, payload=payload
        )

    async def check_counters(self) -> None:
        """What each strand and the status say of the rows is what the rows say."""
        rows: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for session_id, seq, status in await self.node.sql("SELECT session_id, seq, status FROM hook_event"):
            rows[session_id].append((seq, status))
        strands = await self.node.sql(
            "SELECT session_id, next_seq, head_seq, open_count, held_count, failing, due_at, lease_until FROM hook_strand"
        )
        for session_id, next_seq, head_seq, open_count, held_count, failing, due_at, lease_until in strands:
            statuses = [status for _, status in rows[session_id]]
            unended = [seq for seq, status in rows[session_id] if status in OPEN]
            assert open_count == len(unended), session_id
            assert held_count == statuses.count("processing"), session_id
            assert head_seq == min(unended, default=None), session_id
            assert next_seq > max((seq for seq, _ in rows[session_id]), default=0), session_id
            assert (lease_until is not None) == (held_count > 0), session_id
            assert (due_at is not None) == (bool(unended) and not held_count), session_id
            if lease_until is None:
                assert failing == statuses.count("failed"), session_id
        said = await self.hooks.status()
        every = [status for of_one in rows.values() for _, status in of_one]
        shown = (said.pending, said.processing, said.failed, said.dead)
        assert shown == tuple(every.count(status) for status in (*OPEN, "dead"))


def reports_on(strand: Strand[HookRow], outcomes: Sequence[Outcome], *, skip: int = 0) -> list[Settlement[HookRow]]:
    """Reports on the strand's rows, the first `skip` left out, as the engine makes them."""
    return [
        Settlement(strand, row, outcome, row is strand.rows[-1] or not isinstance(outcome, Delivered))
        for row, outcome in zip(strand.rows[skip:], outcomes, strict=False)
    ]


def hook_node_on(node: Node, policy: HooksPolicy | None = None) -> HookNode:
    """The hooks of a process that is there already."""
    chosen = policy or HooksPolicy()
    hooks = Hooks(
        node.database,
        policy=chosen,
        holder=node.name,
        metrics=Metrics("pillarbox"),
        random=Random(0),
        sessions=node.sessions,
        confirm=node.inbound.confirming,
    )
    return HookNode(node, hooks, Lease(node.name, chosen.lease))


@asynccontextmanager
async def another(here: HookNode) -> AsyncIterator[HookNode]:
    """Another process on the same database."""
    there = hook_node_on(node_on(here.node.database, here.clock, "there"))
    yield there
    await there.hooks.close()
    await there.node.inbound.close()


@asynccontextmanager
async def hook_node_at(url: str, policy: HooksPolicy | None = None) -> AsyncIterator[HookNode]:
    """A migrated database and one node on it, whose counters are checked at the end."""
    async with node_at(url) as node:
        here = hook_node_on(node, policy)
        try:
            yield here
            await here.check_counters()
        finally:
            await here.hooks.close()
