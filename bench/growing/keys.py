"""The inbox, by the keys that it remembers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.growing.copying import Copier
from bench.growing.live import AT_ONCE, Live, Table
from pillarbox import Pillarbox
from pillarbox.inbox import Inbox
from pillarbox.settings import load_settings

OLD = "old:"
NEW = "new:"


async def process(inbox: Inbox, key: str) -> None:
    """What a consumer asks for with each message that is new to it."""
    lease_id = (await inbox.try_begin(key)).lease_id
    assert lease_id, f"{key} is not new"
    assert (await inbox.mark_processed(key, lease_id)).status == "Processed"


class Keys:
    """What is put in is a key that nobody has seen; a turn begins and marks up to so many at once."""

    name = "inbox"
    keys = "keys"

    @asynccontextmanager
    async def opened(self, url: str, keys: int) -> AsyncIterator[Live]:
        async with Pillarbox.open(url, settings=load_settings(environ={})) as box:
            waiting: list[str] = []

            async def put(n: int) -> None:
                waiting.append(f"{NEW}{n}")

            async def step() -> int:
                taken, waiting[:] = waiting[:AT_ONCE], waiting[AT_ONCE:]
                await asyncio.gather(*(process(box.inbox, key) for key in taken))
                return len(taken)

            yield Live(put, step)

    async def make(self, url: str, table: Table) -> None:
        """The first key is real."""
        async with Pillarbox.open(url, settings=load_settings(environ={})) as box:
            await process(box.inbox, f"{OLD}0")
        await asyncio.to_thread(self._fill, url, table.remembered)

    def _fill(self, url: str, remembered: int) -> None:
        with Copier(url) as copier:
            key = f"'{OLD}' || n"
            copier.copy("inbox", f"key = '{OLD}0'", remembered - 1, key=key, digest=copier.sha256(key))


INBOX = Keys()
