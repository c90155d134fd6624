"""The paths of the pages, as data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call, Endpoint
from pillarbox.dashboard import (
    actions,
    audit,
    embed,
    hooks,
    inbound,
    inbox,
    live,
    log,
    login,
    message,
    overview,
    sandbox,
    sessions,
    static_files,
    tenants,
)

HTML = "text/html"
FORM_PROBLEMS = (400, 403, 408, 413)

Act = Callable[[Call], Awaitable[Answer]]


def _page(path: str, act: Act, summary: str, *, query: type[msgspec.Struct] | None = None) -> Endpoint:
    answers = {200: str, 303: None, 404: str}
    return Endpoint("GET", path, act, summary, answers, query=query, problems=(503,), media_type=HTML, needs_key=False)


def _form(path: str, act: Act, summary: str, *, shown_again: bool = False) -> Endpoint:
    """A form that is refused is told so on the page it came from, or is shown again with what was typed."""
    answers = {303: None, 404: str} | ({422: str} if shown_again else {})
    problems = (*FORM_PROBLEMS, 503)
    return Endpoint("POST", path, act, summary, answers, problems=problems, media_type=HTML, needs_key=False)


def _stream(path: str, act: Act, summary: str, *, query: type[msgspec.Struct] | None = None) -> Endpoint:
    answers = {200: str}
    kind = live.MEDIA_TYPE
    return Endpoint(
        "GET", path, act, summary, answers, query=query, problems=(404, 503), media_type=kind, needs_key=False
    )


MESSAGE, INBOUND, HOOK = "/messages/{message_id}", "/inbound/{id}", "/hooks/{id}"
SESSION, TENANT = "/sessions/{session_id}", "/tenants/{tenant}"

LOGIN = (
    Endpoint(
        "GET",
        "/login",
        login.show,
        "The form to sign in with an admin key, or by the link that `pillarbox dev` prints",
        {200: str, 303: None, 401: str},
        problems=(422,),
        media_type=HTML,
        needs_key=False,
    ),
    Endpoint(
        "POST",
        "/login",
        login.sign_in,
        "Sign in",
        {303: None, 401: str},
        problems=FORM_PROBLEMS,
        media_type=HTML,
        needs_key=False,
    ),
    _form("/logout", login.sign_out, "Sign out"),
    Endpoint(
        "GET",
        "/static/{name}",
        static_files.serve,
        "A style, script or picture of the pages, to be kept for ever",
        {200: str},
        problems=(404,),
        media_type="*/*",
        needs_key=False,
    ),
)

PAGES = (
    *LOGIN,
    _page("/", overview.show, "What needs an operator, how much waits and flows, and who is at work"),
    _stream("/live/overview", overview.follow, "The overview as it changes"),
    _page("/messages", log.show, "Every message and event in one log", query=log.LogQuery),
    _stream("/live/messages", log.follow, "The log as it changes", query=log.LogQuery),
    _page("/actions", actions.ask, "What an action on all that match would do", query=actions.ActionQuery),
    _form("/actions", actions.begin, "Begin an action on all that match"),
    _page("/actions/{operation_id}", actions.show, "An action on all that matched, and how far it has come"),
    _form("/actions/{operation_id}/stop", actions.stop, "End an action where it is"),
    _page(MESSAGE, message.show, "An outbound message: its timeline, its content, its outlook"),
    Endpoint(
        "GET",
        f"{MESSAGE}/preview",
        message.preview,
        "The HTML of a message, as a document that can do nothing",
        {200: str},
        problems=(404, 503),
        media_type=HTML,
        needs_key=False,
    ),
    _form(f"{MESSAGE}/retry", message.retry, "Retry a message"),
    _form(f"{MESSAGE}/cancel", message.cancel, "Cancel a message"),
    _page(f"{MESSAGE}/edit", message.edit, "The form to send a message again with changes"),
    _form(f"{MESSAGE}/resend", message.resend, "Send a message again with changes, as a new one", shown_again=True),
    _page(INBOUND, inbound.show, "An inbound message"),
    _form(f"{INBOUND}/retry", inbound.retry, "Try an inbound message now"),
    _form(f"{INBOUND}/expire", inbound.expire, "Give an inbound message up"),
    _page("/sessions", sessions.index, "A lane for each session", query=sessions.SessionsQuery),
    _page(SESSION, sessions.show, "A session, its lane and its messages"),
    _form(f"{SESSION}/close", sessions.close, "Close a session"),
    _page("/hooks", hooks.index, "Events of agents", query=hooks.HooksQuery),
    _page(HOOK, hooks.show, "An event of an agent"),
    _form(f"{HOOK}/retry", hooks.retry, "Try an event again"),
    _page("/inbox", inbox.show, "Keys of the inbox", query=inbox.InboxQuery),
    _page("/tenants", tenants.index, "Tenants", query=tenants.TenantsQuery),
    _form("/tenants", tenants.create, "Make a tenant"),
    _page(TENANT, tenants.show, "A tenant, its providers, limits and opt-outs", query=tenants.TenantsQuery),
    _form(TENANT, tenants.change, "Change a tenant", shown_again=True),
    _form(f"{TENANT}/opt-outs", tenants.opt_out, "Opt a contact out"),
    _form(f"{TENANT}/opt-outs/{{opt_out_id}}/remove", tenants.remove_opt_out, "Remove an opt-out"),
    _form(f"{TENANT}/forget", tenants.forget, "Forget a contact"),
    Endpoint(
        "POST",
        f"{TENANT}/embed-links",
        embed.make,
        "Make a link to a tenant's messages, to read only",
        {200: str, 303: None},
        problems=(*FORM_PROBLEMS, 503),
        media_type=HTML,
        needs_key=False,
    ),
    _form(f"{TENANT}/embed-links/revoke", embed.revoke, "End every link of a tenant"),
    _page("/embed/{token}", embed.show, "A tenant's messages, to read only, by a link", query=embed.EmbedQuery),
    _page("/sandbox", sandbox.show, "What the sandbox was given, and what it does next", query=sandbox.SandboxQuery),
    _form("/sandbox", sandbox.arrange, "Let the next sends of the sandbox end in trouble"),
    _form("/sandbox/clear", sandbox.clear, "Let the sandbox behave well again"),
    _page("/audit", audit.show, "What operators did", query=audit.AuditQuery),
)
