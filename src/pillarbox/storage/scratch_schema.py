"""A schema of PostgreSQL to try things out in: beside what is there, seen by nobody else, gone afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import errors, sql

from pillarbox.errors import InvalidInput, Refused, Unavailable
from pillarbox.storage.postgres_url import PostgresAddress

_NAME = "pillarbox_bench_"
_CONNECT_SECONDS = 5


@contextmanager
def schema(url: str) -> Iterator[str]:
    """The URL of a new PostgreSQL schema in this database; what is opened by it sees no other."""
    address = PostgresAddress.parse(url)
    if address.pooled:
        raise InvalidInput("database", "is behind a transaction pooler; give the address of the server itself.")
    name = _NAME + secrets.token_hex(4)
    _create(address, name)
    try:
        yield _inside(address.conninfo, name)
    finally:
        # It is ours alone and small; if the server has gone meanwhile, its name says what it was.
        with suppress(psycopg.Error), _connected(address) as connection:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


def _create(address: PostgresAddress, name: str) -> None:
    try:
        with _connected(address) as connection:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    except errors.InsufficientPrivilege as error:
        raise Refused(
            "The database's user may not create a schema; grant it CREATE on the database, or name another database."
        ) from error
    except psycopg.OperationalError as error:
        raise Unavailable(
            f"PostgreSQL cannot be reached at {address.place}; check the URL and that the server runs."
        ) from error


def _connected(address: PostgresAddress) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(address.conninfo, autocommit=True, connect_timeout=_CONNECT_SECONDS)


def _inside(conninfo: str, schema: str) -> str:
    parts = urlsplit(conninfo)
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    given["options"] = f"{given.get('options', '')} -c search_path={schema}".strip()
    return urlunsplit(parts._replace(query=urlencode(given, quote_via=quote)))
