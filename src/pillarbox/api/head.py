"""A request's headers, read once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pillarbox.api.problems import CLOSE, Problem

LARGEST_HEADERS = 64 * 1024


@dataclass(slots=True)
class Head:
    """The headers that matter here; one that came twice and may not is None."""

    host: bytes | None = None
    authorization: bytes | None = None
    content_length: int = 0
    cookie: bytes = b""
    origin: bytes | None = None
    last_event_id: bytes = b""
    idempotency_keys: tuple[bytes, ...] = ()


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """Refuse a header block over 64 KiB, and give the rest by name."""
    head, size, seen = Head(), 0, set()
    for name, value in headers:
        size += len(name) + len(value) + 4
        match name:
            case b"host" | b"authorization" | b"origin":
                setattr(head, name.decode(), None if name in seen else value)
                seen.add(name)
            case b"content-length":
                # A number too long to be read is too large as well.
                head.content_length = int(value[:19]) if value.isdigit() else 0
            case b"last-event-id":
                head.last_event_id = b",".join(filter(None, [head.last_event_id, value]))
            case b"idempotency-key":
                head.idempotency_keys += (value,)
            case b"cookie":
                head.cookie += value + b";"
    if size > LARGEST_HEADERS:
        raise headers_too_large()
    return head


def headers_too_large() -> Problem:
    return Problem(431, "headers-too-large", "The headers of a request may have 64 KiB in all.", headers=[CLOSE])
