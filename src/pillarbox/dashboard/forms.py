"""What an operator's forms say, and that they are ours."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Awaitable, Callable
from functools import wraps
from urllib.parse import parse_qs

from pillarbox.api.answers import Answer
from pillarbox.api.bodies import read_body
from pillarbox.api.call import Call
from pillarbox.api.problems import Problem
from pillarbox.audit import acting_as
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.origins import refuse_foreign_origin
from pillarbox.dashboard.pages import redirect, sentence_of, to_login
from pillarbox.errors import PillarboxError

LARGEST_FORM = 8 * 1024
# Two bodies of 1 MiB each whose every character is a line end, which a browser writes in six.
LARGEST_MESSAGE = 13 * 1024 * 1024
_LONG = 64 * 1024
_MOST_FIELDS = 40
_OUR_PATH = re.compile(r"/(?!/)[A-Za-z0-9._~%!$&'()*+,;=:@/?-]{0,500}")

Form = dict[str, str]
Action = Callable[[Call, Login, Form], Awaitable[Answer]]


def acting(
    *, back: Callable[[Call], str], most: int = LARGEST_FORM
) -> Callable[[Action], Callable[[Call], Awaitable[Answer]]]:
    """Decorate what a form does: only for operators, only from our own pages; a refusal is told on the page it came from."""

    def decorate(act: Action) -> Callable[[Call], Awaitable[Answer]]:
        @wraps(act)
        async def post(call: Call) -> Answer:
            refuse_foreign_origin(call)
            login = await call.api.logins.find(call)
            if login is None:
                return to_login(call)
            form = await read_form(call, most=most)
            refuse_forged_form(login, form)
            try:
                with acting_as(login.who):
                    return await act(call, login, form)
            except (PillarboxError, Problem) as error:
                login.notify("bad", sentence_of(error))
                return redirect(back(call))

        return post

    return decorate


def done(login: Login, sentence: str, path: str) -> Answer:
    """Say what was done, on the page that shows it."""
    login.notify("good", sentence)
    return redirect(path)


def back_to(form: Form, path: str) -> str:
    """The page of ours that a form says it stands on, else another one."""
    given = form.get("back", "")
    return given if _OUR_PATH.fullmatch(given) else path


async def read_form(call: Call, *, most: int = LARGEST_FORM) -> Form:
    """The fields of a form, each once; lines end as they do elsewhere here."""
    body = await read_body(call.receive, call.head.content_length, most=most)
    try:
        return _fields(body) if len(body) < _LONG else await asyncio.to_thread(_fields, body)
    except ValueError:
        raise Problem(400, "not-a-form", "The body is not a form.") from None


def _fields(body: bytes) -> Form:
    fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    return {name: values[0].replace("\r\n", "\n") for name, values in fields.items()}


def refuse_forged_form(login: Login, form: Form) -> None:
    given = form.get("form_token", "").encode("utf-8", "replace")
    if not hmac.compare_digest(given, login.form_token.encode()):
        raise Problem(403, "forged-form", "This form is not from your page; load the page again.")
