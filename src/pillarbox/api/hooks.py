"""/v1/hooks"""

from __future__ import annotations

import msgspec

from pillarbox.api.answers import Answer, ok
from pillarbox.api.call import Call
from pillarbox.api.paging import Cursor, Limit, number_after, page
from pillarbox.hooks.model import Status
from pillarbox.sessions.registry import LONGEST_ID
from pillarbox.text import check_name


class HookFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events to list."""

    session_id: str = ""
    status: Status | None = None
    limit: Limit = 100
    cursor: Cursor = ""


async def post_hook(call: Call) -> Answer:
    """The row is on disk before this answers."""
    return ok(await call.box.hooks.put(call.body), 202)


async def list_hooks(call: Call) -> Answer:
    query: HookFilter = call.query
    if query.session_id:
        check_name("session_id", query.session_id, most=LONGEST_ID)
    kind = "seq" if query.session_id else "id"
    events = await call.box.hooks.list(
        session_id=query.session_id or None,
        status=query.status,
        limit=query.limit + 1,
        after=number_after(query.cursor, kind),
    )
    return ok(page(events, limit=query.limit, kind=kind, position=lambda event: getattr(event, kind)))


async def get_hook(call: Call) -> Answer:
    return ok(await call.box.hooks.get(call.row))


async def retry_hook(call: Call) -> Answer:
    return ok(await call.box.hooks.retry(call.row))
