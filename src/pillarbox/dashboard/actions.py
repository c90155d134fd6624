"""One action on all that match: counted first, then watched."""

from __future__ import annotations

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.dashboard.forms import Form, acting, done
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.pages import redirect, render, sentence_of, signed_in
from pillarbox.dashboard.words import segment
from pillarbox.errors import InvalidInput
from pillarbox.filters import Filter, parse_filter
from pillarbox.operators.bulk import ACTIONS, Action
from pillarbox.operators.model import Count

_MOST_SHOWN = 20


class ActionQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What would be done, and to what."""

    action: Action | None = None
    filter: str = ""


def index_address(call: Call) -> str:
    return "/actions"


def address_of(call: Call) -> str:
    return f"/actions/{segment(call.path['operation_id'])}"


@signed_in
async def ask(call: Call, login: Login) -> Answer:
    """How many an action would be done to; it changes nothing."""
    query: ActionQuery = call.query
    fault, found = "", Count(0, True)
    if query.action is not None:
        try:
            found = await call.box.operations.preview(query.action, _wanted(query.filter))
        except InvalidInput as refusal:
            fault = sentence_of(refusal)
    return render(
        call,
        login,
        "actions.html",
        status=422 if fault else 200,
        active="messages",
        action=query.action,
        filter=query.filter,
        found=found,
        fault=fault,
        operations=await call.box.operations.list(limit=_MOST_SHOWN),
    )


@acting(back=index_address)
async def begin(call: Call, login: Login, form: Form) -> Answer:
    action = next((known for known in ACTIONS if known == form.get("action")), None)
    if action is None:
        raise InvalidInput("action", f"must be one of {', '.join(ACTIONS)}.")
    operation = await call.box.operations.start(action, _wanted(form.get("filter", "")))
    return redirect(f"/actions/{segment(operation.operation_id)}")


@signed_in
async def show(call: Call, login: Login) -> Answer:
    operation = await call.box.operations.get(call.path["operation_id"])
    return render(
        call, login, "action.html", active="messages", operation=operation, handled=operation.done + operation.refused
    )


@acting(back=address_of)
async def stop(call: Call, login: Login, form: Form) -> Answer:
    operation = await call.box.operations.stop(call.path["operation_id"])
    return done(login, f"It is {operation.state} now; what was done stays done.", address_of(call))


def _wanted(text: str) -> Filter:
    """A filter that says something: acting on everything there is must be said."""
    wanted = parse_filter(text)
    if not wanted.terms:
        raise InvalidInput("filter", "is needed: say which messages, as in status:failed.")
    return wanted
