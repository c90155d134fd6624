"""What an operator wants to know about a database before trusting it with messages."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pillarbox.errors import SchemaTooNew, Unavailable
from pillarbox.storage.backup import in_one_line
from pillarbox.storage.database import Database, Step
from pillarbox.storage.migrate import migrations, rehearse, schema_version
from pillarbox.storage.queries import load_queries
from pillarbox.storage.scratch import leftover_folders

if TYPE_CHECKING:
    import apsw

    from pillarbox.storage.postgres import PostgresDatabase
    from pillarbox.storage.sqlite import SqliteDatabase

_queries = load_queries("pillarbox.storage", "checkup.sql")

OLDEST_POSTGRES = 140_000
_MIB = 1024 * 1024
_LEAST_ROOM, _LITTLE_ROOM = 64 * _MIB, 1024 * _MIB
_CHECK_SECONDS = 5.0
_STEPS_BETWEEN_LOOKS = 100_000
_LARGEST_SKEW = 60.0
_MEND = "restore a backup with `pillarbox restore FILE`."
_NETWORK = (
    *("nfs", "cifs", "smb", "9p", "virtiofs", "afs", "ceph", "glusterfs", "lustre", "gpfs", "ocfs2", "gfs2", "beegfs"),
    *(
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.rclone",
        "fuse.glusterfs",
        "fuse.ceph",
        "fuse.gcsfuse",
        "fuse.juicefs",
        "fuse.smbnetfs",
    ),
)
_MOUNTS = Path("/proc/self/mounts")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; advice is `ok` and begins its detail with `warning:`."""

    name: str
    ok: bool
    detail: str


async def require_schema(database: Database) -> None:
    """Refuse a schema that this program does not fit; for whoever chose not to migrate."""
    found, known = await schema_version(database), _newest(database)
    if found > known:
        raise SchemaTooNew(f"This database is at schema {found} and this Pillarbox knows {known}; install a newer one.")
    if found < known:
        raise Unavailable(f"This database is at schema {found} and {known} is needed; run `pillarbox migrate`.")


async def checkup(database: Database) -> list[Finding]:
    """Look at everything; finds what is wrong instead of raising it."""
    from pillarbox.storage.sqlite import SqliteDatabase

    findings = [await _writable(database), await _schema(database)]
    if isinstance(database, SqliteDatabase):
        findings += await asyncio.to_thread(lambda: list(_sqlite(database)))
    else:
        findings += await _postgres(database)
    return findings + await asyncio.to_thread(lambda: list(_leftovers(database)))


async def _writable(database: Database) -> Finding:
    try:
        # Reading the version makes the table that the rehearsal writes to.
        await schema_version(database)
        await rehearse(database)
    except Unavailable as error:
        return Finding("database", False, str(error))
    return Finding("database", True, f"{database.dialect} takes writes")


async def _schema(database: Database) -> Finding:
    try:
        found, known = await schema_version(database), _newest(database)
    except Unavailable as error:
        return Finding("schema", False, str(error))
    if found > known:
        return Finding("schema", False, f"at {found}, and this Pillarbox knows {known}; install a newer one.")
    if found == 0:
        return Finding("schema", True, "warning: empty; `pillarbox migrate` or `pillarbox serve` sets it up.")
    if found < known:
        return Finding("schema", False, f"at {found}, and this Pillarbox needs {known}; run `pillarbox migrate`.")
    return Finding("schema", True, f"at {found}")


def _newest(database: Database) -> int:
    return migrations(database.dialect)[-1].version


def _sqlite(database: SqliteDatabase) -> Iterator[Finding]:
    import apsw

    from pillarbox.storage.sqlite_connection import MEMORY, connect

    yield Finding("sqlite", True, f"library {apsw.sqlite_lib_version()}")
    yield _clock((time.time() - database.clock.now().timestamp()), tolerated=float("inf"))
    if database.path == MEMORY:
        return
    file = Path(database.path).resolve()
    yield _room(file.parent)
    yield _mode(file)
    yield _file_system(file)
    connection = connect(str(file), busy_timeout=_CHECK_SECONDS)
    try:
        yield _pragmas(connection)
        yield _integrity(connection)
    finally:
        connection.close()


def _pragmas(connection: apsw.Connection) -> Finding:
    journal, synchronous = connection.pragma("journal_mode"), connection.pragma("synchronous")
    ok = (journal, synchronous) == ("wal", 2)
    found = f"journal_mode {journal}, synchronous {synchronous}"
    mend = "; wal and 2 are needed: run `PRAGMA journal_mode = wal` on the file, on a local disk."
    return Finding("pragmas", ok, found if ok else found + mend)


