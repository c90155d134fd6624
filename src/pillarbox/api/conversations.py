"""/v1/sessions/{session_id}/conversation"""

from __future__ import annotations

import msgspec

from pillarbox.api.answers import Answer, ok
from pillarbox.api.call import Call
from pillarbox.api.paging import Cursor, Limit, number_after, page


class ConversationFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a conversation to show."""

    limit: Limit = 100
    cursor: Cursor = ""


async def list_lines(call: Call) -> Answer:
    query: ConversationFilter = call.query
    session = await call.box.sessions.get(call.path["session_id"])
    after = number_after(query.cursor, "line")
    lines = await call.box.conversations.replies(session.session_id, after=after, limit=query.limit + 1)
    return ok(page(lines, limit=query.limit, kind="line", position=lambda line: line.seq))
