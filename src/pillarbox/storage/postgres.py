"""PostgreSQL and CockroachDB: pooled connections driven from threads; every write leaves a mark to settle ambiguous commits."""

from __future__ import annotations

import asyncio
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from pillarbox.clock import OffsetClock
from pillarbox.errors import DatabaseBusy, Unavailable
from pillarbox.storage.database import News, Row, Statement, Work
from pillarbox.storage.driver import drive
from pillarbox.storage.owner import Owner
from pillarbox.storage.postgres_bell import PostgresBell
from pillarbox.storage.postgres_errors import (
    CREATED_TWICE,
    LOST,
    leaves_commit_unknown,
    raise_if_final,
    two_created_it,
    was_prepared_for_another_schema,
)
from pillarbox.storage.postgres_exchange import Exchange, Result, answers, ask
from pillarbox.storage.postgres_marks import LOOK, MARK, SWEEP, create_tables
from pillarbox.storage.postgres_url import (
    PostgresAddress,
    begin_of,
    connect_options,
    require_safe_server,
    require_settings,
    unreachable,
)
from pillarbox.storage.postgres_watchdog import Watchdog
from pillarbox.storage.postgres_wire import Cursors, Said, Speaker, WiredConnection
from pillarbox.storage.soon import soon
from pillarbox.storage.standing import Stand, Standing
from pillarbox.storage.timeline import Timeline

T = TypeVar("T")

_TRIES = 12
_MOST_WAITING = 2000
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5
# The pool doubles its pause after each failed connect: giving up early keeps it from sleeping long past a server's return.
_RECONNECT_SECONDS = 3.0
# The server ends a slow statement itself; only one that does not even do that is cut off, after so many times as long.
_PATIENCE = 1.5

_UNLIMITED: tuple[Said, ...] = (
    (b"SET LOCAL statement_timeout = 0", {}),
    (b"SET LOCAL idle_in_transaction_session_timeout = 0", {}),
)


class _CommitUnknown(Exception):
    """The connection broke while COMMIT was under way."""

    def __init__(self, result: Result) -> None:
        super().__init__("the answer to COMMIT did not arrive")
        self.result = result


