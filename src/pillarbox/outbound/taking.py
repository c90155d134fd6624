"""Taking what is to go out now: its mark, its content, and what becomes of those that cannot go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pillarbox.engine import Lease
from pillarbox.outbound.candidates import SAID, Candidate, damaged_among, opted_out_among
from pillarbox.outbound.settling import Ending
from pillarbox.storage import DAMAGED, Row, Step, together
from pillarbox.telemetry import logger

log = logger(__name__)

FORGOTTEN = "The recipient was forgotten before it was sent."
_LOOKED_FOR_AGAIN = timedelta(hours=1)
"""How long a message waits whose content or tenant is not to be found, out of the way, until the database was put right."""


def take(
    queries: Any, admitted: Sequence[Candidate], lease: Lease, now: datetime
) -> Step[tuple[dict[str, tuple[Row, Row]], dict[str, Ending]]]:
    """Take messages; the mark and the content of each that can go, and the ends of those that nobody wants or may read."""
    contacts = {(each.tenant_id, contact) for each in admitted for contact in each.contacts}
    message_ids = [each.message_id for each in admitted]
    opted, contents, marks = yield from together(
        queries.opted_out(rows=sorted(contacts)),
        queries.contents(message_ids=message_ids),
        queries.take(message_ids=message_ids, now=now, lease_until=now + lease.length, holder=lease.holder),
    )
    said = {row[0]: row for row in contents if row[SAID] is not None}
    refused = damaged_among(said)
    refused |= opted_out_among(admitted, opted)
    if len(said) < len(admitted):
        refused |= {row[0]: Ending("canceled", FORGOTTEN) for row in contents if row[SAID] is None}
        stored = {row[0] for row in contents}
        refused = {message_id: ending for message_id, ending in refused.items() if message_id in stored}
        yield from _put_off(queries, [mark for mark in marks if mark[0] not in stored], now)
    return {mark[0]: (mark, said[mark[0]]) for mark in marks if mark[0] in said and mark[0] not in refused}, refused


def keep_hidden(queries: Any, candidates: Sequence[Candidate], gone: set[str], now: datetime) -> Step[list[Candidate]]:
    """Put off the messages of those tenants that are there, although the index that was asked for them says otherwise: one
    damaged entry of it must end nobody's mail. Answers which messages."""
    names = sorted(gone.intersection(each.tenant_id for each in candidates))
    found = {name for (name,) in (yield queries.known_past_the_index(tenant_ids=names))} if names else set()
    hidden = [each for each in candidates if each.tenant_id in found]
    for tenant in sorted(found):
        log.error("a tenant is not where its index has it; its messages wait for an hour", tenant=tenant, hint=DAMAGED)
    if hidden:
        later, message_ids = now + _LOOKED_FOR_AGAIN, [each.message_id for each in hidden]
        yield from together(
            queries.put_off(message_ids=message_ids, at=later),
            queries.postpone_history(rows=[(message_id, later) for message_id in message_ids]),
        )
    return hidden


def _put_off(queries: Any, astray: Sequence[Row], now: datetime) -> Step[None]:
    """Without content nothing can go out, and nothing may end without a row that says so."""
    if not astray:
        return
    for message_id, *_ in astray:
        log.error("a message is not where the queue has it; it waits for an hour", message_id=message_id, hint=DAMAGED)
    later = now + _LOOKED_FOR_AGAIN
    yield queries.reschedule(rows=[(message_id, later, 1, last) for message_id, _, _, last in astray], now=now)
