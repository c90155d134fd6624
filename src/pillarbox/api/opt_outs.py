"""/v1/tenants/{tenant}/opt-outs and /v1/tenants/{tenant}/forget"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from pillarbox.api.answers import Answer, ok
from pillarbox.api.call import Call
from pillarbox.api.paging import Cursor, Limit, page, text_after
from pillarbox.outbound.model import Channel

Contact = Annotated[str, Meta(description="A mailbox, a number, a device token or a URL, in any spelling.")]


class NewOptOut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A contact that wants no more messages, of one channel or of all."""

    contact: Contact
    channel: Channel | Literal["all"] = "all"
    reason: str | None = None


class OptOutFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which opt-outs to list."""

    limit: Limit = 100
    cursor: Cursor = ""


class ForgetRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A contact to be forgotten."""

    contact: Contact


class Forgotten(msgspec.Struct, frozen=True):
    """How many messages to that contact were emptied."""

    forgotten: int


async def add_opt_out(call: Call) -> Answer:
    """No send to the contact begins after this has answered."""
    new: NewOptOut = call.body
    added, is_new = await call.box.outbound.opt_out(call.path["tenant"], new.contact, new.channel, reason=new.reason)
    return ok(added, 201 if is_new else 200)


async def list_opt_outs(call: Call) -> Answer:
    query: OptOutFilter = call.query
    opt_outs = await call.box.outbound.opt_outs(
        call.path["tenant"], limit=query.limit + 1, after=text_after(query.cursor, "opt-out")
    )
    return ok(page(opt_outs, limit=query.limit, kind="opt-out", position=lambda opt_out: opt_out.id))


async def remove_opt_out(call: Call) -> Answer:
    await call.box.outbound.remove_opt_out(call.path["tenant"], call.path["opt_out_id"])
    return Answer(204, None)


async def forget(call: Call) -> Answer:
    request: ForgetRequest = call.body
    return ok(Forgotten(await call.box.outbound.forget(call.path["tenant"], request.contact)))
