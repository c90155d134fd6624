"""Answers without an end of their own: they go on until the caller goes away or the server stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from pillarbox.api.answers import ALWAYS, Answer
from pillarbox.telemetry import brief, logger

_log = logger(__name__)
_SECONDS_TO_END = 1.0
_SECONDS_TO_TAKE = 60.0


@dataclass(frozen=True, slots=True)
class Line:
    """The caller's connection, and the event that says that the server stops."""

    scope: Scope
    receive: Receive
    stopping: asyncio.Event

    async def over(self) -> None:
        """Return when the caller has gone."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def hang_up(self) -> None:
        """Drop the connection with whatever is still on its way; another server than ours may not offer that."""
        abort = self.scope.get("state", {}).get("hang_up")
        if abort is not None:
            abort()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream(Answer):
    """A body of pieces, each asked for when the caller has taken the one before; `held` is let go at the end."""

    body: None = None
    pieces: AsyncGenerator[bytes, None]
    held: AbstractAsyncContextManager[object]
    line: Line
    seconds_to_take: float = _SECONDS_TO_TAKE

    async def send(self, send: Send, *, with_body: bool = True, more: bool = False) -> None:
        headers = [*ALWAYS, *self.headers, (b"content-type", self.media_type)]
        async with self.held, aclosing(self.pieces):
            await send({"type": "http.response.start", "status": self.status, "headers": headers})
            if with_body:
                await self._flow(send)
        if self.line.stopping.is_set():
            # A caller who takes nothing more would hold up the end of the process.
            asyncio.get_running_loop().call_later(_SECONDS_TO_END, self.line.hang_up)
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * _SECONDS_TO_END):
                await send({"type": "http.response.body", "body": b"", "more_body": more})

    async def _flow(self, send: Send) -> None:
        pouring = asyncio.create_task(self._pour(send))
        ends = [asyncio.create_task(self.line.over()), asyncio.create_task(self.line.stopping.wait())]
        try:
            await asyncio.wait([pouring, *ends], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pouring, *ends):
                task.cancel()
            await asyncio.gather(pouring, *ends, return_exceptions=True)
        if not pouring.cancelled() and (error := pouring.exception()) is not None:
            _log.warning("a stream ended early; its caller may connect again", error=brief(error))

    async def _pour(self, send: Send) -> None:
        async for piece in self.pieces:
            try:
                async with asyncio.timeout(self.seconds_to_take):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            except TimeoutError:
                return self.line.hang_up()
