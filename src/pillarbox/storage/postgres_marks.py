"""The marks that transactions leave, by which a commit is known whose answer was lost."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
from psycopg import errors

from pillarbox.errors import UnsafeDatabase
from pillarbox.storage.postgres_errors import CREATED_TWICE
from pillarbox.storage.timeline import CREATE_TIMELINE

_CREATE_MARK = (
    "CREATE TABLE IF NOT EXISTS commit_mark (writer TEXT PRIMARY KEY, serial TEXT NOT NULL, at TIMESTAMPTZ NOT NULL)"
)
# A void mark makes `serial` null, which the column refuses: a transaction that was given up can no longer commit.
MARK = b"""INSERT INTO commit_mark (writer, serial, at) VALUES (%(writer)s, %(serial)s, now())
           ON CONFLICT (writer) DO UPDATE SET serial = CASE WHEN commit_mark.serial <> 'void' THEN excluded.serial END,
                                              at = excluded.at"""
# An insert, because it waits for the mark of a transaction that is still under way even where that mark is the first.
LOOK = """INSERT INTO commit_mark (writer, serial, at) VALUES (%s, 'void', now())
           ON CONFLICT (writer) DO UPDATE SET serial = CASE WHEN commit_mark.serial = %s THEN commit_mark.serial ELSE 'void' END
           RETURNING serial"""
SWEEP = "DELETE FROM commit_mark WHERE at < now() - interval '1 day'"


def create_tables(connection: psycopg.Connection[Any]) -> None:
    """The tables of marks and of the timeline, unless they are there: a role that may not create any can still use them."""
    row = connection.execute(
        "SELECT to_regclass('commit_mark') IS NOT NULL AND to_regclass('timeline') IS NOT NULL"
    ).fetchone()
    if row is not None and row[0]:
        return
    try:
        # Two nodes that start together may both try to create a table; the second one finds it there.
        for create in (_CREATE_MARK, CREATE_TIMELINE):
            with suppress(*CREATED_TWICE):
                connection.execute(create)
    except errors.InsufficientPrivilege as error:
        raise UnsafeDatabase(
            "This role may not create tables; run `pillarbox migrate` once with a role that may."
        ) from error
