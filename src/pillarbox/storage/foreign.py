"""Running a step inside a transaction that belongs to the caller.

Nothing is committed or rolled back here: what the step wrote exists exactly if the caller's transaction commits. A savepoint
stands around it, so that a step that fails leaves the caller's transaction as it was.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pillarbox.errors import InvalidInput
from pillarbox.storage.database import Database, Work

T = TypeVar("T")

_KINDS = {
    "psycopg.Connection": "postgres",
    "psycopg.AsyncConnection": "postgres",
    "apsw.Connection": "sqlite",
    "sqlite3.Connection": "sqlite",
}
_PLACES = {"postgres": "PostgreSQL", "sqlite": "SQLite"}


async def run_on(connection: Any, work: Work[T], database: Database) -> T:
    """Run a work in the caller's open transaction, on the caller's thread; a connection that is not asynchronous blocks it."""
    _require_same_kind(connection, database)
    if database.dialect == "sqlite":
        from pillarbox.storage import foreign_sqlite

        return foreign_sqlite.run(connection, work, database)
    from pillarbox.storage import foreign_postgres

    return await foreign_postgres.run(connection, work, database)


def run_on_blocking(connection: Any, work: Work[T], database: Database) -> T:
    """The same without an event loop."""
    _require_same_kind(connection, database)
    if database.dialect == "sqlite":
        from pillarbox.storage import foreign_sqlite

        return foreign_sqlite.run(connection, work, database)
    from pillarbox.storage import foreign_postgres

    return foreign_postgres.run_blocking(connection, work, database)


def _require_same_kind(connection: Any, database: Database) -> None:
    """Refuse what cannot be joined, by the name of its class, so that no other driver is imported for this."""
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(connection).__mro__)
    name = next((name for name in names if name in _KINDS), None)
    if name is None:
        raise InvalidInput(
            "connection",
            "must be a psycopg Connection or AsyncConnection, or an apsw Connection; asyncpg and SQLAlchemy come later.",
        )
    if (kind := _KINDS[name]) != database.dialect:
        raise InvalidInput(
            "connection",
            f"is of {_PLACES[kind]} and this box of {_PLACES[database.dialect]}; both must use one database.",
        )
    if name == "sqlite3.Connection":
        raise InvalidInput(
            "connection",
            "a sqlite3 connection and a box on one file in one process break each other's locks; use an apsw connection.",
        )
