"""Events of agents, and one of them."""

from __future__ import annotations

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.dashboard import explain, timeline
from pillarbox.dashboard.forms import Form, acting, back_to, done
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.pages import render, signed_in
from pillarbox.filters.model import words
from pillarbox.hooks.model import STATUSES, Status

_AT_ONCE = 50
_ENDED = frozenset({"delivered", "superseded"})


class HooksQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events to show."""

    status: Status | None = None
    cursor: str = ""


def address_of(call: Call) -> str:
    return f"/hooks/{call.row}"


@signed_in
async def index(call: Call, login: Login) -> Answer:
    query: HooksQuery = call.query
    wanted = words("pipe", "hooks")
    if query.status is not None:
        wanted = wanted & words("status", query.status)
    found = await call.box.log.page(wanted, limit=_AT_ONCE, cursor=query.cursor)
    return render(
        call,
        login,
        "hooks.html",
        active="hooks",
        items=found.items,
        next_cursor=found.next_cursor,
        is_first=not query.cursor,
        statuses=STATUSES,
        chosen=query.status,
        counts=await call.box.hooks.glance(),
    )


@signed_in
async def show(call: Call, login: Login) -> Answer:
    event = await call.box.hooks.get(call.row)
    actions = await call.box.audit.list(subject=("event", str(event.id)))
    return render(
        call,
        login,
        "hook.html",
        active="hooks",
        event=event,
        outlook=explain.of_hook(event),
        moments=timeline.of_hook(event, actions),
        can_retry=event.status not in _ENDED and event.status != "processing",
        is_open=event.status in ("pending", "processing", "failed"),
    )


@acting(back=address_of)
async def retry(call: Call, login: Login, form: Form) -> Answer:
    event = await call.box.hooks.retry(call.row)
    return done(login, f"Event {event.id} goes again.", back_to(form, address_of(call)))
