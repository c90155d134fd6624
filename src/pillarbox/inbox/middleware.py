"""`Idempotency-Key` for any ASGI application: a request that is repeated is answered as the first time, and not done again."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from pillarbox.errors import InvalidInput, LeaseLost, Unavailable
from pillarbox.inbox.header import idempotency_key
from pillarbox.inbox.keys import inbox_key
from pillarbox.inbox.once import First, Once
from pillarbox.inbox.replay import RETRY_AFTER, Recording, problem, replay

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from pillarbox.inbox.door import Inbox

METHODS = frozenset({"POST", "PATCH"})
NOT_DONE = frozenset({401, 403, 408, 409, 425, 429})
"""Answers below 500 that say: not done, and it may go otherwise next time."""

_LARGEST_BODY = 1024 * 1024
_MARK_SECONDS = 5.0
# Ways for an application to have a file sent past us.
_BYPASSES = frozenset({"http.response.pathsend", "http.response.zerocopysend"})


def caller_of(scope: Scope) -> str:
    """Whose key it is: by `Authorization`, else by the cookies, so that no caller is answered what another one was."""
    for wanted in (b"authorization", b"cookie"):
        if given := b"\0".join(value for name, value in scope["headers"] if name == wanted):
            return hashlib.sha256(wanted + b"\0" + given).hexdigest()
    return ""


class IdempotencyMiddleware:
    """Gives the requests of an application that carry an `Idempotency-Key` the meaning of that header.

    The first answer is kept and given again with `Idempotency-Replayed: true`. While the first request runs others get a 409
    with `Retry-After`; the same key with another method, path, query or body gets a 422; a malformed key a 400; a body over
    `largest_body` a 413; and where the inbox cannot be asked nothing is done, and the answer is a 503.

    An answer of 500 and above, and those in `not_done`, are not kept: the key is released and the request may come again.
    An answer too large to keep (about 45 KB of body) reaches its caller, and the key is marked without it: a repeated request
    is not done again but gets a 409 without `Retry-After` that says so. Cookies that an answer sets are not kept. An answer
    is brought to its end though its caller hung up; the application hears of that only afterwards.

    `caller` tells whose key it is. An application whose cookies change between requests should give one of its own.
    """

    def __init__(
        self,
        app: ASGIApp,
        inbox: Inbox,
        *,
        name: str = "",
        caller: Callable[[Scope], str] = caller_of,
        methods: Collection[str] = METHODS,
        not_done: Collection[int] = NOT_DONE,
        largest_body: int = _LARGEST_BODY,
    ) -> None:
        self._app = app
        self._inbox = inbox
        self._name = name
        self._caller = caller
        self._methods = frozenset(methods)
        self._not_done = frozenset(not_done)
        self._largest_body = largest_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in self._methods:
            return await self._app(scope, receive, send)
        try:
            key = idempotency_key(scope["headers"])
        except InvalidInput as error:
            return await problem(400, "idempotency-key", f"Idempotency-Key {error.detail}")(send)
        if key is None:
            return await self._app(scope, receive, send)
        body = await _read(receive, self._largest_body)
        if body is None:
            return None
        if len(body) > self._largest_body:
            detail = f"A request with an Idempotency-Key may have {self._largest_body} bytes."
            return await problem(413, "too-large", detail)(send)
        once = self._inbox.once(
            inbox_key("http", self._name, self._caller(scope), key), fingerprint=_fingerprint(scope, body)
        )
        return await self._run(once, scope, body, receive, send)

    async def _run(self, once: Once, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        try:
            first = await once.__aenter__()
        except Unavailable:
            detail = "Whether this was done before cannot be found out now; nothing was done. Send it again."
            return await problem(503, "unavailable", detail, RETRY_AFTER)(send)
        if not first:
            return await _refuse(first, send)
        recording = Recording(send, lambda status, kept: self._settle(once, status, kept))
        try:
            await self._perform(scope, _given(body, receive, recording.whole), recording)
        except BaseException as error:
            try:
                await once.__aexit__(type(error), error, error.__traceback__)
            except LeaseLost:
                if recording.started:
                    raise
                detail = "This took too long, and may have been taken over; send it again to learn how it ended."
                return await problem(503, "lease-lost", detail, RETRY_AFTER)(send)
            raise
        return None

    async def _perform(self, scope: Scope, receive: Receive, recording: Recording) -> None:
        extensions = {name: value for name, value in (scope.get("extensions") or {}).items() if name not in _BYPASSES}
        await self._app({**scope, "extensions": extensions}, receive, recording.send)
        if not recording.whole.is_set():
            raise RuntimeError("The application ended without a whole answer.")

    async def _settle(self, once: Once, status: int, kept: object) -> None:
        """Before the answer goes out: who has read it may rely on its being remembered."""
        # What could not be remembered was done all the same: an error instead of the answer would only have it sent again.
        with suppress(Unavailable, LeaseLost):
            if status >= 500 or status in self._not_done:
                await once.release()
            else:
                await once.mark(kept, patience=_MARK_SECONDS)


async def _refuse(first: First, send: Send) -> None:
    match first.status:
        case "Mismatch":
            detail = "This Idempotency-Key was used for another request; use a new one for a new request."
            await problem(422, "idempotency-mismatch", detail)(send)
        case "Processed":
            await replay(first.result)(send)
        case _:
            detail = "The first request with this Idempotency-Key is still running; wait for it and ask again."
            await problem(409, "in-flight", detail, RETRY_AFTER)(send)


async def _read(receive: Receive, most: int) -> bytes | None:
    """The body, or so much of it that it is too large; None when the caller hung up."""
    body = bytearray()
    while len(body) <= most:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return bytes(body)


def _given(body: bytes, receive: Receive, whole: asyncio.Event) -> Receive:
    """The body that was read already, then whatever else comes once the answer is whole.

    That the caller hung up is no reason to break the answer off: the caller will ask again, and the work is not done again.
    """
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        if waiting:
            return waiting.pop()
        await whole.wait()
        return await receive()

    return given


def _fingerprint(scope: Scope, body: bytes) -> str:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    head = b"\n".join((scope["method"].encode(), path, scope.get("query_string", b"")))
    return hashlib.sha256(hashlib.sha256(head).digest() + body).hexdigest()
