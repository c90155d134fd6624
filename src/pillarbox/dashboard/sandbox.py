"""The sandbox: what would have been sent, and how the next send is to end."""

from __future__ import annotations

from typing import cast

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.dashboard.forms import Form, acting, done
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.pages import render, signed_in
from pillarbox.errors import InvalidInput
from pillarbox.outbound.model import CHANNELS, Channel
from pillarbox.outbound.providers.sandbox import TROUBLES, Trouble

_AT_ONCE = 50
_SAID = {
    "fail": "refused for good",
    "throttle": "throttled",
    "hang": "left without an answer",
    "unknown": "left unknown",
    "flaky": "failed for a moment",
}


class SandboxQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the page begins."""

    cursor: str = ""


def address_of(call: Call) -> str:
    return "/sandbox"


@signed_in
async def show(call: Call, login: Login) -> Answer:
    query: SandboxQuery = call.query
    found = await call.box.sandbox.mailbox(cursor=query.cursor, limit=_AT_ONCE)
    return render(
        call,
        login,
        "sandbox.html",
        active="sandbox",
        messages=found.items,
        next_cursor=found.next_cursor,
        is_first=not query.cursor,
        controls=await call.box.sandbox.list(),
        troubles=TROUBLES,
        channels=CHANNELS,
        said=_SAID,
    )


@acting(back=address_of)
async def arrange(call: Call, login: Login, form: Form) -> Answer:
    times = form.get("times", "1")
    if not (times.isascii() and times.isdigit() and len(times) < 6):
        raise InvalidInput("times", "must be a number.")
    control = await call.box.sandbox.arrange(
        cast("Trouble", form.get("trouble", "")), channel=cast("Channel", form.get("channel", "all")), times=int(times)
    )
    sends = "The next send" if control.remaining == 1 else f"The next {control.remaining} sends"
    where = "" if control.channel == "all" else f" by {control.channel}"
    return done(login, f"{sends}{where} will be {_SAID[control.trouble]}.", "/sandbox")


@acting(back=address_of)
async def clear(call: Call, login: Login, form: Form) -> Answer:
    await call.box.sandbox.clear()
    return done(login, "The sandbox behaves well again.", "/sandbox")
