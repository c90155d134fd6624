"""From a template to a page that is closed to everything outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache, wraps
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

import pillarbox
from pillarbox.api.answers import HTML, Answer
from pillarbox.api.call import Call
from pillarbox.api.problems import Problem, problem_of
from pillarbox.dashboard import words
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.static_files import address_of
from pillarbox.errors import PillarboxError

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors {}"
)
_ALWAYS = (
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-dns-prefetch-control", b"off"),
)
HEADERS = (*_ALWAYS, (b"content-security-policy", _POLICY.format("'none'").encode()), (b"x-frame-options", b"DENY"))

NAVIGATION = (
    ("overview", "/", "Overview"),
    ("messages", "/messages", "Messages"),
    ("sessions", "/sessions", "Sessions"),
    ("hooks", "/hooks", "Hooks"),
    ("inbox", "/inbox", "Inbox"),
    ("tenants", "/tenants", "Tenants"),
    ("sandbox", "/sandbox", "Sandbox"),
    ("audit", "/audit", "Audit"),
)

Page = Callable[[Call, Login], Awaitable[Answer]]


def signed_in(page: Page) -> Callable[[Call], Awaitable[Answer]]:
    """A page for operators alone; everybody else is led to the login."""

    @wraps(page)
    async def show(call: Call) -> Answer:
        login = await call.api.logins.find(call)
        return to_login(call) if login is None else await page(call, login)

    return show


def render(call: Call, login: Login, template: str, *, status: int = 200, active: str = "", **context: Any) -> Answer:
    """A whole page; what an action had to say stands on the next one that is loaded as a whole."""
    notices = [] if is_fragment(call) else login.take_notices()
    page = environment().get_template(template)
    text = page.render(active=active, form_token=login.form_token, node=call.box.node, notices=notices, **context)
    return Answer(status, text.encode("utf-8", "replace"), HTML, HEADERS)


def render_public(template: str, *, status: int = 200, framed_by: str = "'none'", **context: Any) -> Answer:
    """A page for whoever is not signed in; other sites may frame it only where it says so."""
    text = environment().get_template(template).render(**context)
    policy = (b"content-security-policy", _POLICY.format(framed_by).encode())
    closed = ((b"x-frame-options", b"DENY"),) if framed_by == "'none'" else ()
    return Answer(status, text.encode("utf-8", "replace"), HTML, (*_ALWAYS, policy, *closed))


def fragment(template: str, **context: Any) -> str:
    """A piece of a page."""
    return environment().get_template(template).render(**context)


def redirect(path: str, *headers: tuple[bytes, bytes]) -> Answer:
    """Go on to one of our own pages."""
    return Answer(303, b"", HTML, (*HEADERS, (b"location", path.encode()), *headers))


def to_login(call: Call) -> Answer:
    if is_fragment(call):
        # A script would follow a redirect by itself and put the form in the middle of the page.
        return Answer(200, b"", HTML, (*HEADERS, (b"hx-redirect", b"/login")))
    return redirect("/login")


def is_fragment(call: Call) -> bool:
    """Whether a script on a page asks, to renew a part of it."""
    return any(name == b"hx-request" for name, _ in call.scope["headers"])


def sentence_of(error: Exception) -> str:
    """What an action's refusal says to a person."""
    if isinstance(error, PillarboxError):
        error = problem_of(error)
    return error.detail if isinstance(error, Problem) else "Something went wrong here; the log of the server names it."


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("pillarbox.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(_filters())
    made.globals.update(asset=address_of, navigation=NAVIGATION, version=pillarbox.__version__)
    return made


def _filters() -> Mapping[str, Callable[..., object]]:
    names = ("foreign", "tone", "instant", "when", "span", "count", "segment", "term", "pretty", "marked")
    return {name: getattr(words, name) for name in names}
