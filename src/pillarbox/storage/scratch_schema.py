"""A schema of PostgreSQL to try things out in: beside what is there, seen by nobody else, gone afterwards."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import errors, sql

from pillarbox.errors import InvalidInput, Refused, Unavailable
from pillarbox.storage.postgres_url import PostgresAddress, unreachable

_NAME = "pillarbox_bench_"
# When it was made by the server's clock, and what its maker's lock is called.
_SCHEMA = re.compile(rf"{_NAME}([0-9a-f]{{8}})_([0-9a-f]{{8}})")
_LOCKS = 0x70B0
_LONG_AGO = 3600
_CONNECT_SECONDS = 5

Connection = psycopg.Connection[tuple[Any, ...]]


@contextmanager
def schema(url: str) -> Iterator[str]:
    """The URL of a new PostgreSQL schema in this database; what is opened by it sees no other.

    Its maker's connection stays open and holds a lock; the schemas of makers whose lock nobody holds any more are removed.
    """
    address = PostgresAddress.parse(url)
    if address.pooled:
        raise InvalidInput("database", "is behind a transaction pooler; give the address of the server itself.")
    with _connected(address) as connection:
        for left in _left_in(connection):
            # Somebody else may be at it too.
            with suppress(psycopg.Error):
                _drop(connection, left)
        name = _create(connection)
        try:
            yield _inside(address.conninfo, name)
        finally:
            _remove(address, connection, name)


def leftover_schemas(address: PostgresAddress) -> list[str]:
    """The schemas whose makers are dead; behind a transaction pooler nobody can tell."""
    if address.pooled:
        return []
    with _connected(address) as connection:
        return _left_in(connection)


def _left_in(connection: Connection) -> list[str]:
    """Schemas that are this user's by owner and ours by name, and that nobody works in."""
    rows = connection.execute(
        "SELECT nspname, extract(epoch FROM clock_timestamp())::bigint FROM pg_namespace"
        " WHERE starts_with(nspname, %s) AND pg_get_userbyid(nspowner) = current_user",
        (_NAME,),
    ).fetchall()
    found = [(match, now) for name, now in rows if (match := _SCHEMA.fullmatch(name))]
    locks = _has_locks(connection)
    return [
        match[0] for match, now in found if _is_free(connection, match[2], age=now - int(match[1], 16), locks=locks)
    ]


def _has_locks(connection: Connection) -> bool:
    """CockroachDB, which tells its version at the start, has none: there leftovers are told by their age alone."""
    return connection.info.parameter_status("crdb_version") is None


def _is_free(connection: Connection, lock: str, *, age: int, locks: bool) -> bool:
    if not locks:
        return age > _LONG_AGO
    row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (_LOCKS, _number(lock))).fetchone()
    free = row is not None and bool(row[0])
    if free:
        connection.execute("SELECT pg_advisory_unlock(%s, %s)", (_LOCKS, _number(lock)))
    return free


def _number(lock: str) -> int:
    """A lock's name as the server's signed number."""
    return int.from_bytes(bytes.fromhex(lock), signed=True)


def _create(connection: Connection) -> str:
    """Lock first: whoever sees the schema sees that somebody works in it."""
    lock = secrets.token_hex(4)
    if _has_locks(connection):
        connection.execute("SELECT pg_advisory_lock(%s, %s)", (_LOCKS, _number(lock)))
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::bigint").fetchone()
    assert row is not None
    name = f"{_NAME}{row[0]:08x}_{lock}"
    try:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    except errors.InsufficientPrivilege as error:
        raise Refused(
            "The database's user may not create a schema; grant it CREATE on the database, or name another database."
        ) from error
    return name


def _drop(connection: Connection, name: str) -> None:
    connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))


def _remove(address: PostgresAddress, connection: Connection, name: str) -> None:
    # It is ours alone and small; if the server has gone meanwhile, the next one finds it.
    with suppress(psycopg.Error):
        if not connection.broken:
            return _drop(connection, name)
    with suppress(psycopg.Error, Unavailable), _connected(address) as another:
        _drop(another, name)


def _connected(address: PostgresAddress) -> Connection:
    try:
        connection = psycopg.connect(address.conninfo, autocommit=True, connect_timeout=_CONNECT_SECONDS)
    except psycopg.OperationalError as error:
        raise unreachable(address) from error
    # A connection that only holds a lock looks idle.
    with suppress(psycopg.Error):
        connection.execute("SET idle_session_timeout = 0")
    return connection


def _inside(conninfo: str, schema: str) -> str:
    parts = urlsplit(conninfo)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    given["options"] = f"{given.get('options', '')} -c search_path={schema}".strip()
    return urlunsplit(parts._replace(query=urlencode(given, quote_via=quote)))
