"""A tenant's own messages, to read only, behind a link that is good for a while."""

from __future__ import annotations

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.api.problems import invalid
from pillarbox.dashboard import tenants
from pillarbox.dashboard.forms import Form, acting, done
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.origins import base_of
from pillarbox.dashboard.pages import render, render_public, sentence_of
from pillarbox.errors import InvalidInput
from pillarbox.filters import parse_filter
from pillarbox.operators.model import Stretch
from pillarbox.outbound.model import MessageItem

_AT_ONCE = 50
_NOTHING: Stretch[MessageItem] = Stretch([], None)


class EmbedQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to show, in the filter language, and where the page begins."""

    filter: str = ""
    cursor: str = ""


async def show(call: Call) -> Answer:
    """Only what the link is for: whatever the filter says, no other tenant's messages match."""
    query: EmbedQuery = call.query
    token = call.path["token"]
    embedded = await call.box.embeds.open(token)
    if embedded is None:
        return render_public("embed_over.html", status=404)
    fault, found = "", _NOTHING
    try:
        wanted = parse_filter(query.filter)
        found = await call.box.log.messages(embedded.tenant_id, wanted, cursor=query.cursor, limit=_AT_ONCE)
    except InvalidInput as refusal:
        fault = sentence_of(refusal)
    return render_public(
        "embed.html",
        status=422 if fault else 200,
        framed_by=embedded.origin or "'none'",
        here=f"/embed/{token}",
        embedded=embedded,
        messages=found.items,
        next_cursor=found.next_cursor,
        is_first=not query.cursor,
        filter=query.filter,
        fault=fault,
    )


@acting(back=tenants.address_of)
async def make(call: Call, login: Login, form: Form) -> Answer:
    seconds = form.get("expires_in", "3600")
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) < 8):
        raise invalid("expires_in", "must be a number of seconds.")
    origin = form.get("origin", "").strip().rstrip("/") or None
    link = await call.box.embeds.make(call.path["tenant"], expires_in=int(seconds), origin=origin)
    url = link.url if "://" in link.url else f"{base_of(call)}{link.url}"
    return render(
        call,
        login,
        "embed_link.html",
        active="tenants",
        link=link,
        url=url,
        tenant_id=call.path["tenant"],
        origin=origin,
    )


@acting(back=tenants.address_of)
async def revoke(call: Call, login: Login, form: Form) -> Answer:
    await call.box.embeds.revoke(call.path["tenant"])
    return done(login, "Every link of this tenant has ended.", tenants.address_of(call))
