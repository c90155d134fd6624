"""Tenants: how each sends, its limits, and who must not be written to."""

from __future__ import annotations

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.bodies import decode_body
from pillarbox.api.call import Call
from pillarbox.api.paging import Cursor, page, text_after
from pillarbox.dashboard.forms import LARGEST_FORM, Form, acting, done
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.pages import render, signed_in
from pillarbox.dashboard.words import count, pretty, segment
from pillarbox.errors import InvalidInput, NotFound
from pillarbox.outbound.model import CHANNELS, NewTenant

_AT_ONCE = 50
_LARGEST_TENANT = 32 * LARGEST_FORM


class TenantsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the page begins."""

    cursor: Cursor = ""


def address_of(call: Call) -> str:
    return f"/tenants/{segment(call.path['tenant'])}"


def index_address(call: Call) -> str:
    return "/tenants"


@signed_in
async def index(call: Call, login: Login) -> Answer:
    query: TenantsQuery = call.query
    found = await call.box.tenants.list(limit=_AT_ONCE + 1, after=text_after(query.cursor, "tenant"))
    listed = page(found, limit=_AT_ONCE, kind="tenant", position=lambda tenant: tenant.tenant_id)
    return render(
        call,
        login,
        "tenants.html",
        active="tenants",
        tenants=listed.items,
        next_cursor=listed.next_cursor,
        is_first=not query.cursor,
    )


@signed_in
async def show(call: Call, login: Login) -> Answer:
    query: TenantsQuery = call.query
    box, tenant_id = call.box, call.path["tenant"]
    tenant = await box.tenants.get(tenant_id)
    opt_outs = await box.outbound.opt_outs(tenant_id, limit=_AT_ONCE + 1, after=text_after(query.cursor, "opt-out"))
    listed = page(opt_outs, limit=_AT_ONCE, kind="opt-out", position=lambda opt_out: opt_out.id)
    document = {
        "name": tenant.name,
        "providers": tenant.providers,
        "settings": msgspec.to_builtins(tenant.settings),
    }
    return render(
        call,
        login,
        "tenant.html",
        active="tenants",
        tenant=tenant,
        document=pretty(document),
        channels=CHANNELS,
        defaults=box.settings.outbound.providers,
        opt_outs=listed.items,
        next_cursor=listed.next_cursor,
        is_first=not query.cursor,
    )


@acting(back=index_address)
async def create(call: Call, login: Login, form: Form) -> Answer:
    """A tenant that is there already is left as it is."""
    tenant_id = form.get("tenant", "").strip()
    try:
        await call.box.tenants.get(tenant_id)
    except NotFound:
        made, _ = await call.box.tenants.put(tenant_id, NewTenant(name=form.get("name", "").strip() or None))
        return done(login, "The tenant is there.", f"/tenants/{segment(made.tenant_id)}")
    raise InvalidInput("tenant", "is taken; choose another name.")


@acting(back=address_of, most=_LARGEST_TENANT)
async def change(call: Call, login: Login, form: Form) -> Answer:
    await call.box.tenants.get(call.path["tenant"])
    new: NewTenant = decode_body(form.get("document", "").encode("utf-8", "replace"), NewTenant)
    await call.box.tenants.put(call.path["tenant"], new)
    return done(login, "The tenant was changed.", address_of(call))


@acting(back=address_of)
async def opt_out(call: Call, login: Login, form: Form) -> Answer:
    contact, channel = form.get("contact", ""), form.get("channel", "all")
    if not contact.strip():
        raise InvalidInput("contact", "is needed: an address, a number, a token or a URL.")
    reason = form.get("reason", "").strip() or None
    _, is_new = await call.box.outbound.opt_out(call.path["tenant"], contact, channel, reason=reason)
    return done(login, "Opted out." if is_new else "That contact was opted out before.", address_of(call))


@acting(back=address_of)
async def remove_opt_out(call: Call, login: Login, form: Form) -> Answer:
    await call.box.outbound.remove_opt_out(call.path["tenant"], call.path["opt_out_id"])
    return done(login, "That contact may be written to again.", address_of(call))


@acting(back=address_of)
async def forget(call: Call, login: Login, form: Form) -> Answer:
    contact = form.get("contact", "")
    if not contact.strip():
        raise InvalidInput("contact", "is needed: an address, a number, a token or a URL.")
    forgotten = await call.box.outbound.forget(call.path["tenant"], contact)
    said = f"Forgotten: {count(forgotten)} message{'' if forgotten == 1 else 's'} no longer tell to whom or what."
    return done(login, said, address_of(call))