class PostgresDatabase:
    """A PostgreSQL or CockroachDB database, shared with any number of nodes."""

    dialect = "postgres"
    many_writers = True
    clock: OffsetClock

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 8,
        busy_timeout: float = 10.0,
        statement_timeout: float = 30.0,
        allow_unsafe: bool = False,
    ) -> None:
        self.address = PostgresAddress.parse(url)
        self._busy_timeout = busy_timeout
        self._random = random.Random()  # noqa: S311 - spreads retries, guards nothing
        self._local = threading.local()
        self._options = connect_options(self.address, statement_timeout)
        self.cockroach = False
        self._timeline = self._first_contact(statement_timeout, allow_unsafe=allow_unsafe)
        self.clock = self._timeline.clock
        self._options = connect_options(self.address, statement_timeout, planning=not self.cockroach)
        self._begin = begin_of(self.address, statement_timeout, planning=not self.cockroach)
        self._watchdog = Watchdog(statement_timeout * _PATIENCE)
        self._pool = ConnectionPool(
            self.address.conninfo,
            connection_class=WiredConnection,
            min_size=1,
            max_size=pool_size,
            timeout=busy_timeout,
            kwargs=self._options,
            open=False,
            name="pillarbox",
            reconnect_timeout=_RECONNECT_SECONDS,
        )
        self._threads = ThreadPoolExecutor(pool_size, thread_name_prefix="pillarbox-postgres")
        self._bell = PostgresBell(self.address, self._options)
        self._stand = Stand()
        self._watched = False
        self._closed = False
        self._owner = Owner()
        self.waiting = 0
        self._pool.open()

    def _first_contact(self, statement_timeout: float, *, allow_unsafe: bool) -> Timeline:
        try:
            with psycopg.connect(self.address.conninfo, **self._options) as connection:
                self.cockroach = require_safe_server(connection, allow_unsafe=allow_unsafe)
                if not (self.cockroach or self.address.pooled):
                    require_settings(connection, statement_timeout)
                create_tables(connection)
                return Timeline(connection)
        except psycopg.OperationalError as error:
            raise unreachable(self.address) from error

    async def write(self, work: Work[T]) -> T:
        return await self._submit(self.write_blocking, work)

    async def write_unlimited(self, work: Work[T]) -> T:
        """A write whose statements may take as long as they need."""
        return await self._submit(partial(self.write_blocking, limited=False), work)

    async def write_new(self, work: Work[T], *, pipe: str | None = None) -> T:
        # How much room the server has, only the server knows; it says DiskFull.
        return await self._submit(partial(self.write_blocking, pipe=pipe), work)

    async def read(self, work: Work[T]) -> T:
        return await self._submit(self.read_blocking, work)

    def write_blocking(self, work: Work[T], *, limited: bool = True, pipe: str | None = None) -> T:
        serial = uuid.uuid4().hex
        aside = self._bell.aside(pipe) if pipe and self._plain else None
        result: T = self._write(work, serial, limited=limited, aside=aside)
        if pipe and (aside is None or self._bell.is_barred):
            self.ring(pipe)
        return result

    def _write(self, work: Work[T], serial: str, *, limited: bool, aside: Said | None) -> T:
        unknown: _CommitUnknown | None = None
        for pause in self._pauses():
            try:
                with self._connection() as connection:
                    if unknown is not None and self._did_commit(connection, serial):
                        # Who lost the answer may have lost the ring.
                        self._bell.bar()
                        result: T = unknown.result(connection)
                        return result
                    unknown = None
                    return self._transaction(connection, serial, work, limited=limited, aside=aside)
            except _CommitUnknown as error:
                unknown = error
            except errors.ReadOnlySqlTransaction as error:
                raise Unavailable("The database server only reads at the moment; try again.") from error
            except LOST as error:
                if unknown is None:
                    raise_if_final(error)
            except CREATED_TWICE as error:
                if not two_created_it(error):
                    raise
            except errors.FeatureNotSupported as error:
                if not was_prepared_for_another_schema(error):
                    raise
            time.sleep(pause)
        raise Unavailable("The database did not answer in time; whatever was not acknowledged may be sent again.")

    def read_blocking(self, work: Work[T]) -> T:
        for pause in self._pauses():
            try:
                with self._connection() as connection, connection.transaction():
                    return drive(work, partial(self._execute, connection))
            except LOST as error:
                raise_if_final(error)
            time.sleep(pause)
        raise Unavailable("The database did not answer in time; try again.")

    def ring(self, pipe: str = "") -> None:
        if not self.cockroach:
            self._bell.ring(pipe)

    def watch(self, rung: Callable[[News], None]) -> None:
        if self._plain:
            self._watched = True
            self._bell.watch(lambda news: rung(self._serve(news)))

    def stand_by(
        self, pipe: str, work: Work[T], *, ready: Callable[[], None], look: Work[T | None] | None = None
    ) -> Standing[T] | None:
        return self._stand.put(pipe, Standing(work, ready=ready)) if self._watched else None

    async def tend(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._tend)

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._bell.close)
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._pool.close)
        self._watchdog.close()

    async def _submit(self, run: Callable[[Work[T]], T], work: Work[T]) -> T:
        self._owner.require()
        if self._closed:
            raise Unavailable("The database is closed.")
        if self.waiting >= _MOST_WAITING:
            raise DatabaseBusy("Too much waits for the database already; try again.")
        self.waiting += 1
        try:
            return await soon(self._threads.submit(run, work), self._busy_timeout)
        finally:
            self.waiting -= 1

    def _serve(self, news: News) -> News:
        """Have run what stands by for the pipes that have work; the news for all others."""
        served = set()
        for pipe in news.work or ():
            standing = self._stand.take(pipe)
            if standing is not None and standing.begin():
                # Not here: who waits for the database must not keep others from hearing.
                self._threads.submit(standing.run, self.write_blocking)
                served.add(pipe)
        return replace(news, work=news.work - served) if news.work and served else news

    def _tend(self) -> None:
        with self._connection() as connection:
            self._timeline.tend(connection)
            connection.execute(SWEEP)

    @contextmanager
    def _connection(self) -> Iterator[WiredConnection]:
        try:
            with self._pool.connection() as connection, self._watchdog.watching(connection):
                yield connection
        except PoolClosed as error:
            raise Unavailable("The database is closed.") from error
        except PoolTimeout as error:
            raise DatabaseBusy("No database connection became free in time; try again.") from error

    def _transaction(
        self, connection: WiredConnection, serial: str, work: Work[T], *, limited: bool, aside: Said | None
    ) -> T:
        """One transaction, in as few round trips as its statements allow.

        Not through a pooler: one that gets statements behind the end of a transaction may keep a server's connection for a client
        that wants nothing more.
        """
        exchange: Exchange | None = None
        try:
            with self._speaking(connection) as speaker:
                exchange = Exchange(
                    speaker,
                    begin=[(self._begin, {}), *(() if limited else _UNLIMITED)],
                    mark=(MARK, {"writer": self._writer(), "serial": serial}),
                    touch=partial(self._watchdog.touch if limited else self._watchdog.spare, connection),
                    plans_once=self._plain,
                    aside=aside,
                )
                exchange.commit(drive(work, exchange, exchange.finish))
        except BaseException as error:
            if exchange is not None and exchange.result and leaves_commit_unknown(error):
                raise _CommitUnknown(exchange.result) from error
            _roll_back(connection)
            raise
        if aside and connection.closed:
            self._bell.bar()
        result: T = exchange.concluded()
        return result

    @property
    def _plain(self) -> bool:
        """Whether this is PostgreSQL, and nothing in between."""
        return not (self.cockroach or self.address.pooled)

    def _speaking(self, connection: WiredConnection) -> AbstractContextManager[Speaker]:
        if self.address.pooled:
            return nullcontext(Cursors(connection))
        return connection.wire(prepares=not self.cockroach).speaking()

    def _execute(self, connection: psycopg.Connection[Any], statements: Sequence[Statement]) -> list[list[Row]]:
        self._watchdog.touch(connection)
        return answers([ask(connection, statement) for statement in statements], statements)

    def _did_commit(self, connection: psycopg.Connection[Any], serial: str) -> bool:
        """Whether the transaction with that mark committed; waits while it is under way, else makes sure it never will."""
        row = connection.execute(LOOK, (self._writer(), serial)).fetchone()
        committed = row is not None and row[0] == serial
        if not committed:
            self._local.writer = None
        return committed

    def _writer(self) -> str:
        """The name of this thread's mark row."""
        name: str | None = getattr(self._local, "writer", None)
        if name is None:
            name = self._local.writer = uuid.uuid4().hex
        return name

    def _pauses(self) -> Iterator[float]:
        deadline = time.monotonic() + self._busy_timeout
        pause = _FIRST_PAUSE
        for _ in range(_TRIES):
            yield pause * self._random.uniform(0.5, 1.0)
            if time.monotonic() > deadline:
                return
            pause = min(pause * 2, _LONGEST_PAUSE)


def _roll_back(connection: psycopg.Connection[Any]) -> None:
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()
