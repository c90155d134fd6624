"""Signing in and out."""

from __future__ import annotations

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call, parameters
from pillarbox.dashboard.forms import read_form, refuse_foreign_origin, refuse_forged_form
from pillarbox.dashboard.logins import COOKIE, SIGNED_IN_SECONDS
from pillarbox.dashboard.pages import redirect, render_public


async def show(call: Call) -> Answer:
    token = parameters(call.scope.get("query_string", b"")).get("token")
    if token is None:
        return render_public("login.html", notice="")
    cookie = await call.api.logins.open_by_link(token)
    if cookie is None:
        notice = "This link is no longer good; sign in with an admin key."
        return render_public("login.html", status=401, notice=notice)
    return _signed_in(call, cookie)


async def sign_in(call: Call) -> Answer:
    refuse_foreign_origin(call)
    key = (await read_form(call)).get("key", "").strip()
    cookie = await call.api.logins.open(key.encode("utf-8", "replace"))
    if cookie is None:
        return render_public("login.html", status=401, notice="That is not a valid admin key.")
    return _signed_in(call, cookie)


async def sign_out(call: Call) -> Answer:
    refuse_foreign_origin(call)
    login = await call.api.logins.find(call)
    if login is None:
        return redirect("/login")
    refuse_forged_form(login, await read_form(call))
    call.api.logins.close(call)
    return redirect("/login", (b"set-cookie", f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict".encode()))


def _signed_in(call: Call, cookie: str) -> Answer:
    secure = "; Secure" if call.scope.get("scheme") == "https" else ""
    attributes = f"Path=/; Max-Age={SIGNED_IN_SECONDS}; HttpOnly; SameSite=Strict{secure}"
    return redirect("/", (b"set-cookie", f"{COOKIE}={cookie}; {attributes}".encode()))
