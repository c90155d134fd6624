"""Answers of an application: recorded while they go out, and given again."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from pillarbox.inbox.model import LARGEST_RESULT

if TYPE_CHECKING:
    from starlette.types import Message, Send

Answering = Callable[["Send"], Awaitable[None]]

_TYPE = "urn:pillarbox:problem:"
_REPLAYED = (b"idempotency-replayed", b"true")
RETRY_AFTER = (b"retry-after", b"1")
# What base64 and the headers leave room for.
_LARGEST_KEPT = LARGEST_RESULT * 11 // 16
_NOT_KEPT = frozenset(
    {b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"date", b"server", b"set-cookie"}
)


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer as the inbox keeps it; one that was too large has its status alone."""

    status: int
    headers: list[tuple[str, str]] = []
    body: str | None = None


class Recording:
    """Holds an answer back until it is whole and `settle` was told of it; one too large to keep goes out as it comes."""

    def __init__(self, send: Send, settle: Callable[[int, Any], Awaitable[None]]) -> None:
        self._send = send
        self._settle = settle
        self._start: Message | None = None
        self._body = bytearray()
        self._too_large = False
        self.started = False
        self.whole = asyncio.Event()
        self._gone = False

    async def send(self, message: Message) -> None:
        match message["type"]:
            case "http.response.start":
                self._start = message
            case "http.response.body":
                await self._take(message.get("body", b""), more=message.get("more_body", False))
            case _:
                await self._send(message)

    async def _take(self, body: bytes, *, more: bool) -> None:
        self._body += body
        self._too_large = self._too_large or len(self._body) > _LARGEST_KEPT
        if more and not self._too_large:
            return
        if not more:
            assert self._start is not None, "an answer begins with its status"
            await self._settle(self._start["status"], self._kept(self._start))
            self.whole.set()
        await self._flush(more=more)

    async def _flush(self, *, more: bool) -> None:
        body, self._body = bytes(self._body), bytearray()
        if self._gone:
            return
        try:
            if not self.started and self._start is not None:
                self.started = True
                await self._send(self._start)
            await self._send({"type": "http.response.body", "body": body, "more_body": more})
        except OSError:
            # The caller hung up. The application goes on to the end all the same, so that what it did is remembered.
            if not more:
                raise
            self._gone = True

    def _kept(self, start: Message) -> dict[str, Any]:
        status: int = start["status"]
        if not self._too_large:
            headers = [
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in start.get("headers", ())
                if name.lower() not in _NOT_KEPT
            ]
            kept = {"status": status, "headers": headers, "body": base64.b64encode(self._body).decode()}
            if len(msgspec.json.encode(kept)) <= LARGEST_RESULT:
                return kept
        return {"status": status}


def replay(result: Any) -> Answering:
    """A kept answer, once more."""
    kept = msgspec.convert(result or {"status": 200}, Kept)
    if kept.body is None:
        detail = f"This was done before, with status {kept.status}, and its answer was too large to keep."
        return problem(409, "answer-not-kept", detail, _REPLAYED)
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in kept.headers]
    return _answer(kept.status, [*headers, _REPLAYED], base64.b64decode(kept.body))


def problem(status: int, reason: str, detail: str, *headers: tuple[bytes, bytes]) -> Answering:
    """A refusal as RFC 9457 tells it."""
    body = msgspec.json.encode(
        {"type": _TYPE + reason, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    )
    more = [(b"content-type", b"application/problem+json"), (b"content-length", b"%d" % len(body))]
    return _answer(status, [*headers, *more], body)


def _answer(status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> Answering:
    async def answer(send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer
