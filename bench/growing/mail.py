"""Outbound, by tenant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.growing.copying import FAR_AWAY, Copier
from bench.growing.live import Live, Table
from bench.ours import outbound as ours
from pillarbox.outbound.messages import Email
from pillarbox.outbound.model import NewTenant
from pillarbox.outbound.pipe import Outbound

SENDING = {"email": {"provider": "nothing", "from": "Acme <hello@acme.example.com>"}}
# Ids that are older than any that is made now: the history is in the order of its ids.
OLD = "'00000000-0000-7000-8000-' || "
WAITING = "'00000000-0001-7000-8000-' || "
LATER = "'00000000-0002-7000-8000-' || "


async def put(outbound: Outbound, tenant: str) -> str:
    return await outbound.send(tenant, Email(to="user@example.com", subject="Hello", text="hello world"))


class Mail:
    """Ten statements of copying, and the pipe as the table measures it."""

    name = "outbound"
    keys = "tenants"

    @asynccontextmanager
    async def opened(self, url: str, keys: int) -> AsyncIterator[Live]:
        async with ours.opened(url, deliver=lambda _: None) as outbound:
            yield Live(lambda n: put(outbound, f"t{n % keys}"), outbound.drain.step)

    async def make(self, url: str, table: Table) -> None:
        """Two messages are real: one that was sent and one that waits."""
        async with ours.opened(url, deliver=lambda _: None) as outbound:
            await outbound.tenants.put("t0", NewTenant(providers=SENDING))
            sent = await put(outbound, "t0")
            await outbound.drain.step()
            waiting = await put(outbound, "t0")
        await asyncio.to_thread(self._fill, url, table, sent, waiting)

    def _fill(self, url: str, table: Table, sent: str, waiting: str) -> None:
        tenant = f"'t' || (n % {table.keys})"
        with Copier(url) as copier:
            digits = copier.hex(12)
            copier.copy("tenants", "tenant_id = 't0'", table.keys - 1, tenant_id="'t' || n")
            for name in ("message_history", "message_attempt"):
                copied = {"message_id": OLD + digits, "tenant_id": tenant}
                copier.copy(name, f"message_id = '{sent}'", table.delivered, **copied)
            for name in ("message_history", "message_queue"):
                copied = {"message_id": WAITING + digits, "tenant_id": tenant}
                copier.copy(name, f"message_id = '{waiting}'", table.pending, **copied)
                later = {"message_id": LATER + digits, "tenant_id": tenant, "next_attempt_at": f"'{FAR_AWAY}'"}
                scheduled = later | ({"state": "'scheduled'"} if name == "message_queue" else {})
                copier.copy(name, f"message_id = '{waiting}'", table.scheduled, **scheduled)
            copier.execute(f"DELETE FROM message_queue WHERE message_id = '{waiting}'")
            copier.execute(f"DELETE FROM message_history WHERE message_id = '{waiting}'")


OUTBOUND = Mail()
