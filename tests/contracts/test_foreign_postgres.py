"""What a caller's psycopg connection may be set to, and which ones cannot be joined."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row
from psycopg.types.string import TextBinaryLoader, TextLoader

from pillarbox.errors import DatabaseBusy, InvalidInput, Unavailable
from pillarbox.storage import Database, Row, Step
from pillarbox.storage.foreign import run_on, run_on_blocking
from tests.conftest import skip_or_fail
from tests.contracts.callers import POSTGRES, Caller, connect
from tests.contracts.notes import add, add_answering, everything, ids, queries, with_notes
from tests.servers.pgbouncer import transaction_pooler
from tests.servers.postgres import PostgresServer, ServerMissing

SUMMER = datetime(2026, 7, 1, 12, 0, 0, 5, tzinfo=UTC)


class Shouting(TextLoader):
    """A loader of the caller's own."""

    def load(self, data: Any) -> str:
        return "SHOUTED"


class ShoutingInBinary(TextBinaryLoader):
    """The same for answers in binary."""

    def load(self, data: Any) -> str:
        return "SHOUTED"


def look(rows: list[Row]) -> Step[list[Row]]:
    return (yield queries.echo(rows=rows))


def store(note_id: int, at: datetime) -> Step[list[Row]]:
    yield queries.add_set(rows=[(note_id, "a", at)])
    return (yield queries.all())


def set_body(body: str) -> Step[None]:
    yield queries.set_body(id=1, body=body)


def asleep() -> Step[None]:
    yield queries.add(id=1, body="a")
    yield queries.sleep(seconds=60)


@pytest.fixture(params=POSTGRES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Database]:
    async with with_notes(postgres_url) as found:
        yield found


@pytest.fixture
async def caller(kind: str, postgres_url: str, database: Database) -> AsyncIterator[Caller]:
    found = await connect(kind, postgres_url)
    yield found
    await found.close()


@pytest.mark.parametrize("factory", [dict_row, namedtuple_row])
async def test_row_factories_and_loaders_of_the_caller_do_not_matter(
    caller: Caller, database: Database, factory: Any
) -> None:
    caller.connection.row_factory = factory
    caller.connection.adapters.register_loader("text", Shouting)
    caller.connection.adapters.register_loader("text", ShoutingInBinary)
    assert await caller.run(partial(look, [(1, "a", None)]), database) == [(1, "a", None)]
    (row,) = await caller.sql("SELECT 'a'::text AS word")
    assert (row["word"] if factory is dict_row else row.word) == "SHOUTED"


async def test_cursors_of_the_caller_do_not_matter(caller: Caller, database: Database) -> None:
    is_async = isinstance(caller.connection, psycopg.AsyncConnection)
    caller.connection.cursor_factory = psycopg.AsyncRawCursor if is_async else psycopg.RawCursor
    assert await caller.run(partial(look, [(1, "a", None)]), database) == [(1, "a", None)]


async def test_the_time_zone_and_date_style_of_the_caller_do_not_matter(caller: Caller, database: Database) -> None:
    await caller.sql("SET TIME ZONE 'America/St_Johns'")
    await caller.sql("SET DateStyle TO 'German'")
    ((_, _, at),) = await caller.run(partial(store, 1, SUMMER), database)
    assert at == SUMMER
    assert at.tzinfo is not None
    await caller.sql("COMMIT")
    ((_, _, kept),) = await database.read(everything)
    assert kept == SUMMER


async def test_nothing_is_prepared_on_the_callers_connection(kind: str, postgres_url: str, database: Database) -> None:
    caller = await connect(kind, postgres_url, prepare_threshold=0)
    for n in range(7):
        await caller.run(partial(add_answering, n), database)
    names = await caller.sql("SELECT statement FROM pg_prepared_statements WHERE statement LIKE '%note%'")
    assert [name for (name,) in names if "pg_prepared_statements" not in name] == []
    await caller.close()


async def test_a_search_path_of_the_callers_own_neither_hides_nor_shadows_the_boxs_tables(
    caller: Caller, database: Database
) -> None:
    await caller.sql("CREATE SCHEMA app")
    await caller.sql("CREATE TABLE app.note (id BIGINT, body TEXT)")
    await caller.sql("CREATE TEMPORARY TABLE note (id BIGINT, body TEXT)")
    await caller.sql("SET search_path TO app")
    await caller.run(partial(add, 1), database)
    with pytest.raises(psycopg.errors.UniqueViolation):
        await caller.run(partial(add, 1), database)
    assert await caller.sql("SHOW search_path") == [("app",)]
    assert await caller.sql("SELECT id FROM app.note") == []
    await caller.sql("COMMIT")
    assert await caller.sql("SHOW search_path") == [("app",)]
    assert await ids(database) == [1]


async def test_the_isolation_of_the_caller_stays_and_its_conflicts_are_its_own(
    kind: str, postgres_url: str, database: Database
) -> None:
    caller = await connect(kind, postgres_url)
    await caller.sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    await database.write(partial(add, 1))

    await caller.sql("SELECT count(*) FROM note")
    await database.write(partial(set_body, "ours"))
    with pytest.raises(psycopg.errors.SerializationFailure):
        await caller.run(partial(set_body, "theirs"), database)
    await caller.close()


