"""A table of notes, for suites that want to see what a database does with any table."""

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from pillarbox.box import open_database
from pillarbox.settings import Settings
from pillarbox.storage import Database, Row, Step, ending
from pillarbox.storage.queries import Query, parse_queries

_TEXT = """
-- name: create
CREATE TABLE note (id BIGINT PRIMARY KEY, body TEXT NOT NULL, at TIMESTAMPTZ)

-- name: add
INSERT INTO note (id, body) VALUES (:id, :body)

-- name: add_answering
INSERT INTO note (id, body) VALUES (:id, :body) RETURNING id

-- name: add_set
INSERT INTO note (id, body, at)
SELECT rows.id, rows.body, rows.at FROM :rows(id bigint, body text, at instant) WHERE true

-- name: with_id
SELECT id FROM note WHERE id = :id

-- name: all
SELECT id, body, at FROM note ORDER BY id

-- name: among
SELECT id FROM note WHERE body :in(bodies text) ORDER BY id

-- name: not_among
SELECT id FROM note WHERE body :not_in(bodies text) ORDER BY id

-- name: set_body
UPDATE note SET body = :body WHERE id = :id

-- name: lock
SELECT body FROM note WHERE id = :id :lock(note)

-- name: echo
SELECT rows.a, rows.b, rows.c FROM :rows(a bigint, b text, c instant)

-- name: sleep
SELECT pg_sleep(:seconds)

-- name: total
SELECT sum(length(body)) FROM note
"""

queries: Any = SimpleNamespace(**{query.name: query for query in parse_queries(_TEXT)})


def query(sql: str) -> Query:
    """A query of a test's own."""
    (parsed,) = parse_queries(f"-- name: one\n{sql}\n")
    return parsed


def create() -> Step[None]:
    yield queries.create()


def add(note_id: int, body: str | None = "a") -> Step[int]:
    yield queries.add(id=note_id, body=body)
    return note_id


def add_answering(note_id: int, body: str | None = "a") -> Step[int]:
    rows = yield queries.add_answering(id=note_id, body=body)
    return int(rows[0][0])


def add_last(note_id: int, body: str | None = "a") -> Step[int]:
    """Adds a note with the end of the transaction, which shortens it once more."""
    yield queries.lock(id=note_id)
    return (
        yield from ending(
            queries.add_answering(id=note_id, body=body),
            queries.set_body(id=note_id, body="last" if body else None),
            again=[queries.with_id(id=note_id)],
            result=lambda rows: int(rows[0][0]),
        )
    )


def add_set(rows: Sequence[tuple[int, str, datetime | None]]) -> Step[None]:
    yield queries.add_set(rows=list(rows))


def everything() -> Step[list[Row]]:
    return (yield queries.all())


def start(program: str, *arguments: str) -> "subprocess.Popen[bytes]":
    """Another Python process, with the tests to import."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=False
    )


async def ids(database: Database) -> list[int]:
    return [row[0] for row in await database.read(everything)]


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    """The database behind a URL, closed at the end."""
    database = await open_database(url, Settings())
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def with_notes(url: str) -> AsyncIterator[Database]:
    """The same, with an empty table of notes."""
    async with opened(url) as database:
        await database.write(create)
        yield database
