"""Pages that change while they are looked at: Server-Sent Events of HTML and numbers."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager
from typing import NamedTuple

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.api.problems import no_such_path
from pillarbox.api.streams import Line, Stream
from pillarbox.errors import TooMany

MEDIA_TYPE = "text/event-stream"
_BEAT = b": beat\n\n"
_SECONDS_BETWEEN_BEATS = 10.0
_MOST_WATCHERS = 200


class Piece(NamedTuple):
    """An event's name, and what it carries."""

    name: str
    content: str


class Watchers:
    """How many look on, of whom there are only so many."""

    def __init__(self) -> None:
        self._present = 0

    @contextmanager
    def one_more(self) -> Iterator[None]:
        if self._present >= _MOST_WATCHERS:
            raise TooMany(f"{_MOST_WATCHERS} pages of this process are being followed already; close some.")
        self._present += 1
        try:
            yield
        finally:
            self._present -= 1


Pieces = AsyncGenerator[Piece | None, None]


async def stream(call: Call, pieces: Callable[[], Pieces], *, held: AsyncExitStack | None = None) -> Answer:
    """Send pieces to a signed-in browser until it goes, is signed out, or the server stops.

    What the caller holds becomes the answer's to let go; where there is no answer it stays the caller's.
    """
    if await call.api.logins.find(call) is None:
        raise no_such_path()
    held = held or AsyncExitStack()
    held.enter_context(call.api.watchers.one_more())
    return Stream(
        status=200,
        media_type=MEDIA_TYPE.encode(),
        headers=((b"x-accel-buffering", b"no"),),
        pieces=_flowing(call, pieces),
        held=held.pop_all(),
        line=Line(call.scope, call.receive, call.api.stopping),
    )


async def _flowing(call: Call, pieces: Callable[[], Pieces]) -> AsyncGenerator[bytes, None]:
    yield _BEAT
    checked = time.monotonic()
    async with aclosing(pieces()) as coming:
        async for piece in coming:
            if time.monotonic() > checked + _SECONDS_BETWEEN_BEATS:
                if await call.api.logins.find(call) is None:
                    return
                checked = time.monotonic()
                yield _BEAT
            if piece is not None:
                yield encoded(piece)


def encoded(piece: Piece) -> bytes:
    """One event; a line end in its content begins a further line of it."""
    lines = "".join(f"data: {line}\n" for line in piece.content.replace("\r", "").split("\n"))
    return f"event: {piece.name}\n{lines}\n".encode("utf-8", "replace")
