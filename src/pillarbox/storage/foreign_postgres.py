"""Joining a transaction on the caller's psycopg connection, whatever its session and its factories are set to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg import errors
from psycopg.adapt import AdaptersMap
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from pillarbox.errors import DatabaseBusy, DatabaseFull, InvalidInput, Unavailable
from pillarbox.storage.arrays import parameters
from pillarbox.storage.database import Database, Row, Statement, Step, Work, together
from pillarbox.storage.driver import drive, drive_async
from pillarbox.storage.postgres import PostgresDatabase
from pillarbox.storage.queries import Query
from pillarbox.storage.turns import Turns

T = TypeVar("T")

Connection = psycopg.Connection[Any]
AsyncConnection = psycopg.AsyncConnection[Any]


def _query(text: str, *, answers: bool = True) -> Query:
    return Query("foreign", sqlite="", postgres=text, sets=(), changes=not answers, answers=answers)


_SAVEPOINT = _query("SAVEPOINT pillarbox_step", answers=False)()
_GO_BACK = _query("ROLLBACK TO SAVEPOINT pillarbox_step", answers=False)()
_RELEASE = _query("RELEASE SAVEPOINT pillarbox_step", answers=False)()
_PATH = _query("SELECT current_setting('search_path')")()
_SET_PATH = _query("SELECT set_config('search_path', %(path)s, true)")
# A server started when no other did, a database of it, and a table of ours in that: a copy differs in the first.
_POSTGRES_PLACE = _query(
    "SELECT current_database(), extract(epoch FROM pg_postmaster_start_time())::text, to_regclass('commit_mark')::oid"
)()
_COCKROACH_PLACE = _query(
    "SELECT current_database(), crdb_internal.cluster_id()::text, to_regclass('commit_mark')::oid"
)()
# Without the user's own name in it, which may mean another schema to the caller's role; temporary tables come last.
_SCHEMAS = _query(
    "SELECT string_agg(quote_ident(name), ', ' ORDER BY place) || ', pg_temp'"
    " FROM unnest(current_schemas(false)) WITH ORDINALITY AS schemas(name, place)"
)()

_A_MOMENT = 0.2
_PATIENCE = 5.0

_turns = Turns(threading.Lock)
_async_turns = Turns(asyncio.Lock)


@dataclass(frozen=True, slots=True)
class _Home:
    """Where the box's tables are, as any connection to them can see, and how they are found by name."""

    ask: Statement
    place: Row
    schemas: str


class _Elsewhere(Exception):
    """The caller's connection sees another place, perhaps because the server was restarted since we looked."""


_homes: WeakKeyDictionary[Database, _Home] = WeakKeyDictionary()


async def run(connection: Connection | AsyncConnection, work: Work[T], database: Database) -> T:
    """Run a work inside the transaction that is open on this connection."""
    _require_usable(connection)
    home = _homes.get(database) or await _look(database)
    try:
        return await _run(connection, partial(_joined, work, home))
    except _Elsewhere:
        fresh = await _look(database)
        if fresh == home:
            raise _another_place() from None
        return await _run(connection, partial(_joined, work, fresh))


def run_blocking(connection: Connection | AsyncConnection, work: Work[T], database: Database) -> T:
    """The same without an event loop."""
    _require_usable(connection)
    if isinstance(connection, psycopg.AsyncConnection):
        raise InvalidInput("connection", "is asynchronous and this call is not; use a psycopg Connection.")
    home = _homes.get(database) or _look_blocking(database)
    try:
        return _run_blocking(connection, partial(_joined, work, home))
    except _Elsewhere:
        fresh = _look_blocking(database)
        if fresh == home:
            raise _another_place() from None
        return _run_blocking(connection, partial(_joined, work, fresh))


def _joined(work: Work[T], home: _Home) -> Step[T]:
    """The work between a savepoint and its release, with the box's search path, if this is where the box is."""
    _, ((path,),), _, (place,) = yield from together(_SAVEPOINT, _PATH, _SET_PATH(path=home.schemas), home.ask)
    if place != home.place:
        raise _Elsewhere
    result = yield from work()
    yield from together(_SET_PATH(path=path), _RELEASE)
    return result


async def _look(database: Database) -> _Home:
    ask = _place_of(database)
    home = _homes[database] = await database.read(partial(_home, ask))
    return home


def _look_blocking(database: Database) -> _Home:
    ask = _place_of(database)
    home = _homes[database] = database.read_blocking(partial(_home, ask))
    return home


def _place_of(database: Database) -> Statement:
    return _COCKROACH_PLACE if cast("PostgresDatabase", database).cockroach else _POSTGRES_PLACE


def _home(ask: Statement) -> Step[_Home]:
    (place,), ((schemas,),) = yield from together(ask, _SCHEMAS)
    return _Home(ask, place, schemas)


async def _run(connection: Connection | AsyncConnection, work: Work[T]) -> T:
    if isinstance(connection, psycopg.Connection):
        return _run_blocking(connection, work)
    async with _async_turns.on(connection):
        if _is_in_pipeline(connection):
            # What the caller has sent is done first, and fails on its own.
            async with connection.pipeline():
                pass
        _require_transaction(connection)
        return await _Conversation(connection).hold(work)


