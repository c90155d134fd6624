"""The paths of outbound, as data."""

from __future__ import annotations

from pillarbox.api import messages, opt_outs, tenants, unsubscribe
from pillarbox.api.call import Endpoint, Nothing
from pillarbox.api.idempotency import IDEMPOTENCY_KEY
from pillarbox.api.paging import Page
from pillarbox.outbound.model import MessageItem, NewMessage, NewTenant, OptOut, OutboundMessage, Tenant

TENANTS, TENANT = "/v1/tenants", "/v1/tenants/{tenant}"
MESSAGES, MESSAGE = f"{TENANT}/messages", f"{TENANT}/messages/{{message_id}}"
OPT_OUTS = f"{TENANT}/opt-outs"
UNSUBSCRIBE = "/u/{token}"
HTML = "text/html"

OUTBOUND = (
    Endpoint(
        "PUT",
        TENANT,
        tenants.put_tenant,
        "Make a tenant (201), or replace what is known of it (200)",
        {201: Tenant, 200: Tenant},
        body=NewTenant,
        problems=(403,),
        for_admins=True,
    ),
    Endpoint("GET", TENANTS, tenants.list_tenants, "List tenants", {200: Page[Tenant]}, query=tenants.TenantFilter),
    Endpoint("GET", TENANT, tenants.get_tenant, "Show a tenant; never a secret", {200: Tenant}, problems=(404,)),
    Endpoint(
        "DELETE",
        TENANT,
        tenants.delete_tenant,
        "Delete a tenant that has nothing waiting",
        {204: None},
        problems=(403, 404, 409),
        for_admins=True,
    ),
    Endpoint(
        "POST",
        MESSAGES,
        messages.post_message,
        "Queue a message; with an `Idempotency-Key` it may be sent again and is queued once",
        {202: messages.Accepted},
        body=NewMessage,
        headers=(IDEMPOTENCY_KEY,),
        problems=(404, 409),
    ),
    Endpoint(
        "GET",
        MESSAGES,
        messages.list_messages,
        "List messages, the newest first",
        {200: Page[MessageItem]},
        query=messages.MessageFilter,
        problems=(404,),
    ),
    Endpoint(
        "GET",
        MESSAGE,
        messages.get_message,
        "Show a message, its attempts and its events",
        {200: OutboundMessage},
        problems=(404,),
    ),
    Endpoint(
        "POST",
        f"{MESSAGE}/cancel",
        messages.cancel_message,
        "Cancel a message while no attempt is running",
        {200: OutboundMessage},
        body=Nothing,
        problems=(404, 409),
    ),
    Endpoint(
        "POST",
        f"{MESSAGE}/retry",
        messages.retry_message,
        "Queue a failed, expired or canceled message again, at once",
        {202: OutboundMessage},
        body=Nothing,
        problems=(404, 409),
    ),
    Endpoint(
        "POST",
        OPT_OUTS,
        opt_outs.add_opt_out,
        "Never write to a contact again; 200 when it was opted out before",
        {201: OptOut, 200: OptOut},
        body=opt_outs.NewOptOut,
        problems=(404,),
    ),
    Endpoint(
        "GET",
        OPT_OUTS,
        opt_outs.list_opt_outs,
        "List opt-outs",
        {200: Page[OptOut]},
        query=opt_outs.OptOutFilter,
        problems=(404,),
    ),
    Endpoint(
        "DELETE",
        f"{OPT_OUTS}/{{opt_out_id}}",
        opt_outs.remove_opt_out,
        "Remove an opt-out, so that the contact is written to again",
        {204: None},
        problems=(404,),
    ),
    Endpoint(
        "POST",
        f"{TENANT}/forget",
        opt_outs.forget,
        "Take a contact and what it was sent out of everything that is kept",
        {200: opt_outs.Forgotten},
        body=opt_outs.ForgetRequest,
        problems=(404,),
    ),
)

LINKS = (
    Endpoint(
        "GET",
        UNSUBSCRIBE,
        unsubscribe.show,
        "The page behind an unsubscribe link; it changes nothing",
        {200: str, 404: str},
        media_type=HTML,
        needs_key=False,
    ),
    Endpoint(
        "POST",
        UNSUBSCRIBE,
        unsubscribe.unsubscribe,
        "Opt the recipient of that link out of email (RFC 8058)",
        {200: str, 404: str},
        media_type=HTML,
        problems=(408, 413),
        needs_key=False,
    ),
)
