"""A process that takes a key whenever it can, and tells on stdout for how long it believes it holds it.

`held LEASE SEEN SINCE UNTIL` when it has an answer in hand, `gives-up LEASE SEEN` before it asks for the release. SINCE and
UNTIL are seconds of the stored timeline, which every process reckons for itself; SEEN is the machine's own counter, one for all.
"""

import asyncio
import random
import sys
from datetime import datetime

from pillarbox.box import Pillarbox
from pillarbox.clock import uptime
from pillarbox.settings import Inbox, Settings

LEASE = 0.4


async def contend(url: str, key: str) -> None:
    settings = Settings(inbox=Inbox(lease_seconds=LEASE))
    async with Pillarbox.open(url, settings=settings) as box:
        while True:
            begun = await box.inbox.try_begin(key)
            if begun.lease_id and begun.expires_at and await hold(box, key, begun.lease_id, begun.expires_at):
                print("gives-up", begun.lease_id, uptime(), flush=True)
                await box.inbox.release(key, begun.lease_id)
            # Whoever had it waits like the others, who would hardly ever come between its release and its next try.
            await asyncio.sleep(random.uniform(0, 0.01))


async def hold(box: Pillarbox, key: str, lease_id: str, until: datetime) -> bool:
    """Hold the lease for a while; whether it is still held."""
    for _ in range(1 + random.randrange(5)):
        print("held", lease_id, uptime(), box.database.clock.now().timestamp(), until.timestamp(), flush=True)
        await asyncio.sleep(random.uniform(0, LEASE / 2))
        extended = await box.inbox.extend(key, lease_id)
        if extended.expires_at is None:
            return False
        until = extended.expires_at
    return True


if __name__ == "__main__":
    asyncio.run(contend(sys.argv[1], sys.argv[2]))