class _Conversation:
    """A step on an asynchronous connection; cancelled in the middle of a pipeline the driver would leave that half read."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._given_up = False

    async def hold(self, work: Work[T]) -> T:
        """Run the work; who is cancelled meanwhile waits until the connection is in order again."""
        speaking = asyncio.create_task(self._speak(work))
        try:
            return await asyncio.shield(speaking)
        except asyncio.CancelledError:
            self._given_up = True
            await asyncio.wait([speaking], timeout=_A_MOMENT)
            if not speaking.done():
                await self._connection.cancel_safe(timeout=_PATIENCE)
                await asyncio.wait([speaking], timeout=_PATIENCE)
                speaking.cancel()
            raise

    async def _speak(self, work: Work[T]) -> T:
        connection = self._connection
        try:
            async with connection.pipeline():
                return await drive_async(work, self._execute)
        except BaseException as error:
            if not _is_lost(connection):
                with suppress(psycopg.Error):
                    async with connection.pipeline():
                        await _execute_async(connection, (_GO_BACK, _RELEASE))
            _raise_translated(error, connection)
            raise

    async def _execute(self, statements: Sequence[Statement]) -> list[list[Row]]:
        if self._given_up:
            raise asyncio.CancelledError
        return await _execute_async(self._connection, statements)


def _run_blocking(connection: Connection, work: Work[T]) -> T:
    with _turns.on(connection):
        if _is_in_pipeline(connection):
            with connection.pipeline():
                pass
        _require_transaction(connection)
        try:
            with connection.pipeline():
                return drive(work, partial(_execute, connection))
        except BaseException as error:
            if not _is_lost(connection):
                with suppress(psycopg.Error), connection.pipeline():
                    _execute(connection, (_GO_BACK, _RELEASE))
            _raise_translated(error, connection)
            raise


class _Cursor(psycopg.Cursor[Row]):
    """A cursor that reads values as the box's own do; the caller's factories and loaders would change what the step is told."""

    @property
    def adapters(self) -> AdaptersMap:
        return psycopg.adapters


class _AsyncCursor(psycopg.AsyncCursor[Row]):
    """The same, awaited."""

    @property
    def adapters(self) -> AdaptersMap:
        return psycopg.adapters


def _execute(connection: Connection, statements: Sequence[Statement]) -> list[list[Row]]:
    """Send all, then fetch; in binary, which no date style changes, and never prepared, because generic plans are slow."""
    cursors = [_Cursor(connection, row_factory=tuple_row) for _ in statements]
    for cursor, statement in zip(cursors, statements, strict=True):
        cursor.execute(statement.query.postgres.encode(), parameters(statement), prepare=False, binary=True)
    return [
        cursor.fetchall() if statement.query.answers else []
        for cursor, statement in zip(cursors, statements, strict=True)
    ]


async def _execute_async(connection: AsyncConnection, statements: Sequence[Statement]) -> list[list[Row]]:
    cursors = [_AsyncCursor(connection, row_factory=tuple_row) for _ in statements]
    for cursor, statement in zip(cursors, statements, strict=True):
        await cursor.execute(statement.query.postgres.encode(), parameters(statement), prepare=False, binary=True)
    return [
        await cursor.fetchall() if statement.query.answers else []
        for cursor, statement in zip(cursors, statements, strict=True)
    ]


def _require_usable(connection: Connection | AsyncConnection) -> None:
    if connection.closed:
        raise InvalidInput("connection", "is closed; open another one.")
    if connection.info.encoding != "utf-8":
        raise InvalidInput("connection", "must have the client encoding UTF8, or not every text could be stored.")


def _require_transaction(connection: Connection | AsyncConnection) -> None:
    """Refuse a connection on which nothing could be committed; one that is not autocommit begins by itself."""
    match connection.info.transaction_status:
        case TransactionStatus.INERROR:
            raise InvalidInput("connection", "its transaction has failed; roll it back and begin again.")
        case TransactionStatus.ACTIVE:
            raise InvalidInput("connection", "is busy with another statement; let that end first.")
        case TransactionStatus.IDLE if connection.autocommit:
            raise InvalidInput("connection", "is in no transaction; begin one first, as with connection.transaction().")


def _is_in_pipeline(connection: Connection | AsyncConnection) -> bool:
    return connection.info.pipeline_status != PipelineStatus.OFF


def _is_lost(connection: Connection | AsyncConnection) -> bool:
    return connection.closed or connection.info.transaction_status == TransactionStatus.UNKNOWN


def _another_place() -> InvalidInput:
    return InvalidInput(
        "connection", "is connected to another database than this box, or may not see the box's tables."
    )


def _raise_translated(error: BaseException, connection: Connection | AsyncConnection) -> None:
    """Say what an error means to the caller; a conflict that asks for the whole transaction again stays what it is."""
    match error:
        case errors.UndefinedTable() | errors.UndefinedFunction() | errors.InvalidSchemaName():
            raise _another_place() from error
        case errors.InsufficientPrivilege():
            raise InvalidInput("connection", "its role may not write the box's tables; grant it that.") from error
        case errors.ReadOnlySqlTransaction():
            raise InvalidInput("connection", "its transaction only reads; begin one that may write.") from error
        case errors.DiskFull() | errors.OutOfMemory():
            raise DatabaseFull("The database server has no room left; make some and try again.") from error
        case errors.QueryCanceled() | errors.LockNotAvailable():
            raise DatabaseBusy("The database was too slow to answer; try again.") from error
        case psycopg.OperationalError() if _is_lost(connection):
            raise Unavailable("The connection was lost, and its transaction with it; begin again.") from error
