"""What a database holds, as a number for each table that is another one when any row of it is."""

from collections.abc import Callable, Mapping
from typing import Any

import apsw
import psycopg

Digests = Mapping[str, object]

COUNTED = {
    # What operators tried is written down, refusals too.
    "operator_action": "outcome = 'done'",
    # PostgreSQL's connections keep a mark of their last commit, and to write down a refusal is one.
    "commit_mark": "false",
}
"""Which rows count where not all do.

Everything else holds still by itself: the box of a stand is opened and not run, so that no heartbeat, chore or drain writes.
"""


class Watcher:
    """Looks at all rows of all tables, and only if anybody has committed anything since it last did."""

    def __init__(self, version: Callable[[], object], digests: Callable[[], Digests]) -> None:
        self._version = version
        self._digests = digests
        self._found: tuple[object, Digests] = (None, {})

    def look(self) -> Digests:
        version = self._version()
        if version != self._found[0]:
            # In this order: a commit in between makes the next look a thorough one.
            self._found = version, self._digests()
        return self._found[1]


def changed(before: Digests, after: Digests) -> set[str]:
    """The tables in which anything is not as it was."""
    return {table for table in before.keys() | after.keys() if before.get(table) != after.get(table)}


def watch(connection: Any) -> Watcher:
    """A watcher of the tables that there are now; the connection is used by nobody else."""
    return _watch_postgres(connection) if isinstance(connection, psycopg.Connection) else _watch_sqlite(connection)


def _watch_sqlite(connection: apsw.Connection) -> Watcher:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]

    def digests() -> Digests:
        return {name: sum(map(hash, connection.execute(_select("*", name)))) for name in tables}

    return Watcher(lambda: connection.pragma("data_version"), digests)


def _watch_postgres(connection: psycopg.Connection) -> Watcher:
    listed = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    tables = [name for (name,) in listed]
    sums = ", ".join(f"({_select('sum(hash_record_extended(t, 0))', name)})" for name in tables)

    def digests() -> Digests:
        row = connection.execute(f"SELECT {sums}").fetchone()
        assert row is not None
        return dict(zip(tables, row, strict=True))

    # Another one as soon as any transaction that wrote has come to its end.
    return Watcher(lambda: connection.execute("SELECT pg_current_snapshot()::text").fetchone(), digests)


def _select(what: str, table: str) -> str:
    return f"SELECT {what} FROM {table} t WHERE {COUNTED.get(table, 'true')}"
