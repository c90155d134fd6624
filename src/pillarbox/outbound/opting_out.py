"""What an opt-out waits for: sends to that contact which were claimed before it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from pillarbox.outbound.beginning import START_WITHIN
from pillarbox.outbound.lane import queries
from pillarbox.storage import Database, Row, Step, instant

_LOOK_EVERY = 0.02
# What the clocks of two nodes may differ by, and a send may take from its last look at the clock to its first byte.
_MARGIN = timedelta(seconds=0.25)


async def until_begun(database: Database, tenant_id: str, hashed: str) -> None:
    """Wait until each of them has begun, or never will: that is soon after its claim."""

    def work() -> Step[list[Row]]:
        return (yield queries.sending_to(tenant_id=tenant_id))

    while True:
        youngest = database.clock.now() - START_WITHIN - _MARGIN
        rows = await database.read(work)
        if not any(hashed in claimed and instant(at) > youngest for claimed, at in rows):
            return
        await asyncio.sleep(_LOOK_EVERY)
