"""A tenant with very much to send by a slow provider does not keep another one waiting."""

import asyncio
import statistics
import time
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from pillarbox.outbound.messages import Email
from pillarbox.outbound.pipe import Outbound
from pillarbox.storage import Step
from pillarbox.storage.queries import parse_queries
from tests.outbound.working_nodes import Recorder, two_nodes

pytestmark = pytest.mark.long

BACKLOG = 100_000
SLOW = 0.5

_COPY = """
-- name: queue
INSERT INTO message_queue (message_id, tenant_id, channel, state, priority, next_attempt_at, last_attempt, contacts)
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < :count)
SELECT 'm' || c.n, q.tenant_id, q.channel, 'ready', q.priority, q.next_attempt_at, q.last_attempt, q.contacts
FROM message_queue q, c WHERE q.message_id = :message_id

-- name: history
INSERT INTO message_history (message_id, tenant_id, channel, status, max_attempts, priority, category, next_attempt_at, contact,
    to_address, tags, created_at, updated_at, subject, body_text, options)
WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < :count)
SELECT 'm' || c.n, h.tenant_id, h.channel, h.status, h.max_attempts, h.priority, h.category, h.next_attempt_at, h.contact,
    h.to_address, h.tags, h.created_at, h.updated_at, h.subject, h.body_text, h.options
FROM message_history h, c WHERE h.message_id = :message_id
"""
COPY = {query.name: query for query in parse_queries(_COPY)}


class Slow(Recorder):
    """Takes half a second for each."""

    def __init__(self) -> None:
        super().__init__(Random(0), SLOW, fastest=SLOW)


async def pile_up(node: Outbound, tenant: str, count: int) -> None:
    """Queue many copies of a message at once."""
    later = datetime.now(UTC) + timedelta(hours=1)
    message_id = await node.send(tenant, Email(to="ann@example.com", subject="Hello", text="Hi", send_at=later))

    def work() -> Step[None]:
        for name in ("history", "queue"):
            yield COPY[name](message_id=message_id, count=count)

    await node._database.write(work)


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("busy", ["a", "z"])
async def test_another_tenants_message_goes_out_within_a_second(database_url: str, busy: str) -> None:
    recorder = Slow()
    async with two_nodes(database_url, recorder, busy, "m") as nodes:
        await pile_up(nodes[0], busy, BACKLOG)
        for node in nodes:
            node.bell.ring()
        while len(recorder.begun) < 128:  # noqa: ASYNC110 - both nodes are as busy as they get
            await asyncio.sleep(0.05)
        waits = []
        for _ in range(5):
            began = time.monotonic()
            message_id = await nodes[0].send("m", Email(to="bob@example.com", subject="Hello", text="Hi"))
            while not recorder.begun[message_id]:  # noqa: ASYNC110 - noted within this process
                await asyncio.sleep(0.005)
            waits.append(recorder.begun[message_id][0] - began)
        assert statistics.median(waits) < 1
