"""Keys of the inbox: how many there are, and what is known of one."""

from __future__ import annotations

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.pages import render, sentence_of, signed_in
from pillarbox.errors import InvalidInput


class InboxQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The key to look up."""

    key: str = ""


@signed_in
async def show(call: Call, login: Login) -> Answer:
    query: InboxQuery = call.query
    fault, sighting = "", None
    if query.key:
        try:
            sighting = await call.box.inbox.look(query.key)
        except InvalidInput as refusal:
            fault = sentence_of(refusal)
    return render(
        call,
        login,
        "inbox.html",
        active="inbox",
        key=query.key,
        sighting=sighting,
        counts=await call.box.inbox_status(),
        fault=fault,
        retention_days=call.box.settings.inbox.retention_days,
    )
