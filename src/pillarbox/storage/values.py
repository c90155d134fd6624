"""Instants as the databases keep them: timestamptz on PostgreSQL, one fixed-width UTC text on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from pillarbox.errors import Unavailable
from pillarbox.storage.checksum import DAMAGED

_NO_TIME = f"The database holds a time that is none. {DAMAGED}"

UNREADABLE = datetime(9000, 1, 1, tzinfo=UTC)
"""Stands for the instant of a row that was damaged on disk, where that row is shown or passed over."""


@lru_cache(maxsize=1024)
def instant_text(value: datetime) -> str:
    """RFC 3339 in UTC with microseconds, always 27 characters, so that text order is time order."""
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def instant(value: str | datetime) -> datetime:
    """An instant as a driver returned it."""
    try:
        read = datetime.fromisoformat(value) if isinstance(value, str) else value.astimezone(UTC)
    except (AttributeError, ValueError) as error:
        raise Unavailable(_NO_TIME) from error
    if read.tzinfo is None:
        raise Unavailable(_NO_TIME)
    return read


def legible(value: str | datetime) -> datetime:
    """Likewise, or `UNREADABLE` where it was damaged: for what others need not wait for."""
    try:
        return instant(value)
    except Unavailable:
        return UNREADABLE


def legible_or_none(value: str | datetime | None) -> datetime | None:
    """Likewise, where the column may be null."""
    return None if value is None else legible(value)


def instant_or_none(value: str | datetime | None) -> datetime | None:
    """Likewise, where the column may be null."""
    return None if value is None else instant(value)


def bindable(value: Any) -> Any:
    """A value as SQLite takes it."""
    return instant_text(value) if isinstance(value, datetime) else value


def bindable_rows(rows: Sequence[Any]) -> Sequence[Any]:
    """Rows or single values as they go into a JSON parameter: by columns, of which few hold instants."""
    if rows and isinstance(rows[0], tuple):
        return list(zip(*map(_bindable_column, zip(*rows, strict=True)), strict=True))
    return _bindable_column(rows)


def _bindable_column(values: Sequence[Any]) -> Sequence[Any]:
    kinds = set(map(type, values))
    return [bindable(value) for value in values] if any(issubclass(kind, datetime) for kind in kinds) else values
