"""Who did what."""

from __future__ import annotations

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.api.paging import Cursor, page, text_after
from pillarbox.audit import OperatorAction
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.pages import render, signed_in
from pillarbox.dashboard.words import segment

_AT_ONCE = 100
_PAGES = {
    "message": "/messages/{}",
    "inbound": "/inbound/{}",
    "event": "/hooks/{}",
    "session": "/sessions/{}",
    "tenant": "/tenants/{}",
    "operation": "/actions/{}",
}


class AuditQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the page begins."""

    cursor: Cursor = ""


@signed_in
async def show(call: Call, login: Login) -> Answer:
    query: AuditQuery = call.query
    found = await call.box.audit.list(limit=_AT_ONCE + 1, before=text_after(query.cursor, "action"))
    listed = page(found, limit=_AT_ONCE, kind="action", position=lambda action: action.id)
    return render(
        call,
        login,
        "audit.html",
        active="audit",
        actions=[(action, _href(action)) for action in listed.items],
        next_cursor=listed.next_cursor,
        is_first=not query.cursor,
    )


def _href(action: OperatorAction) -> str:
    """The page of what was acted on, where it has one."""
    return _PAGES[action.subject_kind].format(segment(action.subject_id)) if action.subject_kind in _PAGES else ""
