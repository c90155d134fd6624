"""Lists, a page at a time; a cursor says where the next page begins and means nothing to callers."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from pillarbox.api.problems import Problem, invalid

T = TypeVar("T")

MOST = 1000
Limit = Annotated[int, Meta(ge=1, le=MOST, description="The most items on a page.")]
Cursor = Annotated[str, Meta(description="The `next_cursor` of the page before.")]
_LARGEST = 2**63 - 1


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some items, and the cursor of the page after them or null at the end."""

    items: Sequence[T]
    next_cursor: str | None


def page(items: Sequence[Any], *, limit: int, kind: str, position: Callable[[Any], object]) -> Page[Any]:
    """A page out of up to `limit` + 1 items; the one too many tells that there is a next page."""
    shown = items[:limit]
    return Page(shown, cursor_of(kind, position(shown[-1])) if len(items) > limit else None)


def text_after(cursor: str, kind: str) -> str:
    """Where a page begins in a list ordered by text."""
    return _position(cursor, kind) if cursor else ""


def number_after(cursor: str, kind: str) -> int:
    """Where a page begins in a list ordered by number."""
    if not cursor:
        return 0
    number = row_number(_position(cursor, kind))
    if number is None:
        raise _unknown()
    return number


def row_number(text: str) -> int | None:
    """The number of a row, or None where a text is none that any row can have."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > _LARGEST:
        return None
    return int(text)


def cursor_of(kind: str, position: object) -> str:
    """A position as text that means nothing to callers."""
    return urlsafe_b64encode(f"{kind}:{position}".encode()).decode().rstrip("=")


def _position(cursor: str, kind: str) -> str:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        named, _, position = urlsafe_b64decode(padded).decode().partition(":")
    except (ValueError, binascii.Error):
        raise _unknown() from None
    if named != kind or "\0" in position or cursor_of(kind, position) != cursor:
        raise _unknown()
    return position


def _unknown() -> Problem:
    return invalid("cursor", "must be the next_cursor of an earlier page of the same list.")
