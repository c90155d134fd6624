"""Which connections cannot be joined on SQLite, and what other writers on the file do to those that can."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from pillarbox.errors import DatabaseBusy, DatabaseFull, InvalidInput
from pillarbox.storage import Database, Row, Step
from pillarbox.storage.foreign import run_on, run_on_blocking
from tests.contracts.notes import add, ids, queries, with_notes


class Change(Exception):
    """A change of the caller's mind."""


def look() -> Step[list[Row]]:
    return (yield queries.echo(rows=[(1, "a", None)]))


@pytest.fixture
def path(sqlite_url: str) -> str:
    return sqlite_url.removeprefix("sqlite:///")


@pytest.fixture
async def database(sqlite_url: str) -> AsyncIterator[Database]:
    async with with_notes(sqlite_url) as found:
        yield found


def begun(path: str, how: str = "BEGIN IMMEDIATE") -> apsw.Connection:
    connection = apsw.Connection(path)
    connection.execute(how)
    return connection


async def refused(connection: Any, database: Database, why: str) -> None:
    for _ in range(2):
        with pytest.raises(InvalidInput, match=why) as refusal:
            await run_on(connection, partial(add, 1), database)
        with pytest.raises(InvalidInput, match=why):
            run_on_blocking(connection, partial(add, 1), database)
        assert refusal.value.field == "connection"


async def test_tracers_and_cursors_of_the_caller_do_not_matter(path: str, database: Database) -> None:
    connection = begun(path)
    connection.row_trace = lambda cursor, row: {"row": row}
    connection.cursor_factory = lambda connection: pytest.fail("a cursor of the caller's was used")
    assert await run_on(connection, look, database) == [(1, "a", None)]


async def test_a_with_block_of_the_callers_own_is_joined(path: str, database: Database) -> None:
    connection = apsw.Connection(path)
    connection.transaction_mode = "IMMEDIATE"
    with connection:
        await run_on(connection, partial(add, 1), database)
    with suppress(Change), connection:
        await run_on(connection, partial(add, 2), database)
        raise Change
    assert await ids(database) == [1]


async def test_another_name_of_the_same_file_is_joined(path: str, database: Database, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    connection = begun(str(link))
    await run_on(connection, partial(add, 1), database)
    connection.execute("COMMIT")
    assert await ids(database) == [1]


async def test_a_connection_on_another_file_is_refused(path: str, database: Database) -> None:
    connection = begun(f"{path}.other")
    connection.execute("ATTACH ? AS box", (path,))
    await refused(connection, database, "is on another file than this box")
    await refused(begun(":memory:"), database, "is on another file than this box")


async def test_a_box_in_memory_cannot_be_joined() -> None:
    async with with_notes("sqlite:///:memory:") as database:
        await refused(begun(":memory:"), database, "this box is in memory")


async def test_a_connection_outside_a_transaction_is_refused(path: str, database: Database) -> None:
    await refused(apsw.Connection(path), database, "is in no transaction; execute BEGIN IMMEDIATE first")


async def test_a_connection_that_only_reads_is_refused(path: str, database: Database) -> None:
    only_reads = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    only_reads.execute("BEGIN")
    await refused(only_reads, database, "only reads")
    only_asks = apsw.Connection(path)
    only_asks.execute("PRAGMA query_only = 1; BEGIN")
    await refused(only_asks, database, "only reads")


async def test_a_closed_connection_is_refused(path: str, database: Database) -> None:
    connection = begun(path)
    connection.close()
    await refused(connection, database, "is closed; open another one")


async def test_a_connection_of_the_other_sqlite_library_is_refused(path: str, database: Database) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    await refused(connection, database, "break each other's locks; use an apsw connection")
    connection.close()


async def test_a_connection_to_the_other_kind_of_database_is_refused(
    path: str, database: Database, postgres_url: str
) -> None:
    with psycopg.connect(postgres_url) as connection:
        await refused(connection, database, "is of PostgreSQL and this box of SQLite")
    async with with_notes(postgres_url) as other:
        await refused(begun(path), other, "is of SQLite and this box of PostgreSQL")


class Session:
    """What SQLAlchemy's looks like."""

    def execute(self, statement: str) -> None: ...


@pytest.mark.parametrize("thing", [Session(), "postgresql://", 7], ids=["another library's", "text", "number"])
async def test_anything_else_is_refused_with_what_would_do(thing: object, database: Database) -> None:
    await refused(
        thing, database, "must be a psycopg Connection or AsyncConnection, or an apsw Connection; .* come later"
    )


async def test_a_cursor_is_no_connection(path: str, database: Database) -> None:
    await refused(begun(path).cursor(), database, "must be a psycopg Connection")


async def test_an_asynchronous_apsw_connection_is_refused(path: str, database: Database) -> None:
    connection = await apsw.Connection.as_async(path)
    with pytest.raises(InvalidInput, match="asynchronous apsw connection comes later"):
        await run_on(connection, partial(add, 1), database)
    await connection.aclose()


async def test_a_transaction_that_has_read_what_changed_since_is_told_to_begin_immediate(
    path: str, database: Database
) -> None:
    connection = begun(path, "BEGIN")
    connection.execute("SELECT count(*) FROM note").get  # noqa: B018 - reading it takes the snapshot
    await database.write(partial(add, 1))
    with pytest.raises(DatabaseBusy, match="cannot write any more; roll it back and begin with BEGIN IMMEDIATE"):
        await run_on(connection, partial(add, 2), database)
    connection.execute("ROLLBACK; BEGIN IMMEDIATE")
    await run_on(connection, partial(add, 2), database)
    connection.execute("COMMIT")
    assert await ids(database) == [1, 2]


async def test_a_write_lock_that_somebody_else_holds_is_said(path: str, database: Database) -> None:
    blocker, connection = begun(path), begun(path, "BEGIN")
    connection.set_busy_timeout(50)
    with pytest.raises(DatabaseBusy, match="set a busy timeout on yours, begin with BEGIN IMMEDIATE"):
        await run_on(connection, partial(add, 1), database)
    blocker.execute("ROLLBACK")
    await run_on(connection, partial(add, 1), database)
    connection.execute("COMMIT")
    assert await ids(database) == [1]


async def test_a_full_disk_says_that_the_whole_transaction_is_gone(path: str, database: Database) -> None:
    connection = begun(path)
    connection.execute("INSERT INTO note (id, body) VALUES (1, 'theirs')")
    connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(DatabaseFull, match="rolled the whole transaction back"):
        await run_on(connection, partial(add, 2, "x" * 1_000_000), database)
    assert not connection.in_transaction
    await refused(connection, database, "is in no transaction")
    assert await ids(database) == []


async def test_the_boxs_own_writes_wait_for_the_callers_transaction(path: str, database: Database) -> None:
    connection = begun(path)
    waiting = asyncio.create_task(database.write(partial(add, 1)))
    await run_on(connection, partial(add, 2), database)
    assert await ids(database) == []
    assert not waiting.done()
    connection.execute("COMMIT")
    assert await waiting == 1
    assert await ids(database) == [1, 2]
