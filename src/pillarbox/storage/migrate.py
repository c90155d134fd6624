"""Numbered migrations: each applied once, under a lock, whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.resources import files

from pillarbox.errors import SchemaTooNew
from pillarbox.storage.database import Database, Step
from pillarbox.storage.queries import Query, load_queries, parse_queries

_queries = load_queries("pillarbox.storage", "migrate.sql")
_NAME = re.compile(r"(\d{4})_\w+\.sql")
_COLLATES = re.compile(r"\bCOLLATE\b")
_END = re.compile(r";\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file and its statements."""

    version: int
    name: str
    statements: tuple[Query, ...]


def migrations(dialect: str) -> list[Migration]:
    """The migrations that this program knows, in order."""
    folder = files("pillarbox.storage") / "migrations" / dialect
    found = []
    for file in folder.iterdir():
        if numbered := _NAME.fullmatch(file.name):
            pieces = (piece.strip() for piece in _END.split(file.read_text(encoding="utf-8")))
            texts = [f"-- name: statement\n{piece}\n" for piece in pieces if piece]
            statements = tuple(query for text in texts for query in parse_queries(text))
            found.append(Migration(int(numbered[1]), file.name, statements))
    return sorted(found, key=lambda migration: migration.version)


async def migrate(database: Database) -> list[str]:
    """Bring the schema up to date; answers the names of the migrations that this call applied."""
    await database.write(_prepare)
    known = migrations(database.dialect)
    if getattr(database, "cockroach", False):
        known = [_without_collations(migration) for migration in known]
    # Rebuilding a large table takes longer than any statement may otherwise, and so does waiting for whoever does it.
    write = getattr(database, "write_unlimited", database.write)
    done: list[str] = await write(lambda: _apply(known, database.clock.now))
    return done


async def schema_version(database: Database) -> int:
    """The newest migration applied, 0 for an empty database."""

    def work() -> Step[int]:
        yield _queries.create_table()
        rows = yield _queries.newest()
        return int(rows[0][0] or 0)

    return await database.write(work)


def _without_collations(migration: Migration) -> Migration:
    """CockroachDB orders text by its bytes in any case, and a column with a collation is of another type there."""
    kept = tuple(statement for statement in migration.statements if not _COLLATES.search(statement.postgres))
    return replace(migration, statements=kept)


def _prepare() -> Step[None]:
    yield _queries.create_table()
    yield _queries.create_lock()


def _apply(known: list[Migration], now: Callable[[], datetime]) -> Step[list[str]]:
    yield _queries.lock()
    applied = {int(version) for (version,) in (yield _queries.applied())}
    newest_known = known[-1].version
    if applied and max(applied) > newest_known:
        raise SchemaTooNew(
            f"This database is at schema {max(applied)} and this Pillarbox knows {newest_known}; install a newer one."
        )
    done = []
    for migration in known:
        if migration.version not in applied:
            for statement in migration.statements:
                yield statement()
            yield _queries.record(version=migration.version, name=migration.name, now=now())
            done.append(migration.name)
    return done


async def rehearse(database: Database) -> None:
    """Write for real, and nothing that anybody reads: raises whatever a message would meet."""

    def work() -> Step[None]:
        yield _queries.rehearse(now=database.clock.now())

    await database.write_new(work)