def _integrity(connection: apsw.Connection) -> Finding:
    import apsw

    deadline = time.monotonic() + _CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS)
    try:
        found = str(connection.execute("PRAGMA quick_check(1)").get)
    except apsw.InterruptError:
        return Finding("integrity", True, f"warning: the file is large; no fault in the first {_CHECK_SECONDS:g} s.")
    except apsw.Error as error:
        return Finding(
            "integrity",
            False,
            f"{type(error).__name__}: the file is damaged; {_MEND}",
        )
    finally:
        connection.set_progress_handler(None)
    return Finding(
        "integrity",
        found == "ok",
        "intact" if found == "ok" else f"damaged: {in_one_line(found)}; {_MEND}",
    )


def _room(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    if free < _LEAST_ROOM:
        return Finding("disk", False, f"only {_amount(free)} are free; make room, or `pillarbox prune`.")
    if free < _LITTLE_ROOM:
        return Finding("disk", True, f"warning: only {_amount(free)} are free; make room soon, or `pillarbox prune`.")
    return Finding("disk", True, f"{_amount(free)} free")


def _amount(free: int) -> str:
    return f"{free // 1024} KiB" if free < _MIB else f"{free // _MIB} MiB"


def _mode(file: Path) -> Finding:
    mode = stat.S_IMODE(file.stat().st_mode)
    advice = f"warning: other users may read it (mode {mode:04o}); chmod 600 it."
    return Finding("mode", True, advice if mode & 0o077 else f"{mode:04o}")


def _file_system(file: Path) -> Finding:
    kind = _kind_of_file_system(file)
    if kind.startswith(_NETWORK):
        return Finding("filesystem", True, f"warning: {kind} is a network file system; move the file to a local disk.")
    return Finding("filesystem", True, kind or "unknown")


def network_share_of(database: Database) -> str | None:
    """The kind of network file system that an SQLite file lies on, where locks and syncs may not hold what they promise."""
    path = getattr(database, "path", None)
    kind = _kind_of_file_system(Path(path).resolve()) if path and path != ":memory:" else ""
    return kind if kind.startswith(_NETWORK) else None


def _kind_of_file_system(file: Path) -> str:
    if not _MOUNTS.exists():
        return ""
    mounts = (line.split() for line in _MOUNTS.read_text(errors="replace").splitlines())
    holding = [(len(place), kind) for _, place, kind, *_ in mounts if os.path.commonpath([place, file]) == place]
    return max(holding, default=(0, ""))[1]


async def _postgres(database: Database) -> list[Finding]:
    if getattr(database, "cockroach", False):
        return [Finding("server", True, "CockroachDB")]

    def look() -> Step[tuple[float, tuple[str, int, str, str, str, float]]]:
        before = time.time()
        rows = yield _queries.server()
        return (before + time.time()) / 2, rows[0]

    try:
        here, (version, number, fsync, full_pages, synchronous, there) = await database.read(look)
    except Unavailable as error:
        return [Finding("server", False, str(error))]
    return [
        _server(version, number),
        _durability(fsync, full_pages),
        _commits(synchronous),
        _clock(here - there, tolerated=_LARGEST_SKEW),
    ]


def _leftovers(database: Database) -> Iterator[Finding]:
    """What a `pillarbox bench` that was killed left behind."""
    if path := getattr(database, "path", None):
        left = leftover_folders(path)
    else:
        from pillarbox.storage.scratch_schema import leftover_schemas

        try:
            left = leftover_schemas(cast("PostgresDatabase", database).address)
        except Unavailable:
            return
    if left:
        said = f"{', '.join(sorted(left))} was left by a `pillarbox bench` that was killed; the next one removes it."
        yield Finding("leftovers", True, f"warning: {said}")


def _server(version: str, number: int) -> Finding:
    ok = number >= OLDEST_POSTGRES
    return Finding("server", ok, f"PostgreSQL {version}" + ("" if ok else "; upgrade the server to 14 or newer."))


def _durability(fsync: str, full_pages: str) -> Finding:
    ok = (fsync, full_pages) == ("on", "on")
    found = f"fsync {fsync}, full_page_writes {full_pages}"
    mend = "; what is acknowledged can be lost: turn both on with ALTER SYSTEM, and reload the server."
    return Finding("durability", ok, found if ok else found + mend)


def _commits(synchronous: str) -> Finding:
    if synchronous == "off":
        detail = "warning: off for others than Pillarbox, which turns it on for itself"
        return Finding("synchronous_commit", True, detail)
    return Finding("synchronous_commit", True, synchronous)


def _clock(skew: float, *, tolerated: float) -> Finding:
    if abs(skew) < 1:
        return Finding("clock", True, "the wall clock and the database agree")
    said = (
        f"the wall clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the database; check that NTP runs."
    )
    return Finding("clock", abs(skew) <= tolerated, f"warning: {said}" if abs(skew) <= tolerated else said)
