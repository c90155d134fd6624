"""The databases to measure: a new SQLite file, and a PostgreSQL server of our own with fsync on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.servers.postgres import Postgres, PostgresServer


@dataclass(slots=True)
class Measured:
    """One kind of database; `fresh()` gives a new empty one."""

    name: str
    folder: Path
    server: Postgres | None = None
    _numbers: Iterator[int] = field(default_factory=count)

    def fresh(self) -> str:
        number = next(self._numbers)
        if self.server is None:
            return f"sqlite:///{self.folder / f'bench{number}.db'}"
        return self.server.create_database(f"bench{number}")


def databases(folder: Path, only: str | None) -> Iterator[Measured]:
    folder.chmod(0o755)
    if only != "postgres":
        yield Measured("sqlite", folder)
    if only != "sqlite":
        server = PostgresServer(folder / "postgres").start()
        try:
            yield Measured("postgres", folder, Postgres(server.url))
        finally:
            server.stop("immediate")