async def test_a_transaction_block_on_an_autocommit_connection_is_joined(postgres_url: str, database: Database) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        with connection.transaction():
            run_on_blocking(connection, partial(add, 1), database)
        with connection.transaction(force_rollback=True):
            run_on_blocking(connection, partial(add, 2), database)
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as awaited, awaited.transaction():
        await run_on(awaited, partial(add, 3), database)
        async with awaited.transaction(force_rollback=True):
            await run_on(awaited, partial(add, 4), database)
    assert await ids(database) == [1, 3]


async def test_a_pipeline_of_the_callers_own_goes_on_around_it(postgres_url: str, database: Database) -> None:
    with psycopg.connect(postgres_url) as connection, connection.pipeline():
        connection.execute("INSERT INTO note (id, body) VALUES (1, 'theirs')")
        run_on_blocking(connection, partial(add_answering, 2), database)
        with pytest.raises(psycopg.errors.UniqueViolation):
            run_on_blocking(connection, partial(add_answering, 1), database)
        found = connection.execute("INSERT INTO note (id, body) VALUES (3, 'theirs') RETURNING id")
        assert found.fetchall() == [(3,)]
    async with await psycopg.AsyncConnection.connect(postgres_url) as awaited, awaited.pipeline():
        await awaited.execute("INSERT INTO note (id, body) VALUES (4, 'theirs')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            await run_on(awaited, partial(add, 4), database)
        await run_on(awaited, partial(add, 5), database)
    assert await ids(database) == [1, 2, 3, 4, 5]


async def test_what_fails_in_the_callers_own_pipeline_is_the_callers_error(
    postgres_url: str, database: Database
) -> None:
    with psycopg.connect(postgres_url) as connection, connection.pipeline():
        connection.execute("SELECT 1 / 0")
        with pytest.raises(psycopg.errors.DivisionByZero):
            run_on_blocking(connection, partial(add, 1), database)
        connection.rollback()
    assert await ids(database) == []


async def test_a_send_that_is_cancelled_leaves_the_callers_transaction_as_it_was(
    postgres_url: str, database: Database
) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        await connection.execute("INSERT INTO note (id, body) VALUES (2, 'theirs')")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await run_on(connection, asleep, database)
        await run_on(connection, partial(add, 3), database)
    assert await ids(database) == [2, 3]


async def test_a_transaction_is_usable_at_whichever_moment_a_send_in_it_was_cancelled(
    postgres_url: str, database: Database
) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        for turns in range(60):
            sending = asyncio.create_task(run_on(connection, partial(add_answering, turns), database))
            for _ in range(turns):
                await asyncio.sleep(0)
            sending.cancel()
            await asyncio.wait([sending])
            await run_on(connection, partial(add_answering, 1000 + turns), database)
    found = await ids(database)
    assert [number for number in found if number >= 1000] == [*range(1000, 1060)]
    assert 1 not in found


async def test_a_statement_timeout_of_the_caller_holds_and_says_so(caller: Caller, database: Database) -> None:
    await caller.sql("SET LOCAL statement_timeout TO 200")
    with pytest.raises(DatabaseBusy, match="too slow"):
        await caller.run(asleep, database)
    await caller.sql("SET LOCAL statement_timeout TO 0")
    await caller.run(partial(add, 2), database)
    await caller.sql("COMMIT")
    assert await ids(database) == [2]


async def test_a_connection_that_is_cut_off_says_that_its_transaction_is_gone(
    caller: Caller, postgres_url: str, database: Database
) -> None:
    await caller.run(partial(add, 1), database)
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (caller.connection.info.backend_pid,))
    with pytest.raises(Unavailable, match="was lost"):
        await caller.run(partial(add, 2), database)
    with pytest.raises(InvalidInput, match="is closed"):
        await caller.run(partial(add, 3), database)
    assert await ids(database) == []


async def test_after_a_restart_of_the_server_new_connections_are_joined(private_postgres: PostgresServer) -> None:
    url = private_postgres.url
    async with with_notes(url) as database:
        with psycopg.connect(url) as connection:
            await run_on(connection, partial(add, 1), database)
        await asyncio.to_thread(private_postgres.restart)
        with psycopg.connect(url) as connection:
            await run_on(connection, partial(add, 2), database)
            run_on_blocking(connection, partial(add, 3), database)
        assert await ids(database) == [1, 2, 3]


async def test_through_a_transaction_pooler_it_works_as_well(kind: str, postgres_url: str, scratch: Path) -> None:
    directory = scratch / f"pgbouncer-{uuid.uuid4().hex}"
    directory.mkdir()
    try:
        with transaction_pooler(postgres_url, directory) as url:
            async with with_notes(url) as database:
                caller = await connect(kind, url.partition("?")[0], prepare_threshold=None)
                await caller.run(partial(add, 1), database)
                await caller.sql("ROLLBACK")
                await caller.run(partial(add, 2), database)
                await caller.sql("COMMIT")
                await caller.close()
                assert await ids(database) == [2]
    except ServerMissing as missing:
        skip_or_fail(missing)
