"""/v1/events"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated

import msgspec
from msgspec import Meta

from pillarbox.api.answers import Answer, encode
from pillarbox.api.call import Call
from pillarbox.api.paging import row_number
from pillarbox.api.problems import invalid
from pillarbox.api.streams import Line, Stream
from pillarbox.hooks.listeners import LONGEST_TYPE
from pillarbox.hooks.model import HookEvent
from pillarbox.sessions.registry import LONGEST_ID
from pillarbox.text import check_name, printable

MEDIA_TYPE = "text/event-stream"
LAST_EVENT_ID = "Last-Event-ID"
_UNBUFFERED = (b"x-accel-buffering", b"no")
_BEAT = b": \n\n"
_SECONDS_BETWEEN_BEATS = 15.0


class EventFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events to follow."""

    session_id: str = ""
    event_type: str = ""
    last_event_id: Annotated[str, Meta(description="As the header `Last-Event-ID`, which goes before it.")] = ""

    def takes(self, event: HookEvent) -> bool:
        return self.session_id in ("", event.session_id) and self.event_type in ("", event.event_type)


async def follow_events(call: Call) -> Answer:
    """Events are read as fast as the caller takes them, so that a slow one costs no memory."""
    query: EventFilter = call.query
    if query.session_id:
        check_name("session_id", query.session_id, most=LONGEST_ID)
    if query.event_type:
        check_name("event_type", query.event_type, most=LONGEST_TYPE)
    async with AsyncExitStack() as stack:
        events = await stack.enter_async_context(call.box.hooks.follow(_last_id(call)))
        return Stream(
            status=200,
            media_type=MEDIA_TYPE.encode(),
            headers=(_UNBUFFERED,),
            pieces=_pieces(events, query),
            held=stack.pop_all(),
            line=Line(call.scope, call.receive, call.api.stopping),
        )


async def _pieces(events: AsyncIterator[HookEvent | None], wanted: EventFilter) -> AsyncGenerator[bytes, None]:
    clock = asyncio.get_running_loop().time
    yield _BEAT
    sent_at = clock()
    async for event in events:
        if event is not None and wanted.takes(event):
            yield _message(event)
        elif clock() - sent_at >= _SECONDS_BETWEEN_BEATS:
            yield _BEAT
        else:
            continue
        sent_at = clock()


def _message(event: HookEvent) -> bytes:
    """One event; JSON has no line ends, and a type that holds one was not stored by us."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.id, printable(event.event_type).encode(), encode(event))


def _last_id(call: Call) -> int | None:
    header = call.head.last_event_id.decode("latin-1")
    text = header or call.query.last_event_id
    if not text:
        return None
    number = row_number(text)
    if number is None:
        raise invalid(LAST_EVENT_ID if header else "last_event_id", "must be the id of an event.")
    return number
