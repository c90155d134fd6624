"""Taking messages in: queue, history and idempotency key in one transaction, the caller's own where they wish."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from pillarbox.errors import IdempotencyMismatch, OptedOut
from pillarbox.outbound.candidates import OPTED_OUT
from pillarbox.outbound.ids import new_id
from pillarbox.outbound.lane import queries
from pillarbox.outbound.model import Checked, Queued
from pillarbox.outbound.tenants import unknown_tenant
from pillarbox.storage import Row, Statement, Step, checksum, together

Answer = Queued | Exception
PENDING = "pending"
_encoder = msgspec.json.Encoder()


class Claim(NamedTuple):
    """What a caller's key stands for: one message, known by its fingerprint."""

    tenant_id: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Order:
    """A message that passed the edge, its recipients' hashes, its sealed headers, and the caller's key, if any."""

    message_id: str
    tenant_id: str
    message: Checked
    contacts: tuple[str, ...]
    max_attempts: int
    sealed: str | None = None
    key: str | None = None
    fingerprint: str = ""
    trace: str | None = None

    @property
    def named(self) -> tuple[str, str] | None:
        return None if self.key is None else (self.tenant_id, self.key)


def enqueue(orders: Sequence[Order], now: datetime) -> Step[list[Answer]]:
    """Store a set of messages; one answer for each, in order."""
    known, opted, keyed = yield from together(*_looks(orders))
    tenants = {row[0] for row in known}
    earlier = {(row[0], row[1]): row for row in keyed}
    refused = _refused(orders, opted)
    answers: dict[int, Answer] = {}
    fresh: list[int] = []
    first_of: dict[tuple[str, str], int] = {}
    for position, order in enumerate(orders):
        name = order.named
        if order.tenant_id not in tenants:
            answers[position] = unknown_tenant(order.tenant_id)
        elif name in earlier:
            answers[position] = _replayed(order.fingerprint, earlier[name])
        elif name is None or first_of.setdefault(name, position) == position:
            fresh.append(position)
    if first_of:
        fresh = yield from _claim_keys(orders, fresh, refused, now)
    if fresh:
        yield from together(*_inserts([(orders[position], refused.get(position)) for position in fresh], now))
    for position in fresh:
        order = orders[position]
        if position in refused:
            answers[position] = OptedOut(refused[position], order.message_id)
        else:
            answers[position] = Queued(order.message_id, "pending")
    yield from _answer_the_rest(orders, answers)
    return [answers[position] for position in range(len(orders))]


def store_failed(order: Order, why: str, now: datetime) -> Step[str]:
    """Store a message that cannot be sent, ended from the beginning, where operators see it and why; answers its id."""
    yield queries.insert_history(rows=[_history(order, why, now)], now=now)
    failed = (order.message_id, "failed", 0, None, None, now, why, None)
    yield queries.settle_history(rows=[failed], now=now)
    yield queries.insert_events(rows=[(order.message_id, new_id(), "failed", None)], now=now)
    return order.message_id


def answer_to(claim: Claim) -> Step[Answer | None]:
    """The answer that a key has had, if any."""
    rows = yield queries.by_idempotency_keys(rows=[(claim.tenant_id, claim.key)])
    return _replayed(claim.fingerprint, rows[0]) if rows else None


def _looks(orders: Sequence[Order]) -> list[Statement]:
    contacts = {(order.tenant_id, contact) for order in orders for contact in order.contacts}
    keys = {name for order in orders if (name := order.named)}
    return [
        queries.known_tenants(tenant_ids=sorted({order.tenant_id for order in orders})),
        queries.opted_out(rows=sorted(contacts)),
        queries.by_idempotency_keys(rows=sorted(keys)),
    ]


def _refused(orders: Sequence[Order], opted: Sequence[Row]) -> dict[int, str]:
    if not opted:
        return {}
    by_contact: dict[tuple[str, str], set[str]] = {}
    for tenant_id, contact, channel, _ in opted:
        by_contact.setdefault((tenant_id, contact), set()).add(channel)
    refused = {}
    for position, order in enumerate(orders):
        channels = {channel for contact in order.contacts for channel in by_contact.get((order.tenant_id, contact), ())}
        if found := channels & {order.message.channel, "all"}:
            refused[position] = OPTED_OUT.format(sorted(found)[0])
    return refused


