"""What went wrong, as a page: for people whatever programs get as a problem in JSON."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.api.head import read_head
from pillarbox.api.pages import html_answer
from pillarbox.api.problems import NO_SUCH_PATH, Problem
from pillarbox.api.router import segments_of
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.pages import NAVIGATION, render, render_public, to_login
from pillarbox.errors import PillarboxError

if TYPE_CHECKING:
    from pillarbox.api.app import Api

_TITLES = {
    403: "Refused",
    404: "Not found",
    405: "Not a page to open",
    413: "Too large",
    422: "That cannot be read",
    500: "Something went wrong",
    503: "Not available now",
}
_BEFORE_ANY_PATH = (421, 431)
_FOR_EVERYBODY = frozenset({"login", "logout", "embed"})
_FOR_OPERATORS = frozenset({"actions", "inbound", *(path.strip("/") for _, path, _ in NAVIGATION)})
_FOR_PROGRAMS = frozenset({"v1", "adapters", "webhook", "u", "live", "static", "metrics", "healthz", "readyz"})
_SECTIONS = {path.strip("/"): (path, words) for _, path, words in NAVIGATION if path != "/"}
_SECTIONS |= dict.fromkeys(("inbound", "actions"), _SECTIONS["messages"])


async def fault_page(api: Api, scope: Scope, receive: Receive, problem: Problem) -> Answer | None:
    """The page for a request that went wrong, or None where a program asked; operators' pages want a login first."""
    if problem.status in _BEFORE_ANY_PATH:
        return _bare(problem) if _wants_a_page(scope) else None
    segments = segments_of(scope)
    # Of the paths that begin with an empty segment only the first page is one of ours.
    first = segments[0] if segments and (segments == [""] or segments[0]) else None
    is_known = first in _FOR_OPERATORS or first in _FOR_EVERYBODY
    is_page = is_known or (first not in _FOR_PROGRAMS and _wants_a_page(scope))
    if not is_page or (first, *segments[2:]) == ("messages", "preview"):
        return None
    call = Call(api, read_head(scope["headers"]), scope, receive, {})
    try:
        login = await api.logins.find(call)
    except PillarboxError:
        return _with_headers(_public(call, problem), problem)
    if login is not None:
        return _with_headers(_for_operator(call, login, problem, _SECTIONS.get(first or "")), problem)
    return (
        to_login(call) if first in _FOR_OPERATORS and _looks(call) else _with_headers(_public(call, problem), problem)
    )


def _for_operator(call: Call, login: Login, problem: Problem, onwards: tuple[str, str] | None) -> Answer:
    return render(
        call,
        login,
        "fault.html",
        status=problem.status,
        title=_title(problem),
        sentence=_sentence(problem),
        onwards=onwards,
    )


def _public(call: Call, problem: Problem) -> Answer:
    return render_public(
        "fault_public.html",
        status=problem.status,
        title=_title(problem),
        sentence=_sentence(problem),
        again=problem.status == 503 and _looks(call),
    )


def _bare(problem: Problem) -> Answer:
    """Whole in itself: from a host that is not ours no style could be loaded."""
    page = html_answer("Pillarbox", f'<p id="fault">{escape(problem.detail)}</p>', status=problem.status)
    return _with_headers(page, problem)


def _with_headers(page: Answer, problem: Problem) -> Answer:
    return Answer(page.status, page.body, page.media_type, (*page.headers, *problem.headers))


def _title(problem: Problem) -> str:
    return _TITLES.get(problem.status, "That cannot be done")


def _sentence(problem: Problem) -> str:
    if problem.detail == NO_SUCH_PATH:
        return "There is no page at this address."
    return "This address only takes forms of our pages." if problem.status == 405 else problem.detail


def _looks(call: Call) -> bool:
    return call.scope["method"] in ("GET", "HEAD")


def _wants_a_page(scope: Scope) -> bool:
    """Whether a browser asks for something to show."""
    return any(name == b"accept" and b"text/html" in value.lower() for name, value in scope["headers"])
