"""Which psycopg connections cannot be joined, and what is said of them."""

from collections.abc import AsyncIterator
from functools import partial

import psycopg
import pytest
from psycopg import sql

from pillarbox.errors import InvalidInput
from pillarbox.storage import Database
from pillarbox.storage.foreign import run_on, run_on_blocking
from tests.contracts.callers import POSTGRES, Caller, connect
from tests.contracts.notes import add, ids, opened, with_notes
from tests.servers.postgres import Postgres, PostgresServer


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


async def test_a_pipeline_outside_any_transaction_is_refused(postgres_url: str, database: Database) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection, connection.pipeline():
        connection.execute("SELECT 1")
        with pytest.raises(InvalidInput, match="is in no transaction"):
            run_on_blocking(connection, partial(add, 1), database)
    assert await ids(database) == []


async def test_a_transaction_that_has_failed_is_refused(caller: Caller, database: Database) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        await caller.sql("SELECT 1 / 0")
    with pytest.raises(InvalidInput, match="has failed; roll it back") as refusal:
        await caller.run(partial(add, 1), database)
    assert refusal.value.field == "connection"


async def test_a_connection_outside_a_transaction_is_refused(kind: str, postgres_url: str, database: Database) -> None:
    caller = await connect(kind, postgres_url, autocommit=True)
    with pytest.raises(InvalidInput, match="is in no transaction; begin one first"):
        await caller.run(partial(add, 1), database)
    await caller.close()
    with pytest.raises(InvalidInput, match="is closed"):
        await caller.run(partial(add, 1), database)


async def test_a_connection_in_the_middle_of_a_statement_is_refused(postgres_url: str, database: Database) -> None:
    text = "COPY note (id, body) FROM STDIN"
    with psycopg.connect(postgres_url) as connection, connection.cursor().copy(text) as copy:
        with pytest.raises(InvalidInput, match="is busy with another statement"):
            run_on_blocking(connection, partial(add, 1), database)
        copy.write_row((2, "theirs"))
    assert await ids(database) == [2]


async def test_a_transaction_that_only_reads_is_refused(caller: Caller, database: Database) -> None:
    await caller.sql("SET TRANSACTION READ ONLY")
    with pytest.raises(InvalidInput, match="only reads; begin one that may write"):
        await caller.run(partial(add, 1), database)
    assert await caller.sql("SELECT 1") == [(1,)]


async def test_an_encoding_that_cannot_hold_every_text_is_refused(caller: Caller, database: Database) -> None:
    await caller.sql("SET client_encoding TO 'LATIN1'")
    with pytest.raises(InvalidInput, match="client encoding UTF8"):
        await caller.run(partial(add, 1, "€"), database)


async def test_a_role_without_rights_on_the_tables_is_told_so(caller: Caller, database: Database) -> None:
    role = sql.Identifier(f"guest_{caller.connection.info.backend_pid}").as_string()
    await caller.sql(f"CREATE ROLE {role}")
    await caller.sql(f"SET LOCAL ROLE {role}")
    with pytest.raises(InvalidInput, match="its role may not write"):
        await caller.run(partial(add, 1), database)
    await caller.sql("ROLLBACK")


async def test_a_copy_of_the_database_is_refused(kind: str, postgres: Postgres, postgres_url: str) -> None:
    name = postgres_url.rpartition("/")[2]
    async with with_notes(postgres_url):
        pass
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        copy, template = sql.Identifier(f"{name}_copy"), sql.Identifier(name)
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(copy, template))
    async with opened(postgres_url) as database:
        caller = await connect(kind, postgres_url.replace(name, f"{name}_copy"))
        with pytest.raises(InvalidInput, match="another database than this box"):
            await caller.run(partial(add, 1), database)
        assert await caller.sql("SELECT count(*) FROM note") == [(0,)]
        await caller.close()
    postgres.drop_database(f"{name}_copy")


async def test_a_database_without_the_tables_is_refused(postgres: Postgres, postgres_url: str) -> None:
    async with with_notes(postgres_url) as database:
        with psycopg.connect(postgres.url) as connection, pytest.raises(InvalidInput, match="another database"):
            await run_on(connection, partial(add, 1), database)


async def test_the_same_names_on_another_server_are_refused(
    private_postgres: PostgresServer, postgres_url: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    there = Postgres(private_postgres.url).create_database(name)
    async with with_notes(postgres_url) as database, with_notes(there):
        with psycopg.connect(there) as connection, pytest.raises(InvalidInput, match="another database"):
            await run_on(connection, partial(add, 1), database)
        assert await ids(database) == []


async def test_an_asynchronous_connection_is_refused_where_nobody_awaits(postgres_url: str, database: Database) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        with pytest.raises(InvalidInput, match="is asynchronous and this call is not"):
            run_on_blocking(connection, partial(add, 1), database)
