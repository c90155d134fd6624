"""One message on its way out: what happened, what it says, and the buttons."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

from pillarbox.api.answers import HTML, Answer
from pillarbox.api.call import Call
from pillarbox.api.problems import Problem, no_such_path
from pillarbox.dashboard import explain, timeline
from pillarbox.dashboard.forms import LARGEST_MESSAGE, Form, acting, done
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.pages import render, sentence_of, signed_in
from pillarbox.dashboard.presenting import call_of, segments_of
from pillarbox.dashboard.words import segment
from pillarbox.errors import PillarboxError
from pillarbox.outbound.contents import CHANGEABLE
from pillarbox.outbound.model import OutboundMessage

_RETRYABLE = frozenset({"failed", "expired", "canceled"})
_CANCELABLE = frozenset({"pending", "retrying"})
_OPEN = frozenset({"pending", "processing", "retrying"})
# The policy lets none of these load anything, but for some a browser connects to where they lead before it asks the policy.
_LEADING = re.compile("<(?=(?:link|meta|base|i?frame|frameset|object|embed|portal)(?![a-z0-9-]))", re.IGNORECASE)
# Nothing runs in it, nothing is loaded by it, and no page of ours is within its reach.
_PREVIEW = (
    (
        b"content-security-policy",
        b"sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
        b"frame-ancestors 'self'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"x-dns-prefetch-control", b"off"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def address_of(call: Call) -> str:
    return f"/messages/{segment(call.path['message_id'])}"


@signed_in
async def show(call: Call, login: Login) -> Answer:
    box, message_id = call.box, call.path["message_id"]
    message = await box.outbound.get(message_id)
    content = await box.outbound.contents.get(message_id)
    actions = await box.audit.list(subject=("message", message_id))
    return render(
        call,
        login,
        "message.html",
        active="messages",
        message=message,
        content=content,
        outlook=explain.of_outbound(message),
        limit=explain.attempt_limit(message),
        moments=timeline.of_outbound(message, actions),
        segments=segments_of(message),
        request=call_of(message, content),
        can_retry=message.status in _RETRYABLE and message.to_address is not None,
        can_cancel=message.status in _CANCELABLE,
        can_edit=message.to_address is not None,
        is_open=message.status in _OPEN,
    )


async def preview(call: Call) -> Answer:
    """The HTML of a message as its own document, which can do nothing and reach nothing."""
    if await call.api.logins.find(call) is None:
        raise no_such_path()
    message = await call.box.outbound.get(call.path["message_id"])
    if message.body_html is None:
        raise no_such_path()
    return Answer(200, without_ways_out(message.body_html).encode("utf-8", "replace"), HTML, _PREVIEW)


def without_ways_out(html: str) -> str:
    """The HTML with elements that lead elsewhere turned into ones that mean nothing; everything else as it is."""
    return _LEADING.sub("<x-", html)


@acting(back=address_of)
async def retry(call: Call, login: Login, form: Form) -> Answer:
    await call.box.outbound.retry(call.path["message_id"])
    return done(login, "Queued again; below is what became of it.", address_of(call))


@acting(back=address_of)
async def cancel(call: Call, login: Login, form: Form) -> Answer:
    await call.box.outbound.cancel(call.path["message_id"])
    return done(login, "Canceled: it will not be sent.", address_of(call))


@signed_in
async def edit(call: Call, login: Login) -> Answer:
    message = await call.box.outbound.get(call.path["message_id"])
    is_webhook = message.channel == "webhook"
    values = {
        "to": message.to_address or "",
        "subject": message.subject or "",
        "text": "" if is_webhook else message.body_text or "",
        "html": message.body_html or "",
        "body": message.body_text or "" if is_webhook else "",
    }
    return _form(call, login, message, values)


@acting(back=address_of, most=LARGEST_MESSAGE)
async def resend(call: Call, login: Login, form: Form) -> Answer:
    """A new message with an id of its own; the one before stays as it is."""
    box, message_id = call.box, call.path["message_id"]
    changes = {name: form[name] for name in CHANGEABLE if name in form}
    try:
        queued = await box.outbound.resending.resend(message_id, changes, idempotency_key=form.get("once") or None)
    except (PillarboxError, Problem) as refusal:
        message = await box.outbound.get(message_id)
        return _form(call, login, message, dict.fromkeys(CHANGEABLE, "") | changes, fault=sentence_of(refusal))
    return done(login, "Sent as a new message; this is it.", f"/messages/{queued.message_id}")


def _form(call: Call, login: Login, message: OutboundMessage, values: Mapping[str, str], *, fault: str = "") -> Answer:
    """The form to change a message; sent twice by accident, it makes one message."""
    return render(
        call,
        login,
        "edit.html",
        status=422 if fault else 200,
        active="messages",
        message=message,
        values=values,
        fault=fault,
        once=secrets.token_urlsafe(16),
    )
