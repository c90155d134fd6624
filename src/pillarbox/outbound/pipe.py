"""The door of the outbound pipe."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any

from pillarbox.audit import Act, Audit
from pillarbox.engine import Backoff, Batch, Bell, Chore, Drain, Lease, Pace, Policy, WatchedLane
from pillarbox.errors import InvalidInput, NotFound
from pillarbox.outbound import acting, checks, contacts, reading
from pillarbox.outbound.accounts import Accounts
from pillarbox.outbound.attempt import Parcel
from pillarbox.outbound.client import Client
from pillarbox.outbound.contents import Contents
from pillarbox.outbound.enqueue import Order, enqueue, store_failed
from pillarbox.outbound.forgetting import forget
from pillarbox.outbound.lane import OutboundLane, queries
from pillarbox.outbound.messages import Message
from pillarbox.outbound.model import (
    CHANNELS,
    MessageItem,
    NewMessage,
    OptOut,
    OutboundMessage,
    OutboundStatus,
    Queued,
    Tenant,
)
from pillarbox.outbound.observing import Observer
from pillarbox.outbound.opting_out import until_begun
from pillarbox.outbound.ordering import Orders
from pillarbox.outbound.policy import OutboundPolicy
from pillarbox.outbound.providers import Providers
from pillarbox.outbound.reading import Filter
from pillarbox.outbound.resending import Resending
from pillarbox.outbound.sender import Sender
from pillarbox.outbound.tenants import Tenants, keeping
from pillarbox.process import is_dead
from pillarbox.secrets.sealing import Sealer
from pillarbox.seldom import Seldom
from pillarbox.storage import Database, News, Row, Step
from pillarbox.telemetry import Metrics
from pillarbox.text import check_text, printable

_MOST_TOGETHER = 256
_PRUNE_EVERY = 60.0
_SWEEP_EVERY = timedelta(hours=1)
_STRAIGHTEN_EVERY = 30.0
_BURY_EVERY = 1.0


class Outbound:
    """Takes messages in, sends them for their tenants, and lets operators look and act."""

    def __init__(
        self,
        database: Database,
        *,
        policy: OutboundPolicy,
        providers: Providers,
        sealer: Sealer,
        holder: str,
        metrics: Metrics,
        random: Random,
    ) -> None:
        self._database = database
        self._clock = database.clock
        self._audit = Audit(database)
        self.glance = Seldom(self.status)
        self._policy = policy
        self._sealer = sealer
        self._accounts = Accounts(providers, policy)
        self.contents = Contents(database, sealer, self._clock, self._accounts)
        self._orders = Orders(self._accounts, sealer=sealer, policy=policy, clock=self._clock)
        self._observer = Observer(metrics.outbound, self._clock)
        self._batch: Batch[Order, Queued] = Batch(self._enqueue_set, most=_MOST_TOGETHER, at_once=2)
        # Apart, as a key that somebody's open transaction has taken makes its whole set wait.
        self._keyed: Batch[Order, Queued] = Batch(self._enqueue_set, most=_MOST_TOGETHER, at_once=2)
        self._client = Client()
        self.lane = OutboundLane(database, default_rate=policy.rate_per_minute, failed=self._observer.failed)
        self._sender = Sender(
            self._accounts,
            client=self._client,
            confirm=self.lane.begin,
            sealer=sealer,
            policy=policy,
            clock=self._clock,
            random=random,
        )
        self.providers = providers
        self.tenants = Tenants(database, check_provider=self._accounts.check, default_rate=policy.rate_per_minute)
        self.resending = Resending(
            database, contents=self.contents, tenants=self.tenants, orders=self._orders, queued=self._enqueued
        )
        self.bell = Bell()
        self.drain: Drain[Parcel] = Drain(
            WatchedLane(self.lane, metrics.works.lanes["outbound"]),
            self._sender.send,
            policy=Policy(Backoff((policy.channel.backoff_base,), policy.channel.jitter)),
            lease=Lease(holder, policy.lease),
            pace=Pace(policy.concurrency, policy.longest_attempt, policy.poll),
            clock=self._clock,
            bell=self.bell,
            random=random,
            observe=self._observer.observe,
        )
        self._observer.watch(lambda: self.drain.in_flight)
        self._sweeping = False
        self._swept: datetime | None = None

    async def send(
        self,
        tenant_id: str,
        message: Message | NewMessage,
        *,
        idempotency_key: str | None = None,
        connection: Any = None,
    ) -> str:
        """Queue one message and answer its id; when this returns it is on disk.

        With a `connection` of your own the message is part of your transaction: it exists exactly if that commits.
        """
        if not isinstance(message, Message | NewMessage):
            raise InvalidInput("message", "must be an Email, Sms, Push or Webhook.")
        new = message if isinstance(message, NewMessage) else message.new_message()
        return (await self.put(tenant_id, new, idempotency_key=idempotency_key, connection=connection)).message_id

    async def put(
        self, tenant_id: str, new: NewMessage, *, idempotency_key: str | None = None, connection: Any = None
    ) -> Queued:
        """The same, of a message as it came in; with a key that was used before, the first answer."""
        tenant = await self.tenants.recall(tenant_id)
        try:
            order = self._orders.order(tenant, new, idempotency_key)
        except InvalidInput:
            # What was taken once is answered as it was then, whatever would be said to it now.
            answered = await self._orders.answered_before(tenant_id, new, idempotency_key, self._database, connection)
            if answered is None:
                raise
            return answered
        if connection is not None:
            from pillarbox.outbound import foreign

            return await foreign.enqueue(connection, order, self._database, now=self._clock.now())
        queued = await (self._batch if order.key is None else self._keyed).add(order)
        if queued.replayed:
            self._wake()
        else:
            self._observer.enqueued(order)
            self.bell.ring()
        return queued

    def put_on(self, connection: Any, tenant: Tenant, new: NewMessage, *, idempotency_key: str | None) -> Queued:
        """The same in the caller's transaction and on its thread, without an event loop."""
        return self._orders.put_on(connection, tenant, new, idempotency_key, self._database)

    def queuing(self, tenant: Tenant, new: NewMessage, now: datetime) -> Step[str]:
        """Queue a message of our own as a step of a transaction, and answer its id; ring the bell once that is on disk."""
        yield from keeping(tenant, now)
        (answer,) = yield from enqueue([self._orders.order(tenant, new, None)], now)
        if isinstance(answer, Exception):
            raise answer
        return answer.message_id

    def failing(self, tenant: Tenant, new: NewMessage, why: str, now: datetime) -> Step[str]:
        """Store a message of our own that cannot be sent, as failed, as a step of a transaction, and answer its id."""
        yield from keeping(tenant, now)
        return (yield from store_failed(self._orders.unsendable(tenant, new), why, now))

    async def get(self, message_id: str, *, tenant_id: str = "") -> OutboundMessage:
        return await self._database.read(lambda: reading.get(tenant_id, message_id, self._clock.shown))

    async def list(
        self, wanted: Filter | None = None, *, limit: int = 100, before: str = "", **fields: Any
    ) -> list[MessageItem]:
        """Messages, the newest first, from the one before `before`; the fields of a filter can be given by name."""
        wanted = wanted or Filter(**fields)
        work = partial(reading.page, wanted, limit=limit, before=before, shown=self._clock.shown)
        return await self._database.read(work)

    async def status(self) -> OutboundStatus:
        now = self._clock.now()
        found = await self._database.read(lambda: reading.status(now))
        self._observer.show(found)
        return found

    async def cancel(self, message_id: str, *, tenant_id: str = "") -> OutboundMessage:
        """End a message while no attempt of it is running."""
        now = self._clock.now()
        act = Act("cancel", "message", message_id, await self._tenant(tenant_id, message_id))
        await self._audit.write(act, lambda: acting.cancel(tenant_id, message_id, now))
        return await self.get(message_id, tenant_id=tenant_id)

    async def retry(self, message_id: str, *, tenant_id: str = "") -> OutboundMessage:
        """Queue a message that failed, expired or was canceled again, at once."""
        now = self._clock.now()
        act = Act("retry", "message", message_id, await self._tenant(tenant_id, message_id))
        await self._audit.write(act, lambda: acting.retry(tenant_id, message_id, now))
        self._wake()
        return await self.get(message_id, tenant_id=tenant_id)

    async def _tenant(self, tenant_id: str, message_id: str) -> str | None:
        return tenant_id or await self._database.read(lambda: reading.tenant_of(message_id))

    async def opt_out(
        self, tenant_id: str, contact: str, channel: str = "all", *, reason: str | None = None
    ) -> tuple[OptOut, bool]:
        """Never write to a contact again; answers the opt-out, and whether it is new.

        When this returns no send to that contact begins any more: those that had been claimed have begun, or never will.
        """
        canonical = self._contact(channel, contact)
        if reason is not None:
            check_text("reason", reason, most=1000)
        hashed = self._sealer.contact_hash(tenant_id, canonical)
        now = self._clock.now()
        work = partial(acting.opt_out, tenant_id, hashed, channel, address=canonical, reason=reason, now=now)
        row, is_new = await self._audit.write(lambda done: Act("opt-out.add", "opt-out", done[0][0], tenant_id), work)
        await until_begun(self._database, tenant_id, hashed)
        return reading.opt_out_from(row, self._clock.shown), is_new

    async def opt_outs(self, tenant_id: str, *, limit: int = 100, after: str = "") -> Sequence[OptOut]:
        await self.tenants.recall(tenant_id)

        def work() -> Step[list[Row]]:
            return (yield queries.list_opt_outs(tenant_id=tenant_id, after=after, limit=limit))

        return [reading.opt_out_from(row, self._clock.shown) for row in await self._database.read(work)]

    async def remove_opt_out(self, tenant_id: str, opt_out_id: str) -> None:
        """Let a contact be written to again."""

        def work() -> Step[None]:
            if not (yield queries.remove_opt_out(tenant_id=tenant_id, opt_out_id=opt_out_id)):
                raise NotFound(f"There is no such opt-out at tenant {printable(tenant_id)}; list them first.")

        await self._audit.write(Act("opt-out.remove", "opt-out", opt_out_id, tenant_id), work)

    async def unsubscribe(self, token: str) -> bool:
        """Opt out whoever an unsubscribe link was sent to; False for a token that is not ours."""
        found = self.subscriber(token)
        if found is None:
            return False
        await self.opt_out(*found, "email", reason="one-click unsubscribe")
        return True

    def subscriber(self, token: str) -> tuple[str, str] | None:
        """The tenant and the address that an unsubscribe link is for."""
        read = self._sealer.read_token(token)
        return (read[1], read[2]) if read is not None and len(read) == 3 and read[0] == "unsubscribe" else None

    async def forget(self, tenant_id: str, contact: str) -> int:
        """Take a person's contact and what they were sent out of everything that is kept; answers of how many messages."""
        await self.tenants.recall(tenant_id)
        hashes = [self._sealer.contact_hash(tenant_id, form) for form in contacts.every_form(contact)]
        return await forget(self._database, tenant_id, hashes)

    def contact_hash(self, tenant_id: str, channel: str, to: str) -> str:
        """How a recipient is kept, to find its messages."""
        return self._sealer.contact_hash(tenant_id, contacts.canonical(channel or "all", to, field="to"))

    async def prune(self) -> tuple[int, bool]:
        """Delete a bounded number of messages whose retention is over; how many, and whether there may be more."""
        now, policy = self._clock.now(), self._policy
        # Where a channel's time is shorter, its messages stand between others', which all have to be looked at: not each time.
        whole = self._sweeping or self._swept is None or now - self._swept >= _SWEEP_EVERY
        retention = policy.shortest_retention if whole else policy.longest_retention
        deleted, more = await self.lane.prune_by_channel(
            lambda channel: now - policy.retention_on(channel), latest=now - retention, keys=now - policy.retention
        )
        if whole:
            self._sweeping, self._swept = more, now
        return deleted, more

    def chores(self) -> Sequence[Chore]:
        return [
            Chore("outbound.prune", _PRUNE_EVERY, self._prune),
            Chore("outbound.straighten", _STRAIGHTEN_EVERY, self._straighten),
            Chore("outbound.bury", _BURY_EVERY, self.bury),
        ]

    def check_policy(self) -> None:
        """Refuse numbers and names of the operator's that nothing could be sent with; the fault names its setting."""
        checks.check_policy(self._policy, self._accounts, self.providers)

    async def close(self) -> None:
        await self._client.close()
        for provider in self.providers.loaded():
            if close := getattr(provider, "close", None):
                await close()

    def heard(self, news: News) -> None:
        """Another process committed something: there may be work, or a hold of ours may have been taken away."""
        if news.has_work_for("outbound"):
            self.bell.ring_from_thread()
        if not news.only_work:
            self.drain.renewal.poke()

    async def bury(self) -> bool:
        """Take over at once from processes of this machine that have died."""
        if await self.lane.bury(is_dead, now=self._clock.now()):
            self.bell.ring()
        return False

    def _contact(self, channel: str, contact: str) -> str:
        if channel != "all" and channel not in CHANNELS:
            raise InvalidInput("channel", f"must be one of {', '.join(CHANNELS)} or all.")
        return contacts.canonical(channel, contact)

    async def _enqueue_set(self, orders: Sequence[Order]) -> Sequence[Queued | Exception]:
        return await self._database.write_new(partial(enqueue, orders, self._clock.now()), pipe="outbound")

    def _enqueued(self, order: Order) -> None:
        self._observer.enqueued(order)
        self._wake(by_new=True)

    def after_acting(self) -> None:
        """Messages were queued again or canceled, and that is on disk."""
        self._wake()

    def _wake(self, *, by_new: bool = False) -> None:
        self.bell.ring()
        self._database.ring("outbound" if by_new else "")

    async def _prune(self) -> bool:
        return (await self.prune())[1]

    async def _straighten(self) -> bool:
        await self.lane.straighten(clock=self._clock, lease=self._policy.lease)
        return False
