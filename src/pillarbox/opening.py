"""From a database's address to the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pillarbox.errors import InvalidInput
from pillarbox.outlast import outlast

if TYPE_CHECKING:
    from pillarbox.settings import Settings
    from pillarbox.storage import Database


async def open_database(url: str, settings: Settings) -> Database:
    """The database behind a URL: `sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://...`."""
    scheme = urlsplit(url).scheme
    numbers = settings.database
    if (path := sqlite_path(url)) is not None:
        from pillarbox.storage.sqlite import SqliteDatabase

        return await _opened(
            partial(
                SqliteDatabase,
                path,
                busy_timeout=numbers.busy_timeout_seconds,
                reserve_bytes=numbers.reserve_bytes,
            )
        )
    if scheme in ("postgresql", "postgres", "cockroachdb"):
        from pillarbox.storage.postgres import PostgresDatabase

        return await _opened(
            partial(
                PostgresDatabase,
                url,
                pool_size=numbers.pool_size,
                busy_timeout=numbers.busy_timeout_seconds,
                statement_timeout=numbers.statement_timeout_seconds,
                allow_unsafe=numbers.allow_unsafe,
            )
        )
    raise InvalidInput("database", "must be sqlite:///file.db, sqlite:////absolute/file.db or postgresql://...")


async def _opened(make: Callable[[], Database]) -> Database:
    """Made in a thread, and closed again if nobody waits for it any more."""
    opening = asyncio.create_task(asyncio.to_thread(make))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        await outlast(_close(opening))
        raise


async def _close(opening: asyncio.Task[Database]) -> None:
    with suppress(Exception):
        database = await opening
        await database.close()


def sqlite_path(url: str) -> str | None:
    """The file behind an SQLite URL, or None when it is another database's."""
    if urlsplit(url).scheme != "sqlite":
        return None
    path = url.removeprefix("sqlite://").removeprefix("/")
    if not path:
        raise InvalidInput("database", "names no file; write sqlite:///file.db or sqlite:////absolute/file.db.")
    return path


def require_no_stranger(url: str) -> None:
    """Refuse an SQLite file of another program before anything is written to it."""
    if (path := sqlite_path(url)) is not None:
        from pillarbox.storage.strangers import require_no_stranger

        require_no_stranger(path)
