"""What operators and recipients do to messages: cancel, retry, opt out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from pillarbox.errors import NotCancelable, NotRetryable, OptedOut
from pillarbox.outbound import settling
from pillarbox.outbound.candidates import OPTED_OUT
from pillarbox.outbound.ids import new_id
from pillarbox.outbound.lane import queries
from pillarbox.outbound.reading import unknown_message
from pillarbox.outbound.tenants import unknown_tenant
from pillarbox.storage import Row, Step

CANCELED = "Canceled by an operator."
_RETRYABLE = frozenset({"failed", "expired", "canceled"})


def cancel(tenant_id: str, message_id: str, now: datetime) -> Step[None]:
    """End a message while no attempt is running."""
    queued = yield queries.lock_queued(message_id=message_id)
    rows = yield queries.lock_history(message_id=message_id, tenant_id=tenant_id)
    if not rows:
        raise unknown_message(message_id)
    if not queued or queued[0][1] == "sending":
        state = _state(queued, rows[0][2])
        raise NotCancelable(f"Message {message_id} is {state}; only what waits can be canceled.")
    yield from settling.cancel(queries, {message_id: CANCELED}, now)


def retry(tenant_id: str, message_id: str, now: datetime) -> Step[None]:
    """Queue a message that ended unsent again, at once, with as many further attempts as it had."""
    queued = yield queries.lock_queued(message_id=message_id)
    rows = yield queries.lock_history(message_id=message_id, tenant_id=tenant_id)
    if not rows:
        raise unknown_message(message_id)
    tenant, channel, status, attempt_count, max_attempts, priority, contact = rows[0]
    if status not in _RETRYABLE:
        state = _state(queued, status)
        raise NotRetryable(f"Message {message_id} is {state}; only failed, expired or canceled ones are tried again.")
    if contact is None:
        raise NotRetryable(f"Message {message_id} was forgotten; there is nothing left to send.")
    if not (yield queries.known_tenants(tenant_ids=[tenant])):
        raise unknown_tenant(tenant)
    copies = [copy for (copy,) in (yield queries.copies(message_id=message_id))]
    contacts = [contact, *copies]
    yield from _refuse_opted_out(tenant, channel, contacts, message_id)
    yield queries.insert_events(rows=[(message_id, new_id(), "retried", None)], now=now)
    yield queries.requeue(message_id=message_id, now=now)
    yield queries.insert_again(
        message_id=message_id,
        tenant_id=tenant,
        channel=channel,
        priority=priority,
        now=now,
        attempt_count=attempt_count,
        last_attempt=attempt_count + max_attempts,
        contacts=json.dumps(contacts),
    )


def _state(queued: Sequence[Row], status: str) -> str:
    """What is told of a message: an attempt that runs is known to the queue alone."""
    return "being sent" if queued and queued[0][1] == "sending" else status


def _refuse_opted_out(tenant_id: str, channel: str, contacts: Sequence[str], message_id: str) -> Step[None]:
    opted = yield queries.opted_out(rows=[(tenant_id, contact) for contact in contacts])
    for _, _, of_channel, _ in opted:
        if of_channel in (channel, "all"):
            raise OptedOut(OPTED_OUT.format(of_channel), message_id)


def opt_out(
    tenant_id: str, contact: str, channel: str, *, address: str, reason: str | None, now: datetime
) -> Step[tuple[Row, bool]]:
    """Note that a contact is not to be written to; answers the opt-out, and whether it is new."""
    if not (yield queries.lock_tenant(tenant_id=tenant_id)):
        raise unknown_tenant(tenant_id)
    new = (new_id(), tenant_id, contact, channel, address, reason)
    added = yield queries.opt_out(rows=[new], now=now)
    rows = yield queries.opt_out_of(tenant_id=tenant_id, contact=contact, channel=channel)
    return rows[0], bool(added)
