"""Running receivers as agents do, and looking at what became of their events."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import psycopg

from pillarbox.hooks import pickup, spool
from pillarbox.storage.migrate import migrate
from pillarbox.storage.postgres import PostgresDatabase
from pillarbox.storage.sqlite import SqliteDatabase
from tests.servers.daemon import SECONDS, environment

PROGRAM = str(Path(sys.executable).with_name("pillarbox"))
HOOK = [PROGRAM, "hook"]
# One that waits for a busy machine's database, where another would leave its event in the spool after a second.
_WAITING = """from pillarbox.__main__ import main
from pillarbox.hooks import receiver, store
receiver.RESCUE_SECONDS = store.DATABASE_SECONDS = 60
main()"""
PATIENT_HOOK = [sys.executable, "-c", _WAITING, "hook"]


async def migrate_at(url: str) -> None:
    path = spool.sqlite_path(url)
    database = PostgresDatabase(url) if path is None else SqliteDatabase(path)
    await migrate(database)
    await database.close()


def hook(
    *arguments: str,
    event: object = None,
    stdin: bytes | None = None,
    session: str | None = None,
    program: Sequence[str] = HOOK,
    **environ: str,
) -> None:
    """Run a receiver as an agent does: it succeeds and says nothing, always."""
    if session is not None:
        environ["PILLARBOX_SESSION"] = session
    given = json.dumps(event).encode() if stdin is None else stdin
    done = subprocess.run(
        [*program, *arguments],
        input=given,
        env=environment({}, environ),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


patient_hook = partial(hook, program=PATIENT_HOOK)


def tool(number: int | str, native: str | None = None) -> dict[str, object]:
    event: dict[str, object] = {"hook_event_name": "PreToolUse", "tool_name": f"tool-{number}"}
    return event | ({"session_id": native} if native else {})


def query(database: str | Path, sql: str) -> list[Any]:
    url = f"sqlite:///{database}" if isinstance(database, Path) else database
    path = spool.sqlite_path(url)
    if path is None:
        with psycopg.connect(url, autocommit=True) as server:
            cursor = server.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []
    connection = apsw.Connection(path)
    try:
        return list(connection.execute(sql))
    finally:
        connection.close()


def stored(database: str | Path) -> list[tuple[str, int, str]]:
    """Session, seq and the tool of each event in the database."""
    rows = query(database, "SELECT session_id, seq, payload FROM hook_outbox ORDER BY id")
    return [(session, seq, json.loads(payload).get("tool_name")) for session, seq, payload in rows]


def spooled(folder: str | Path) -> list[dict[str, Any]]:
    """What waits in a spool, left where it is."""
    return [record for batch in pickup.take(str(folder)) for record in batch.records]


def spooled_tools(folder: str | Path) -> list[str]:
    return [record["payload"]["tool_name"] for record in spooled(folder)]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process's writer that does not let go, as far as SQLite can tell."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def open_session(database: str | Path, session: str, native: str, at: str, status: str = "active") -> None:
    query(
        database,
        f"""INSERT INTO sessions (session_id, lifecycle_status, target, native_session_id, created_at, updated_at)
            VALUES ('{session}', '{status}', '{{}}', '{native}', '2026-01-0{at}T00:00:00.000000Z',
                    '2026-01-01T00:00:00.000000Z')""",
    )
