"""Signing in to the pages: an admin key, or a link that `pillarbox dev` prints, becomes one cookie."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from urllib.parse import parse_qs

from pillarbox.api.answers import Answer
from pillarbox.api.auth import Gate
from pillarbox.api.bodies import read_body
from pillarbox.api.call import Call, parameters
from pillarbox.api.pages import html_answer, redirect
from pillarbox.api.problems import Problem

COOKIE = "pillarbox_login"
_SIGNED_IN_SECONDS = 12 * 3600
_LINK_SECONDS = 3600
_MOST_LOGINS = 1000
_LARGEST_FORM = 8 * 1024
_PURPOSE = b"pillarbox login link "


@dataclass(frozen=True, slots=True)
class Login:
    """A browser that showed an admin key; it is signed in while that key is valid."""

    key: bytes
    until: float
    form_token: str


class Logins:
    """Who is signed in to this process."""

    def __init__(self, gate: Gate, admin_key: str | None) -> None:
        self._gate = gate
        self._admin_key = admin_key
        self._logins: dict[bytes, Login] = {}

    async def open(self, key: bytes) -> str | None:
        """The cookie for whoever shows this key, if it is an admin's."""
        holder = await self._gate.holder(key)
        if holder is None or holder.tenant is not None:
            return None
        cookie = secrets.token_urlsafe(32)
        while len(self._logins) >= _MOST_LOGINS:
            del self._logins[next(iter(self._logins))]
        until = time.monotonic() + _SIGNED_IN_SECONDS
        self._logins[_digest(cookie)] = Login(key, until, secrets.token_urlsafe(32))
        return cookie

    async def open_by_link(self, token: str) -> str | None:
        """The cookie for whoever follows a login link that is still good."""
        if self._admin_key is None or not token_is_good(token, self._admin_key):
            return None
        return await self.open(self._admin_key.encode())

    async def find(self, call: Call) -> Login | None:
        """The login of this request; a key that was revoked ends it."""
        login = self._logins.get(_digest(_cookie(call)))
        if login is None or login.until < time.monotonic():
            return None
        holder = await self._gate.holder(login.key)
        return login if holder is not None and holder.tenant is None else None

    def close(self, call: Call) -> None:
        self._logins.pop(_digest(_cookie(call)), None)


def login_token(admin_key: str, *, lifetime: float = _LINK_SECONDS) -> str:
    """A token for `/login?token=...`, good for a while and worth an admin's cookie."""
    until = str(int(time.time() + lifetime))
    return f"{until}.{_seal(until, admin_key)}"


def token_is_good(token: str, admin_key: str) -> bool:
    until, _, seal = token.partition(".")
    if not hmac.compare_digest(_seal(until, admin_key).encode(), seal.encode("utf-8", "replace")):
        return False
    return int(until) >= time.time()


async def show(call: Call) -> Answer:
    token = parameters(call.scope.get("query_string", b"")).get("token")
    if token is None:
        return html_answer("Pillarbox", _form(""))
    cookie = await call.api.logins.open_by_link(token)
    if cookie is None:
        return html_answer("Pillarbox", _form("This link is no longer good; sign in with an admin key."), status=401)
    return _signed_in(call, cookie)


async def sign_in(call: Call) -> Answer:
    refuse_foreign_origin(call)
    key = (await read_form(call)).get("key", "").strip()
    cookie = await call.api.logins.open(key.encode("utf-8", "replace"))
    if cookie is None:
        return html_answer("Pillarbox", _form("That is not a valid admin key."), status=401)
    return _signed_in(call, cookie)


async def sign_out(call: Call) -> Answer:
    refuse_foreign_origin(call)
    login = await call.api.logins.find(call)
    if login is None:
        return redirect("/login")
    refuse_forged_form(login, await read_form(call))
    call.api.logins.close(call)
    return redirect("/login", (b"set-cookie", f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict".encode()))


async def read_form(call: Call) -> dict[str, str]:
    """The fields of a small form."""
    body = await read_body(call.receive, call.head.content_length, most=_LARGEST_FORM)
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=20)
    except ValueError:
        raise Problem(400, "not-a-form", "The body is not a form.") from None
    return {name: values[0] for name, values in fields.items()}


def refuse_foreign_origin(call: Call) -> None:
    """A page of another site may not post our forms."""
    origin, host = call.head.origin, call.head.host or b""
    if origin is not None and origin not in (b"http://" + host, b"https://" + host):
        raise Problem(403, "foreign-origin", "This form was sent from a page of another site.")


def refuse_forged_form(login: Login, form: dict[str, str]) -> None:
    given = form.get("form_token", "").encode("utf-8", "replace")
    if not hmac.compare_digest(given, login.form_token.encode()):
        raise Problem(403, "forged-form", "This form is not from your page; load the page again.")


def _signed_in(call: Call, cookie: str) -> Answer:
    secure = "; Secure" if call.scope.get("scheme") == "https" else ""
    attributes = f"Path=/; Max-Age={_SIGNED_IN_SECONDS}; HttpOnly; SameSite=Strict{secure}"
    return redirect("/", (b"set-cookie", f"{COOKIE}={cookie}; {attributes}".encode()))


def _form(notice: str) -> str:
    return (
        '<form class="sign-in" method="post" action="/login">'
        f'<p class="bad" role="alert">{notice}</p>'
        '<label for="key">Admin key</label>'
        '<input id="key" name="key" type="password" autocomplete="current-password" required autofocus>'
        "<button>Sign in</button>"
        '<p class="soft">The key of PILLARBOX_ADMIN_KEY, the one that serve printed at its first start, '
        "or one from <code>pillarbox keys create</code>.</p></form>"
    )


def _cookie(call: Call) -> str:
    pairs = (pair.strip().partition("=") for pair in call.head.cookie.decode("latin-1").split(";"))
    return next((value for name, _, value in pairs if name == COOKIE), "")


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).digest()


def _seal(until: str, admin_key: str) -> str:
    return hmac.new(admin_key.encode(), _PURPOSE + until.encode("utf-8", "replace"), "sha256").hexdigest()