def _claim_keys(
    orders: Sequence[Order], fresh: Sequence[int], refused: dict[int, str], now: datetime
) -> Step[list[int]]:
    """Those whose key is theirs; a key that another transaction has just taken is not."""
    rows = [
        (*name, orders[position].fingerprint, orders[position].message_id, refused.get(position, PENDING))
        for position in fresh
        if (name := orders[position].named)
    ]
    won = {(tenant_id, key) for tenant_id, key in (yield queries.insert_idempotency_keys(rows=sorted(rows), now=now))}
    return [position for position in fresh if orders[position].named is None or orders[position].named in won]


def _answer_the_rest(orders: Sequence[Order], answers: dict[int, Answer]) -> Step[None]:
    """Whoever is left has the key of another message, of this set or of a transaction that was quicker."""
    left = [position for position in range(len(orders)) if position not in answers]
    if left:
        names = {name for position in left if (name := orders[position].named)}
        found = {(row[0], row[1]): row for row in (yield queries.by_idempotency_keys(rows=sorted(names)))}
        for position in left:
            name = orders[position].named
            assert name is not None
            answers[position] = _replayed(orders[position].fingerprint, found[name])


def _replayed(fingerprint: str, row: Row) -> Answer:
    _, _, first, message_id, answer = row
    if fingerprint != first:
        return IdempotencyMismatch("idempotency_key", "was used before for another message; give this one its own.")
    if answer != PENDING:
        return OptedOut(answer, message_id, replayed=True)
    return Queued(message_id, "pending", replayed=True)


def _inserts(orders: Sequence[tuple[Order, str | None]], now: datetime) -> list[Statement]:
    going = [order for order, refusal in orders if refusal is None]
    copies = [
        (order.tenant_id, contact, order.message_id)
        for order, _ in orders
        for contact in dict.fromkeys(order.contacts[1:])
    ]
    canceled = [(order.message_id, new_id(), "canceled", None) for order, refusal in orders if refusal is not None]
    statements = [queries.insert_history(rows=[_history(order, refusal, now) for order, refusal in orders], now=now)]
    if going:
        statements.append(queries.insert_queue(rows=[_queue(order, now) for order in going]))
    if copies:
        statements.append(queries.insert_copies(rows=copies))
    if canceled:
        statements.append(queries.insert_events(rows=canceled, now=now))
    return statements


def _queue(order: Order, now: datetime) -> tuple[object, ...]:
    message = order.message
    due = max(message.send_at or now, now)
    return (
        order.message_id,
        order.tenant_id,
        message.channel,
        "scheduled" if due > now else "ready",
        message.priority,
        due,
        message.expires_at,
        order.max_attempts,
        _json(order.contacts),
    )


def _history(order: Order, refusal: str | None, now: datetime) -> tuple[object, ...]:
    message = order.message
    said = (
        message.subject,
        message.text if message.channel != "webhook" else message.body,
        message.html,
        _json(message.options) if message.options else "{}",
        order.sealed,
        _json(message.attachments) if message.attachments else None,
    )
    return (
        order.message_id,
        order.tenant_id,
        message.channel,
        "pending" if refusal is None else "canceled",
        order.max_attempts,
        message.priority,
        message.category,
        None if refusal else max(message.send_at or now, now),
        message.expires_at,
        refusal,
        order.contacts[0],
        message.to,
        _tags(message.tags),
        order.trace,
        *said,
        checksum(message.to, *said),
    )


def _tags(tags: Sequence[str]) -> str:
    # What stands between two tags is nothing that a tag could be.
    return json.dumps(tags, ensure_ascii=False, separators=(",\n", ":")) if tags else "[]"


def _json(value: object) -> str:
    return _encoder.encode(value).decode()
