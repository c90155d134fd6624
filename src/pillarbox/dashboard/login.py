"""Signing in and out."""

from __future__ import annotations

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call, parameters
from pillarbox.audit import Act, acting_as
from pillarbox.dashboard.forms import read_form, refuse_forged_form
from pillarbox.dashboard.logins import COOKIE, SIGNED_IN_SECONDS, Login
from pillarbox.dashboard.origins import is_encrypted, refuse_foreign_origin
from pillarbox.dashboard.pages import redirect, render_public
from pillarbox.errors import Unavailable
from pillarbox.telemetry import brief, logger

_log = logger(__name__)


async def show(call: Call) -> Answer:
    token = parameters(call.scope.get("query_string", b"")).get("token")
    if token is None:
        return render_public("login.html", notice="")
    opened = await call.api.logins.open_by_link(token)
    if opened is None:
        notice = "This link is no longer good; sign in by one of the ways below."
        return render_public("login.html", status=401, notice=notice)
    return await _signed_in(call, *opened)


async def sign_in(call: Call) -> Answer:
    refuse_foreign_origin(call)
    key = (await read_form(call)).get("key", "").strip()
    opened = await call.api.logins.open(key.encode("utf-8", "replace"))
    if opened is None:
        return render_public("login.html", status=401, notice="That is not a valid admin key.")
    return await _signed_in(call, *opened)


async def sign_out(call: Call) -> Answer:
    refuse_foreign_origin(call)
    login = await call.api.logins.find(call)
    if login is None:
        return redirect("/login")
    refuse_forged_form(login, await read_form(call))
    call.api.logins.close(call)
    await _note(call, login, "sign-out")
    return redirect("/login", (b"set-cookie", f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict".encode()))


async def _signed_in(call: Call, cookie: str, login: Login) -> Answer:
    await _note(call, login, "sign-in")
    secure = "; Secure" if is_encrypted(call) else ""
    attributes = f"Path=/; Max-Age={SIGNED_IN_SECONDS}; HttpOnly; SameSite=Strict{secure}"
    return redirect("/", (b"set-cookie", f"{COOKIE}={cookie}; {attributes}".encode()))


async def _note(call: Call, login: Login, action: str) -> None:
    """Who comes and goes is noted; whoever comes because the database takes nothing is let in to see that."""
    try:
        with acting_as(login.who):
            await call.box.audit.note(Act(action, "login", login.shown))
    except Unavailable as error:
        _log.warning("a login could not be noted", action=action, error=brief(error))
