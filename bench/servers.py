"""The stores to measure: a new SQLite file, servers of our own that write to their disks, and memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tests.servers.postgres import Postgres, PostgresServer
from tests.servers.redis import running_redis

STORES = ("sqlite", "postgres", "redis", "memory")


@dataclass(slots=True)
class Measured:
    """One kind of store; `fresh()` gives a new empty one, except on Redis, where keys must differ."""

    name: str
    folder: Path
    server: Postgres | str | None = None
    _numbers: Iterator[int] = field(default_factory=count)

    def fresh(self) -> str:
        number = next(self._numbers)
        if isinstance(self.server, Postgres):
            return self.server.create_database(f"bench{number}")
        return self.server or f"sqlite:///{self.folder / f'bench{number}.db'}"


def databases(folder: Path, wanted: Collection[str]) -> Iterator[Measured]:
    folder.chmod(0o755)
    if "sqlite" in wanted:
        yield Measured("sqlite", folder)
    if "postgres" in wanted:
        server = PostgresServer(folder / "postgres").start()
        try:
            yield Measured("postgres", folder, Postgres(server.url))
        finally:
            server.stop("immediate")
    if "redis" in wanted:
        with running_redis(folder / "redis") as url:
            yield Measured("redis", folder, url)
    if "memory" in wanted:
        yield Measured("memory", folder, "memory:")
