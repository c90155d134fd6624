"""A message once more, with changes: a new one, noted in the transaction that queues it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pillarbox.audit import Act, actor
from pillarbox.audit.ledger import DONE, record
from pillarbox.errors import InvalidInput, OptedOut
from pillarbox.outbound.contents import Contents
from pillarbox.outbound.enqueue import Order, enqueue
from pillarbox.outbound.model import Queued
from pillarbox.outbound.ordering import Orders
from pillarbox.outbound.tenants import Tenants
from pillarbox.storage import Database, Step


class Resending:
    """Queues messages anew for operators; the ones before stay as they are."""

    def __init__(
        self,
        database: Database,
        *,
        contents: Contents,
        tenants: Tenants,
        orders: Orders,
        queued: Callable[[Order], None],
    ) -> None:
        self._database = database
        self._clock = database.clock
        self._contents = contents
        self._tenants = tenants
        self._orders = orders
        self._queued = queued

    async def resend(
        self, message_id: str, changes: Mapping[str, str], *, idempotency_key: str | None = None
    ) -> Queued:
        """Queue what a message says, but for the changes; with a key that was used before, the first answer."""
        tenant_id, new = await self._contents.again(message_id, changes)
        tenant = await self._tenants.recall(tenant_id)
        try:
            order = self._orders.order(tenant, new, idempotency_key)
        except InvalidInput:
            before = await self._orders.answered_before(tenant_id, new, idempotency_key, self._database, None)
            if before is None:
                raise
            return before
        act, who, now = Act("resend", "message", message_id, tenant_id), actor(), self._clock.now()

        def work() -> Step[Queued | Exception]:
            (answer,) = yield from enqueue([order], now)
            if who is not None and isinstance(answer, Queued | OptedOut) and not answer.replayed:
                yield from record(who, [(act, answer.reason if isinstance(answer, OptedOut) else DONE)], now)
            return answer

        answer = await self._database.write_new(work)
        if isinstance(answer, Exception):
            raise answer
        if not answer.replayed:
            self._queued(order)
        return answer
