"""Programs with a connection of their own to the box's database: psycopg, awaited or not, and apsw."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import apsw
import psycopg

from pillarbox.storage import Database, Work
from pillarbox.storage.foreign import run_on, run_on_blocking

T = TypeVar("T")

POSTGRES = ("psycopg", "psycopg blocking", "psycopg async")
SQLITE = ("apsw", "apsw blocking")
KINDS = (*POSTGRES, *SQLITE)


class Caller(Protocol):
    """A connection in a transaction, and what a program does with it."""

    connection: Any

    async def run(self, work: Work[T], database: Database) -> T: ...

    async def sql(self, text: str) -> list[Any]: ...

    async def close(self) -> None: ...


class Direct:
    """A connection that is used by plain calls; the step comes by either door."""

    def __init__(self, connection: Any, *, blocking: bool) -> None:
        self.connection = connection
        self._blocking = blocking

    async def run(self, work: Work[T], database: Database) -> T:
        if self._blocking:
            return run_on_blocking(self.connection, work, database)
        return await run_on(self.connection, work, database)

    async def sql(self, text: str) -> list[Any]:
        cursor = self.connection.execute(text)
        if isinstance(cursor, apsw.Cursor):
            return list(cursor)
        return cursor.fetchall() if cursor.description else []

    async def close(self) -> None:
        self.connection.close()


class Awaited:
    """A connection whose calls are awaited."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection

    async def run(self, work: Work[T], database: Database) -> T:
        return await run_on(self.connection, work, database)

    async def sql(self, text: str) -> list[Any]:
        cursor = await self.connection.execute(text.encode())
        return await cursor.fetchall() if cursor.description else []

    async def close(self) -> None:
        await self.connection.close()


async def connect(kind: str, url: str, **options: Any) -> Caller:
    """A connection of that kind; psycopg begins by itself, apsw is told to."""
    if kind in SQLITE:
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        connection.execute("BEGIN IMMEDIATE")
        return Direct(connection, blocking=kind == "apsw blocking")
    if kind == "psycopg async":
        return Awaited(await psycopg.AsyncConnection.connect(url, **options))
    return Direct(psycopg.connect(url, **options), blocking=kind == "psycopg blocking")


def watch_threads(caller: Caller, seen: Callable[[], None]) -> None:
    """Call `seen` on whichever thread talks to the database for this connection."""
    connection = caller.connection
    if isinstance(connection, apsw.Connection):

        def trace(*_: Any) -> bool:
            seen()
            return True

        connection.exec_trace = trace
        return
    waited = connection.wait

    def wait(*args: Any, **kwargs: Any) -> Any:
        seen()
        return waited(*args, **kwargs)

    connection.wait = wait
