"""Every message and event in one log: filtered, followed, and acted on."""

from __future__ import annotations

from contextlib import AsyncExitStack

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.api.problems import no_such_path
from pillarbox.dashboard.live import Piece, Pieces, stream
from pillarbox.dashboard.logins import Login
from pillarbox.dashboard.pages import fragment, render, sentence_of, signed_in
from pillarbox.errors import InvalidInput
from pillarbox.filters import EVERYTHING, WORDS, parse_filter
from pillarbox.operators.model import Left, LogItem, Stretch
from pillarbox.operators.tail import Changes

_AT_ONCE = 50
EXAMPLES = (
    ("Needs a look", "status:failed,bounced,dead"),
    ("Retrying", "status:retrying"),
    ("Waiting", "status:pending"),
    ("Email", "channel:email"),
    ("Text messages", "channel:sms"),
    ("Inbound", "pipe:inbound"),
    ("Last 5 minutes", "age:<5m"),
)
_NOTHING: Stretch[LogItem] = Stretch([], None)


class LogQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to show, in the filter language, and where the page begins."""

    filter: str = ""
    cursor: str = ""


@signed_in
async def show(call: Call, login: Login) -> Answer:
    query: LogQuery = call.query
    fault, found = "", _NOTHING
    try:
        wanted = parse_filter(query.filter)
        found = await call.box.log.page(wanted, cursor=query.cursor, limit=_AT_ONCE)
    except InvalidInput as refusal:
        fault = sentence_of(refusal)
    return render(
        call,
        login,
        "messages.html",
        status=422 if fault else 200,
        active="messages",
        items=found.items,
        next_cursor=found.next_cursor,
        filter=query.filter,
        is_first=not query.cursor,
        fault=fault,
        examples=EXAMPLES,
        words=WORDS.values(),
    )


async def follow(call: Call) -> Answer:
    """What comes in and what changes, as rows of the log."""
    if await call.api.logins.find(call) is None:
        raise no_such_path()
    query: LogQuery = call.query
    wanted = parse_filter(query.filter) if query.filter else EVERYTHING
    async with AsyncExitStack() as stack:
        changes = await stack.enter_async_context(call.box.log.follow(wanted))
        return await stream(call, lambda: _rows(changes), held=stack)


async def _rows(changes: Changes) -> Pieces:
    async for item in changes:
        if isinstance(item, Left):
            yield Piece("row", fragment("log_row_left.html", item=item))
        else:
            yield None if item is None else Piece("row", fragment("log_rows.html", items=[item]))
