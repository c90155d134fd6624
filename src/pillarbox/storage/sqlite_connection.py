"""A connection to an SQLite file that commits to disk, and what its errors mean."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, TypeVar

import apsw
import msgspec

from pillarbox.errors import DatabaseBusy, DatabaseFull, Unavailable, UnsafeDatabase
from pillarbox.storage.checksum import DAMAGED, as_near_as_can_be
from pillarbox.storage.database import Row, Statement, Work
from pillarbox.storage.driver import Illegible, drive
from pillarbox.storage.retyped import itself, set_right
from pillarbox.storage.values import bindable, bindable_rows

T = TypeVar("T")

MINIMUM_VERSION = (3, 51, 3)
MEMORY = ":memory:"
# The index of the write-ahead log cannot grow: SQLite calls that an I/O error, and it is a full disk.
_NO_ROOM_FOR_INDEX = apsw.SQLITE_IOERR_SHMSIZE
_UNNAMED = "the database file"
_NO_FOLDER = "check that its folder exists and may be written"
_NOT_TAKEN = "the disk does not take what is written: check it"
_NOT_ALLOWED = "check the owner and mode of the file and its folder"


def require_safe_library(version: str | None = None) -> None:
    """Refuse a SQLite whose write-ahead log can be corrupted by several writers."""
    found = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")[:3]) < MINIMUM_VERSION:
        needed = ".".join(map(str, MINIMUM_VERSION))
        raise UnsafeDatabase(f"SQLite {found} can corrupt a shared file; install apsw {needed} or newer.")


def connect(path: str, *, busy_timeout: float) -> apsw.Connection:
    """A connection that commits to disk: WAL, synchronous=FULL."""
    try:
        _create_privately(path)
        connection = apsw.Connection(path)
        connection.set_busy_timeout(int(busy_timeout * 1000))
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.pragma("fullfsync", 1)
        connection.pragma("checkpoint_fullfsync", 1)
        connection.pragma("journal_size_limit", 64 * 1024 * 1024)
        # A checkpoint costs two more syncs, so it should be rare beside commits: every 40 MB.
        connection.pragma("wal_autocheckpoint", 10_000)
        connection.pragma("temp_store", "memory")
        keep_plans(connection)
    except apsw.Error as error:
        raise translated(error, path) from error
    return connection


def keep_plans(connection: apsw.Connection) -> None:
    """Plan each statement once, not anew for the values of every LIMIT and range that it is run with."""
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def _create_privately(path: str) -> None:
    """Messages are nobody else's business: a new file, and the logs that take its mode, belong to their owner alone."""
    if path != MEMORY:
        with suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def execute(connection: apsw.Connection | apsw.Cursor, statements: Sequence[Statement]) -> list[list[Row]]:
    answers, illegible = [], None
    for statement in statements:
        try:
            answers.append(execute_one(connection, statement))
        except Illegible as error:
            illegible = error
    if illegible is not None:
        raise illegible
    return answers


def execute_one(connection: apsw.Connection | apsw.Cursor, statement: Statement) -> list[Row]:
    """Run one statement; a list parameter travels as JSON."""
    params: dict[str, Any] = {}
    for name, value in statement.params.items():
        if isinstance(value, list):
            params[name] = msgspec.json.encode(bindable_rows(value)).decode()
        else:
            params[name] = bindable(value)
    try:
        return list(connection.execute(statement.query.sqlite, params))
    except apsw.ConstraintError as error:
        if set_right(connection, error):
            return list(connection.execute(statement.query.sqlite, params))
        raise
    except UnicodeDecodeError as error:
        if statement.query.bears_damage and not statement.query.changes:
            return _as_near_as_can_be(connection, statement.query.sqlite, params)
        raise Illegible(f"The database holds text that is none. {DAMAGED}") from error


def _as_near_as_can_be(connection: apsw.Connection | apsw.Cursor, sql: str, params: dict[str, Any]) -> list[Row]:
    """The rows of a query, with a replacement character for every byte that is of no text: one row's damage stays its own."""
    with closing(itself(connection).execute(sql, params)) as cursor:
        try:
            columns = [f"c{number}" for number, _ in enumerate(cursor.get_description())]
        except apsw.ExecutionCompleteError:
            # Somebody else has taken the rows away in the meantime.
            return []
    texts = ", ".join(f"iif(typeof({c}) = 'text', CAST({c} AS BLOB), {c}), typeof({c}) = 'text'" for c in columns)
    rows = connection.execute(
        f"WITH found({', '.join(columns)}) AS MATERIALIZED ({sql}) SELECT {texts} FROM found", params
    )
    return [
        tuple(
            as_near_as_can_be(value) if is_text else value for value, is_text in zip(row[::2], row[1::2], strict=True)
        )
        for row in rows
    ]


def read_snapshot(connection: apsw.Connection, work: Work[T]) -> T:
    """Run a work that only reads, all of it on one state of the database."""
    try:
        connection.execute("BEGIN")
        try:
            return drive(work, partial(execute, connection))
        finally:
            if connection.in_transaction:
                connection.execute("COMMIT")
    except apsw.Error as error:
        raise translated(error, connection.filename) from error


def is_full(error: Exception) -> bool:
    """Whether an error means that the disk has no room."""
    return isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) == _NO_ROOM_FOR_INDEX


def is_refused(error: Exception) -> bool:
    """Whether the disk did not take what was written: nothing of it counts, and what was there before is as it was."""
    return getattr(error, "extendedresult", 0) in (apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_TRUNCATE)


def translated(error: apsw.Error, path: str = "") -> Exception:
    """What an SQLite error means to a caller; a bug of ours stays what it is."""
    path = path or _UNNAMED
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return DatabaseBusy("Another process held the database for too long; try again.")
        case _ if is_full(error):
            return DatabaseFull("The disk is full; make room and try again.")
        case apsw.CantOpenError():
            return Unavailable(f"Cannot open {path}; {_obstacle(path) or _NO_FOLDER}.")
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return Unavailable(f"The database cannot be written; {_obstacle(path) or _NOT_ALLOWED}.")
        case apsw.NotADBError():
            return Unavailable(
                f"Cannot use {path}: it is not an SQLite file; check that it is the right one, or restore a backup."
            )
        case apsw.CorruptError():
            return Unavailable(
                f"Cannot use {path}: it is damaged; run `pillarbox doctor`, or restore a backup with `pillarbox restore FILE`."
            )
        case _ if is_refused(error):
            return Unavailable(f"The database cannot be written; {_obstacle(path) or _NOT_TAKEN}.")
        case apsw.IOError():
            return Unavailable("The disk answered with an I/O error; check it and restart.")
        case _:
            return error


def _obstacle(path: str) -> str | None:
    """What stands in the way of writing a file, and what to do; None where nobody can tell from here."""
    if path == _UNNAMED:
        return None
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        return "it is a folder: name a file in it"
    try:
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return "it lies on a read-only file system: mount that for writing, or name a file elsewhere"
    except OSError:
        return None
    writable = os.access(folder, os.W_OK | os.X_OK) and (not os.path.exists(path) or os.access(path, os.R_OK | os.W_OK))
    return None if writable else f"this user has no permission: {_NOT_ALLOWED}"
