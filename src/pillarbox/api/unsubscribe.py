"""/u/{token}: what the unsubscribe link of a marketing email leads to, for people and for their mail programs (RFC 8058)."""

from __future__ import annotations

from pillarbox.api.answers import Answer
from pillarbox.api.bodies import read_body
from pillarbox.api.call import Call
from pillarbox.api.pages import html_answer, shown
from pillarbox.errors import NotFound
from pillarbox.outbound.model import Tenant
from pillarbox.telemetry.redact import mask

_LARGEST_FORM = 8 * 1024
_TITLE = "Unsubscribe"
_FORM = '<form method="post"><input type="hidden" name="List-Unsubscribe" value="One-Click"><button>Unsubscribe</button></form>'


async def show(call: Call) -> Answer:
    """Only a page: programs that look at every link of an email must not unsubscribe anybody."""
    found = call.box.outbound.subscriber(call.path["token"])
    tenant = None if found is None else await _tenant(call, found[0])
    if found is None or tenant is None:
        return _unknown()
    who = f"<strong>{shown(tenant.name or tenant.tenant_id)}</strong>"
    return html_answer(_TITLE, f"<p>No more email from {who} to {shown(mask(found[1]))}?</p>{_FORM}")


async def unsubscribe(call: Call) -> Answer:
    """Whatever the body says: a mail program posts `List-Unsubscribe=One-Click`, our page the same."""
    await read_body(call.receive, call.head.content_length, most=_LARGEST_FORM)
    try:
        done = await call.box.outbound.unsubscribe(call.path["token"])
    except NotFound:
        return _unknown()
    return html_answer("Unsubscribed", "<p>You will get no more email from this sender.</p>") if done else _unknown()


async def _tenant(call: Call, tenant_id: str) -> Tenant | None:
    try:
        return await call.box.tenants.get(tenant_id)
    except NotFound:
        return None


def _unknown() -> Answer:
    return html_answer(_TITLE, "<p>This link is not complete. Copy the whole of it from the email.</p>", status=404)
