"""Taking a person out of everything that is kept, a bounded part at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from functools import partial

from pillarbox.audit import Act, Audit
from pillarbox.outbound import settling
from pillarbox.outbound.lane import queries as of_queue
from pillarbox.outbound.taking import FORGOTTEN
from pillarbox.storage import Database, Step, Work, load_queries

_AT_ONCE = 500
queries = load_queries("pillarbox.outbound", "forgetting.sql")


async def forget(database: Database, tenant_id: str, hashes: Iterable[str]) -> int:
    """Forget a contact under each of its forms; answers in how many messages.

    Noted with the first step: what was begun is known, whatever becomes of the rest.
    """
    forgotten, act = 0, Act("forget", "tenant", tenant_id, tenant_id)
    write: Callable[[Work[int]], Awaitable[int]] = partial(Audit(database).write, act)
    for hashed in hashes:
        step = _AT_ONCE
        while step == _AT_ONCE:
            step = await write(partial(_forget_some, tenant_id, hashed, database.clock.now()))
            write = database.write
            forgotten += step
    return forgotten


def _forget_some(tenant_id: str, contact: str, now: datetime) -> Step[int]:
    """Take a contact and what it was sent out of some messages; answers how many."""
    found = yield queries.messages_of_contact(tenant_id=tenant_id, contact=contact, limit=_AT_ONCE)
    message_ids = sorted(message_id for (message_id,) in found)
    if message_ids:
        waiting = [row[0] for row in (yield queries.lock_waiting(message_ids=message_ids))]
        yield queries.forget_history(message_ids=message_ids, now=now)
        if waiting:
            yield from settling.cancel(of_queue, dict.fromkeys(waiting, FORGOTTEN), now)
        yield queries.forget_attempts(message_ids=message_ids)
        yield of_queue.remove_copies(message_ids=message_ids)
        yield queries.forget_events(message_ids=message_ids)
    yield queries.forget_opt_outs(tenant_id=tenant_id, contact=contact)
    return len(message_ids)
