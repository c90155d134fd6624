"""Who is signed in: an admin key, or a link that `pillarbox dev` prints, becomes one cookie."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pillarbox.api.auth import Gate

if TYPE_CHECKING:
    from pillarbox.api.call import Call

COOKIE = "pillarbox_login"
SIGNED_IN_SECONDS = 12 * 3600
_LINK_SECONDS = 3600
_MOST_LOGINS = 1000
_MOST_NOTICES = 5
_PURPOSE = b"pillarbox login link "

Tone = Literal["good", "bad"]


@dataclass(frozen=True, slots=True)
class Notice:
    """What became of an action, to be shown once."""

    tone: Tone
    sentence: str


@dataclass(frozen=True, slots=True)
class Login:
    """A browser that showed an admin key; it is signed in while that key is valid."""

    key: bytes = field(repr=False)
    until: float
    form_token: str = field(repr=False)
    who: str
    shown: str
    """Which key it showed, as the audit names it."""
    _notices: list[Notice] = field(default_factory=list)

    def notify(self, tone: Tone, sentence: str) -> None:
        """Leave a sentence for the next page."""
        self._notices[:] = [*self._notices, Notice(tone, sentence)][-_MOST_NOTICES:]

    def take_notices(self) -> list[Notice]:
        taken = list(self._notices)
        self._notices.clear()
        return taken


class Logins:
    """Who is signed in to this process."""

    def __init__(self, gate: Gate, admin_key: str | None) -> None:
        self._gate = gate
        self._admin_key = admin_key
        self._logins: dict[bytes, Login] = {}

    async def open(self, key: bytes) -> tuple[str, Login] | None:
        """The cookie for whoever shows this key, if it is an admin's, and whom it stands for."""
        holder = await self._gate.holder(key)
        if holder is None or holder.tenant is not None:
            return None
        cookie = secrets.token_urlsafe(32)
        while len(self._logins) >= _MOST_LOGINS:
            del self._logins[next(iter(self._logins))]
        until = time.monotonic() + SIGNED_IN_SECONDS
        # Two browsers with one key are told apart by a few digits that lead back to neither.
        who = f"login:{_digest(cookie).hex()[:8]}"
        login = Login(key, until, secrets.token_urlsafe(32), who, holder.who)
        self._logins[_digest(cookie)] = login
        return cookie, login

    async def open_by_link(self, token: str) -> tuple[str, Login] | None:
        """The same for whoever follows a login link that is still good."""
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


def _cookie(call: Call) -> str:
    pairs = (pair.strip().partition("=") for pair in call.head.cookie.decode("latin-1").split(";"))
    return next((value for name, _, value in pairs if name == COOKIE), "")


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).digest()


def _seal(until: str, admin_key: str) -> str:
    return hmac.new(admin_key.encode(), _PURPOSE + until.encode("utf-8", "replace"), "sha256").hexdigest()
