"""Migrations: each once, whole or not at all, alike on both databases, and never an older program on a newer schema."""

import asyncio
from pathlib import Path

import pytest

from pillarbox.errors import SchemaTooNew
from pillarbox.storage import Database, Row, Step
from pillarbox.storage import migrate as module
from pillarbox.storage.migrate import Migration, migrate, migrations, schema_version
from pillarbox.storage.queries import parse_queries
from tests.contracts.notes import opened, start

pytestmark = pytest.mark.empty_database
NEWEST = migrations("sqlite")[-1].version


def run(sql: str) -> Step[list[Row]]:
    (query,) = parse_queries(f"-- name: one\n{sql}\n")
    return (yield query())


def made_up(version: int, *statements: str) -> Migration:
    queries = tuple(query for text in statements for query in parse_queries(f"-- name: statement\n{text}\n"))
    return Migration(version, f"{version:04}_made_up.sql", queries)


def also(monkeypatch: pytest.MonkeyPatch, extra: Migration) -> None:
    monkeypatch.setattr(module, "migrations", lambda dialect: [*migrations(dialect), extra])


async def applied(database: Database) -> list[int]:
    rows = await database.read(lambda: run("SELECT version FROM schema_migration WHERE version > 0 ORDER BY version"))
    return [row[0] for row in rows]


async def test_a_second_run_has_nothing_to_do(database_url: str) -> None:
    async with opened(database_url) as database:
        assert await schema_version(database) == 0
        names = await migrate(database)
        assert names == [migration.name for migration in migrations(database.dialect)]
        assert await migrate(database) == []
        assert await schema_version(database) == NEWEST


async def test_each_is_applied_once_when_five_processes_start_at_once(database_url: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from pillarbox.storage.migrate import migrate\n"
        "from tests.contracts.notes import opened, start\n"
        "async def main():\n"
        "    async with opened(sys.argv[1]) as database:\n"
        "        print(*await migrate(database))\n"
        "asyncio.run(main())\n"
    )
    processes = [start(program, database_url) for _ in range(5)]
    outputs = [await asyncio.to_thread(process.communicate) for process in processes]
    assert [error for _, error in outputs] == [b""] * 5
    names = b" ".join(output for output, _ in outputs).split()
    assert sorted(names) == sorted(migration.name.encode() for migration in migrations("sqlite"))


async def test_concurrent_runs_in_one_process_apply_each_once(database_url: str) -> None:
    async with opened(database_url) as one, opened(database_url) as two:
        done = await asyncio.gather(*(migrate(database) for database in (one, two, one, two, one)))
        assert sorted(name for names in done for name in names) == sorted(m.name for m in migrations(one.dialect))


async def test_a_migration_that_fails_leaves_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    also(monkeypatch, made_up(NEWEST + 1, "CREATE TABLE half (id BIGINT)", "INSERT INTO nowhere VALUES (1)"))
    async with opened(database_url) as database:
        with pytest.raises(Exception, match="nowhere"):
            await migrate(database)
        with pytest.raises(Exception, match="half"):
            await database.read(lambda: run("SELECT * FROM half"))
        assert await applied(database) == []
        monkeypatch.undo()
        await migrate(database)
        assert await schema_version(database) == NEWEST


async def test_a_migration_that_fails_later_leaves_the_schema_before_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(database_url) as database:
        await migrate(database)
        also(monkeypatch, made_up(NEWEST + 1, "CREATE TABLE half (id BIGINT)", "INSERT INTO nowhere VALUES (1)"))
        with pytest.raises(Exception, match="nowhere"):
            await migrate(database)
        assert await schema_version(database) == NEWEST


async def test_an_older_program_refuses_a_newer_schema(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(database_url) as database:
        also(monkeypatch, made_up(NEWEST + 1, "CREATE TABLE newer (id BIGINT)"))
        await migrate(database)
        monkeypatch.undo()
        with pytest.raises(SchemaTooNew, match=rf"schema {NEWEST + 1} and this Pillarbox knows {NEWEST}; install"):
            await migrate(database)


async def test_both_databases_have_the_same_tables_columns_and_indexes(sqlite_url: str, postgres_url: str) -> None:
    async with opened(sqlite_url) as sqlite, opened(postgres_url) as postgres:
        await migrate(sqlite)
        await migrate(postgres)
        columns = await sqlite.read(
            lambda: run(
                'SELECT t.name, c.name, c."notnull" OR c.pk > 0 FROM sqlite_schema t JOIN pragma_table_xinfo(t.name) c'
                " WHERE t.type IN ('table', 'view') AND t.name NOT LIKE 'sqlite_%' AND t.name <> 'boot_clock'"
            )
        )
        same = await postgres.read(
            lambda: run(
                "SELECT table_name, column_name, CASE is_nullable WHEN 'NO' THEN 1 ELSE 0 END"
                " FROM information_schema.columns WHERE table_schema = 'public'"
                " AND table_name NOT IN ('commit_mark', 'timeline')"
            )
        )
        assert sorted(columns) == sorted(same)
        indexes = await sqlite.read(
            lambda: run("SELECT tbl_name, name FROM sqlite_schema WHERE type = 'index' AND name LIKE 'idx%'")
        )
        same = await postgres.read(
            lambda: run("SELECT tablename, indexname FROM pg_indexes WHERE indexname LIKE 'idx%'")
        )
        assert sorted(indexes) == sorted(same)


def test_migrations_are_numbered_alike_without_gaps() -> None:
    names = [migration.name for migration in migrations("sqlite")]
    assert names == [migration.name for migration in migrations("postgres")]
    assert [migration.version for migration in migrations("sqlite")] == list(range(1, len(names) + 1))


def test_every_migration_file_is_found() -> None:
    folder = Path(module.__file__).parent / "migrations"
    for dialect in ("sqlite", "postgres"):
        files = sorted(file.name for file in (folder / dialect).glob("*.sql"))
        assert files == [migration.name for migration in migrations(dialect)]
        assert all(migration.statements for migration in migrations(dialect))
