"""What goes back over the wire."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.types import Send

JSON = b"application/json"
HTML = b"text/html; charset=utf-8"
ALWAYS = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a body and its kind; a body of None is none at all."""

    status: int
    body: bytes | None
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def send(self, send: Send, *, with_body: bool = True, more: bool = False) -> None:
        headers = [*ALWAYS, *self.headers]
        body = self.body
        if body is not None:
            headers += ((b"content-type", self.media_type), (b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        sent = body if with_body and body is not None else b""
        await send({"type": "http.response.body", "body": sent, "more_body": more})


def encode(value: object) -> bytes:
    """JSON; instants in UTC with a Z, whatever the time zone of the database's session."""
    return _encoder.encode(value)


def ok(value: object, status: int = 200) -> Answer:
    """A JSON answer."""
    return Answer(status, encode(in_utc(value)))


def in_utc(value: Any) -> Any:
    """The same value with its instants in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, msgspec.Struct):
        changed: MutableMapping[str, Any] = {}
        for name in value.__struct_fields__:
            before = getattr(value, name)
            if isinstance(before, datetime | msgspec.Struct | list | tuple):
                changed[name] = in_utc(before)
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, tuple):
        return tuple(in_utc(item) for item in value)
    if isinstance(value, list):
        return [in_utc(item) for item in value]
    return value
