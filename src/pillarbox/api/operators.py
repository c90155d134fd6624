"""/v1/audit, /v1/nodes, /v1/attention, /v1/sandbox and /v1/tenants/{tenant}/embed-links"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from pillarbox.api.answers import Answer, ok
from pillarbox.api.call import Call
from pillarbox.api.log import paged
from pillarbox.api.paging import Cursor, Limit, page, text_after
from pillarbox.api.problems import invalid
from pillarbox.operators.embeds import DEFAULT_SECONDS, LONGEST_SECONDS
from pillarbox.operators.nodes import Node
from pillarbox.operators.sandbox import MOST_TIMES, Control
from pillarbox.outbound.model import Channel
from pillarbox.outbound.providers.sandbox import Trouble
from pillarbox.text import check_name

SubjectKind = Literal[
    "",
    "message",
    "inbound",
    "event",
    "session",
    "tenant",
    "opt-out",
    "key",
    "operation",
    "database",
    "sandbox",
    "login",
]


class AuditQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which actions to list: all, or those on one subject."""

    subject_kind: SubjectKind = ""
    subject_id: str = ""
    limit: Limit = 100
    cursor: Cursor = ""


class NodeList(msgspec.Struct, frozen=True):
    """Every process that was seen within a day."""

    items: Sequence[Node]


class SandboxView(msgspec.Struct, frozen=True):
    """What the sandbox will do next."""

    items: Sequence[Control]


class NewControl(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trouble for the next sends of a channel."""

    trouble: Trouble
    channel: Channel | Literal["all"] = "all"
    times: Annotated[int, Meta(ge=1, le=MOST_TIMES)] = 1


class MailboxQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of the sandbox's mailbox to show."""

    limit: Limit = 100
    cursor: Cursor = ""


class EmbedRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A link to be made; `origin` is the site that may show it in a frame."""

    expires_in: Annotated[int, Meta(ge=1, le=LONGEST_SECONDS, description="Seconds.")] = DEFAULT_SECONDS
    origin: str | None = None


async def list_actions(call: Call) -> Answer:
    query: AuditQuery = call.query
    if bool(query.subject_kind) != bool(query.subject_id):
        raise invalid("subject_id", "and subject_kind are given together, or neither.")
    if query.subject_id:
        check_name("subject_id", query.subject_id, most=300)
    subject = (str(query.subject_kind), query.subject_id) if query.subject_id else None
    found = await call.box.audit.list(subject=subject, limit=query.limit + 1, before=text_after(query.cursor, "action"))
    return ok(page(found, limit=query.limit, kind="action", position=lambda action: action.id))


async def list_nodes(call: Call) -> Answer:
    return ok(NodeList(await call.box.nodes.list()))


async def attention(call: Call) -> Answer:
    return ok(await call.box.attention())


async def show_sandbox(call: Call) -> Answer:
    return ok(SandboxView(await call.box.sandbox.list()))


async def arrange_trouble(call: Call) -> Answer:
    new: NewControl = call.body
    return ok(await call.box.sandbox.arrange(new.trouble, channel=new.channel, times=new.times), 201)


async def clear_sandbox(call: Call) -> Answer:
    await call.box.sandbox.clear()
    return Answer(204, None)


async def show_mailbox(call: Call) -> Answer:
    query: MailboxQuery = call.query
    found = await call.box.sandbox.mailbox(cursor=text_after(query.cursor, "mailbox"), limit=query.limit)
    return ok(paged(found, "mailbox"))


async def make_embed_link(call: Call) -> Answer:
    request: EmbedRequest = call.body
    made = await call.box.embeds.make(call.path["tenant"], expires_in=request.expires_in, origin=request.origin)
    return ok(made, 201)


async def revoke_embed_links(call: Call) -> Answer:
    await call.box.embeds.revoke(call.path["tenant"])
    return Answer(204, None)
