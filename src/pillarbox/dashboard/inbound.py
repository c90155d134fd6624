"""One message on its way to a session."""

from __future__ import annotations

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.dashboard import explain, timeline
from pillarbox.dashboard.forms import Form, acting, back_to, done
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.pages import render, signed_in
from pillarbox.hooks.model import read_payload
from pillarbox.inbound.model import ENDED


def address_of(call: Call) -> str:
    return f"/inbound/{call.row}"


@signed_in
async def show(call: Call, login: Login) -> Answer:
    box = call.box
    message = await box.inbound.get(call.row)
    is_open = message.status not in ENDED
    head = (await box.inbound.queue(message.session_id)).head if is_open else None
    actions = await box.audit.list(subject=("inbound", str(message.id)))
    return render(
        call,
        login,
        "inbound.html",
        active="messages",
        message=message,
        payload=read_payload(message.payload_json) if message.payload_json else None,
        outlook=explain.of_inbound(message, head),
        moments=timeline.of_inbound(message, actions),
        is_open=is_open,
        can_retry=message.status in ("failed", "pending"),
    )


@acting(back=address_of)
async def retry(call: Call, login: Login, form: Form) -> Answer:
    message = await call.box.inbound.retry(call.row)
    return done(login, f"Message {message.id} is tried now.", back_to(form, address_of(call)))


@acting(back=address_of)
async def expire(call: Call, login: Login, form: Form) -> Answer:
    message = await call.box.inbound.expire(call.row)
    return done(
        login, f"Message {message.id} is {message.status}; the next one can go.", back_to(form, address_of(call))
    )
