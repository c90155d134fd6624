"""Tenants: how each sends, its limits, and who must not be written to."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.bodies import decode_body
from pillarbox.api.call import Call
from pillarbox.api.paging import Cursor, page, text_after
from pillarbox.api.problems import Problem
from pillarbox.dashboard.forms import LARGEST_FORM, Form, acting, done
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.pages import render, sentence_of, signed_in
from pillarbox.dashboard.words import count, distance, pretty, segment
from pillarbox.errors import ChangedMeanwhile, InvalidInput
from pillarbox.outbound.model import CHANNELS, NewTenant, Tenant
from pillarbox.outbound.tenants import fingerprint

_AT_ONCE = 50
_LARGEST_TENANT = 128 * LARGEST_FORM


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
    return await _page(call, login, cursor=query.cursor)


async def _page(
    call: Call, login: Login, *, cursor: str = "", form: Form | None = None, fault: str = "", is_news: bool = False
) -> Answer:
    """The page of a tenant; after a refused change with what was typed and why.

    If what is stored is news, it stands beside what was typed, and what is saved next is a change of it.
    """
    box, tenant_id = call.box, call.path["tenant"]
    tenant = await box.tenants.get(tenant_id)
    opt_outs = await box.outbound.opt_outs(tenant_id, limit=_AT_ONCE + 1, after=text_after(cursor, "opt-out"))
    listed = page(opt_outs, limit=_AT_ONCE, kind="opt-out", position=lambda opt_out: opt_out.id)
    document = pretty(_document(tenant))
    return render(
        call,
        login,
        "tenant.html",
        status=422 if fault else 200,
        active="tenants",
        tenant=tenant,
        document=document if form is None else form.get("document", ""),
        seen=fingerprint(tenant) if form is None or is_news else form.get("seen", ""),
        fault=fault,
        stored=document if is_news else "",
        channels=CHANNELS,
        defaults=box.settings.outbound.providers,
        opt_outs=listed.items,
        next_cursor=listed.next_cursor,
        is_first=not cursor,
    )


def _document(tenant: Tenant) -> dict[str, Any]:
    return {
        "name": tenant.name,
        "providers": tenant.providers,
        "settings": msgspec.to_builtins(tenant.settings),
    }


@acting(back=index_address)
async def create(call: Call, login: Login, form: Form) -> Answer:
    """A tenant that is there already is left as it is."""
    tenant_id, name = form.get("tenant", "").strip(), form.get("name", "").strip() or None
    made, _ = await call.box.tenants.put(tenant_id, NewTenant(name=name), must_be_new=True)
    return done(login, "The tenant is there.", f"/tenants/{segment(made.tenant_id)}")


@acting(back=address_of, most=_LARGEST_TENANT)
async def change(call: Call, login: Login, form: Form) -> Answer:
    """What is refused stays in the form; what another operator changed meanwhile is not overwritten unseen."""
    await call.box.tenants.get(call.path["tenant"])
    try:
        new = _read(form.get("document", ""))
        await call.box.tenants.put(call.path["tenant"], new, seen=form.get("seen", ""))
    except ChangedMeanwhile:
        return await _page(call, login, form=form, fault=await _who_changed(call), is_news=True)
    except (InvalidInput, Problem) as refusal:
        return await _page(call, login, form=form, fault=sentence_of(refusal))
    return done(login, "The tenant was changed.", address_of(call))


def _read(typed: str) -> NewTenant:
    try:
        json.loads(typed)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidInput("document", f"is not JSON at {where}: {error.msg}.") from None
    except RecursionError:
        raise InvalidInput("document", "is nested too deeply.") from None
    except ValueError:
        # Python refuses to read numbers of thousands of digits.
        raise InvalidInput("document", "holds a number that is too long.") from None
    return decode_body(typed.encode("utf-8", "replace"), NewTenant)


async def _who_changed(call: Call) -> str:
    """Who must not be overwritten; a program that uses its own box leaves no name."""
    acts = await call.box.audit.list(subject=("tenant", call.path["tenant"]))
    latest = next((act for act in acts if act.action == "tenant.put" and act.outcome == "done"), None)
    who = f"{latest.who} changed this tenant {distance(latest.at)}" if latest else "A program changed this tenant"
    return f"{who}, after you opened it. Nothing of yours was saved: bring yours and theirs together, then save."


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
