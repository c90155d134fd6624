"""What operators are shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Generic, Literal, TypeVar

import msgspec

from pillarbox.filters import Pipe

T = TypeVar("T")


class LogItem(msgspec.Struct, frozen=True, kw_only=True):
    """One message or event in the log of all pipes; what its pipe does not know is null.

    `summary` is an outbound message's subject, the beginning of what an inbound one says, or an event's type.
    """

    pipe: Pipe
    id: str
    created_at: datetime
    status: str
    attempt_count: int
    next_attempt_at: datetime | None
    error: str | None
    summary: str | None
    tenant_id: str | None = None
    channel: str | None = None
    to_address: str | None = None
    provider: str | None = None
    category: str | None = None
    priority: int | None = None
    tags: tuple[str, ...] = ()
    session_id: str | None = None
    seq: int | None = None
    origin: str | None = None
    type: str | None = None


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A message or event that a follower was shown, and that no longer matches or is no longer kept."""

    pipe: Pipe
    id: str
    left: Literal[True] = True


class Stretch(msgspec.Struct, Generic[T], frozen=True):
    """Some items of a list, and where the next ones begin; None at the end.

    A look is bounded, so that a filter which matches little may answer few items, or none, and still have a next place.
    """

    items: Sequence[T]
    next_cursor: str | None


class Count(msgspec.Struct, frozen=True):
    """How many match; not `exact` means more than that, or that there was too much to look through."""

    matching: int
    exact: bool
