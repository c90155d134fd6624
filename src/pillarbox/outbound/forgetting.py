"""Taking a person out of everything that is kept, a bounded part at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from pillarbox.audit import Act, Audit
from pillarbox.outbound import acting
from pillarbox.storage import Database, Work

_AT_ONCE = 500


async def forget(database: Database, tenant_id: str, hashes: Iterable[str]) -> int:
    """Forget a contact under each of its forms; answers in how many messages.

    Noted with the first step: what was begun is known, whatever becomes of the rest.
    """
    forgotten, act = 0, Act("forget", "tenant", tenant_id, tenant_id)
    write: Callable[[Work[int]], Awaitable[int]] = partial(Audit(database).write, act)
    for hashed in hashes:
        step = _AT_ONCE
        while step == _AT_ONCE:
            step = await write(partial(acting.forget, tenant_id, hashed, database.clock.now(), limit=_AT_ONCE))
            write = database.write
            forgotten += step
    return forgotten
