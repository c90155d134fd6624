"""Joining a transaction on the caller's apsw connection."""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TypeVar, cast

import apsw

from pillarbox.errors import DatabaseBusy, DatabaseFull, InvalidInput, Unavailable
from pillarbox.storage.database import Database, Work
from pillarbox.storage.driver import drive
from pillarbox.storage.sqlite import SqliteDatabase
from pillarbox.storage.sqlite_connection import MEMORY, execute, translated
from pillarbox.storage.turns import Turns

T = TypeVar("T")

_turns = Turns(threading.Lock)


def run(connection: apsw.Connection, work: Work[T], database: Database) -> T:
    """Run a work inside the transaction that is open on this connection."""
    own = cast("SqliteDatabase", database)
    _require_usable(connection, own.path)
    own.reserve.require()
    cursor = _plain_cursor(connection)
    with _turns.on(connection):
        cursor.execute("SAVEPOINT pillarbox_step")
        try:
            result = drive(work, partial(execute, cursor))
        except BaseException as error:
            if connection.in_transaction:
                cursor.execute("ROLLBACK TO pillarbox_step")
                cursor.execute("RELEASE pillarbox_step")
            if isinstance(error, apsw.Error):
                raise _translated(error, connection) from error
            raise
        cursor.execute("RELEASE pillarbox_step")
        return result


def _require_usable(connection: apsw.Connection, path: str) -> None:
    try:
        if getattr(connection, "is_async", False):
            raise InvalidInput("connection", "an asynchronous apsw connection comes later; use a plain one.")
        if path == MEMORY:
            raise InvalidInput("connection", "this box is in memory, where no other connection reaches it; use a file.")
        if not connection.filename or os.path.realpath(connection.filename) != os.path.realpath(path):
            raise InvalidInput("connection", "is on another file than this box; open it on the box's own.")
        if connection.readonly("main") or _plain_cursor(connection).execute("PRAGMA query_only").get:
            raise InvalidInput("connection", "only reads; open one that may write.")
        if not connection.in_transaction:
            raise InvalidInput(
                "connection", "is in no transaction; execute BEGIN IMMEDIATE first and COMMIT afterwards."
            )
    except apsw.ConnectionClosedError as error:
        raise InvalidInput("connection", "is closed; open another one.") from error


def _plain_cursor(connection: apsw.Connection) -> apsw.Cursor:
    """A cursor without the caller's factory and row tracers, which would change what the step is told."""
    cursor = apsw.Cursor(connection)
    cursor.row_trace = None
    return cursor


def _translated(error: apsw.Error, connection: apsw.Connection) -> Exception:
    if not connection.in_transaction:
        kind = DatabaseFull if isinstance(error, apsw.FullError) else Unavailable
        return kind(
            "SQLite met a full or failing disk and rolled the whole transaction back; make room and begin again."
        )
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_BUSY_SNAPSHOT:
        return DatabaseBusy(
            "This transaction has read what another one changed since, so it cannot write any more; "
            "roll it back and begin with BEGIN IMMEDIATE."
        )
    if isinstance(error, apsw.BusyError):
        return DatabaseBusy(
            "Another connection held the write lock for too long; "
            "set a busy timeout on yours, begin with BEGIN IMMEDIATE, and try again."
        )
    return translated(error)
