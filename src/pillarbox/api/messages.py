"""/v1/tenants/{tenant}/messages"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from pillarbox.api.answers import Answer, encode, ok
from pillarbox.api.call import Call
from pillarbox.api.idempotency import REPLAYED, read_key
from pillarbox.api.log import FilterText, paged
from pillarbox.api.paging import Cursor, Limit, page, text_after
from pillarbox.api.problems import invalid, problem_of
from pillarbox.errors import OptedOut
from pillarbox.filters import parse_filter
from pillarbox.outbound.model import Channel, OutboundMessage, Status
from pillarbox.outbound.reading import Filter

Instant = Annotated[datetime, Meta(tz=True)]


class Accepted(msgspec.Struct, frozen=True):
    """A message that is on disk."""

    message_id: str
    status: Status


class MessageFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages to list: made from `since` on and before `until`, for one recipient, with one tag.

    Or by a `filter`, which stands alone.
    """

    status: Status | None = None
    channel: Channel | None = None
    to: str = ""
    since: Instant | None = None
    until: Instant | None = None
    tag: str = ""
    filter: FilterText = ""
    limit: Limit = 100
    cursor: Cursor = ""


async def post_message(call: Call) -> Answer:
    """The message is on disk before this answers."""
    tenant, key = call.path["tenant"], read_key(call.head.idempotency_keys)
    with call.api.under_way.hold(tenant, key):
        try:
            queued = await call.box.outbound.put(tenant, call.body, idempotency_key=key)
        except OptedOut as refusal:
            problem = problem_of(refusal)
            problem.headers = (REPLAYED,) if refusal.replayed else ()
            raise problem from None
    accepted = Accepted(queued.message_id, queued.status)
    return Answer(202, encode(accepted), headers=(REPLAYED,) if queued.replayed else ())


async def list_messages(call: Call) -> Answer:
    """Of one tenant; the command line also asks for all of them, by a tenant without a name."""
    query: MessageFilter = call.query
    tenant = call.path["tenant"]
    if tenant:
        await call.box.tenants.recall(tenant)
    if query.filter:
        return await _filtered(call, tenant, query)
    messages = await call.box.outbound.list(
        _wanted(call, tenant, query), limit=query.limit + 1, before=text_after(query.cursor, "message")
    )
    return ok(page(messages, limit=query.limit, kind="message", position=lambda message: message.message_id))


async def get_message(call: Call) -> Answer:
    return _told(call, await call.box.outbound.get(call.path["message_id"], tenant_id=call.path["tenant"]))


async def cancel_message(call: Call) -> Answer:
    return _told(call, await call.box.outbound.cancel(call.path["message_id"], tenant_id=call.path["tenant"]))


async def retry_message(call: Call) -> Answer:
    return _told(call, await call.box.outbound.retry(call.path["message_id"], tenant_id=call.path["tenant"]), 202)


def _told(call: Call, message: OutboundMessage, status: int = 200) -> Answer:
    """A message with all that happened to it; what its provider said is the operator's to read."""
    if call.by_tenant:
        attempts = tuple(msgspec.structs.replace(each, request=None, response=None) for each in message.attempts)
        message = msgspec.structs.replace(message, attempts=attempts)
    return ok(message, status)


async def _filtered(call: Call, tenant: str, query: MessageFilter) -> Answer:
    for name in ("status", "channel", "to", "since", "until", "tag"):
        if getattr(query, name):
            raise invalid(name, "is not given beside a filter; write it as a term of that.")
    found = await call.box.log.messages(
        tenant, parse_filter(query.filter), cursor=text_after(query.cursor, "filtered"), limit=query.limit
    )
    return ok(paged(found, "filtered"))


def _wanted(call: Call, tenant: str, query: MessageFilter) -> Filter:
    if query.to and not tenant:
        raise invalid("to", "needs a tenant: a recipient is known to each tenant apart.")
    for name in ("to", "tag"):
        if "\0" in getattr(query, name):
            raise invalid(name, "must not contain NUL.")
    return Filter(
        tenant_id=tenant,
        status=query.status,
        channel=query.channel or "",
        contact=call.box.outbound.contact_hash(tenant, query.channel or "", query.to) if query.to else "",
        since=query.since,
        until=query.until,
        tag=query.tag,
    )
