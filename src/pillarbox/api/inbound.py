"""/v1/inbound"""

from __future__ import annotations

import msgspec

from pillarbox.api.answers import Answer, encode, ok
from pillarbox.api.call import Call
from pillarbox.api.paging import Cursor, Limit, number_after, page
from pillarbox.inbound.model import Status
from pillarbox.sessions.registry import LONGEST_ID
from pillarbox.text import check_name


class InboundFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages to list."""

    session_id: str = ""
    status: Status | None = None
    limit: Limit = 100
    cursor: Cursor = ""


async def post_inbound(call: Call) -> Answer:
    """The row is on disk before this answers."""
    enqueued = await call.box.inbound.put(call.body)
    return Answer(200 if enqueued.duplicate else 202, encode(enqueued))


async def list_inbound(call: Call) -> Answer:
    query: InboundFilter = call.query
    if query.session_id:
        check_name("session_id", query.session_id, most=LONGEST_ID)
    kind = "seq" if query.session_id else "id"
    messages = await call.box.inbound.list(
        session_id=query.session_id or None,
        status=query.status,
        limit=query.limit + 1,
        after=number_after(query.cursor, kind),
    )
    return ok(page(messages, limit=query.limit, kind=kind, position=lambda message: getattr(message, kind)))


async def get_inbound(call: Call) -> Answer:
    return ok(await call.box.inbound.get(call.row))


async def retry_inbound(call: Call) -> Answer:
    return ok(await call.box.inbound.retry(call.row))


async def expire_inbound(call: Call) -> Answer:
    return ok(await call.box.inbound.expire(call.row))
