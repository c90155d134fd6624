"""Putting a backup in the place of an SQLite database that nobody uses, and saying before what that would do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pillarbox.errors import InvalidInput, NotFound, Refused, SchemaTooNew, Unavailable
from pillarbox.storage.backup import key_file_of, require_intact, sync
from pillarbox.storage.migrate import migrations
from pillarbox.storage.queries import load_queries
from pillarbox.storage.since_backup import Since, TakenOver, compare, take_over

if TYPE_CHECKING:
    import apsw

_queries = load_queries("pillarbox.storage", "restore.sql")
WAITING = {
    "inbound": _queries.waiting_inbound,
    "hooks": _queries.waiting_hooks,
    "outbound": _queries.waiting_outbound,
}
_BUSY_SECONDS = 1.0
_IN_USE = "The database {} is in use; stop `pillarbox serve` and whatever else uses it, then try again."
_PROCESSES = Path("/proc")


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits in a backup in one state of one pipe."""

    pipe: str
    state: str
    count: int
    oldest: str
    newest: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What restoring a backup would do.

    `waiting` would be delivered. There is no `file` where a server's own tools have restored the database already. `since` is
    what the database that is replaced knows better; None where there is no such database, and where it cannot be read
    (`unreadable`). A backup that was begun with a key which lies neither beside it nor beside the database `lacks_key`.
    """

    file: str | None
    database: str
    waiting: tuple[Waiting, ...]
    since: Since | None
    unreadable: bool
    lacks_key: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    """Where the old database is kept, and its key if the backup has another, and what was taken over; None for nothing."""

    kept: str | None
    kept_key: str | None
    taken_over: TakenOver | None


def plan_restore(file: str, database: str) -> Plan:
    """Look into a backup and at what it would replace, changing neither."""
    import apsw

    if not Path(file).is_file():
        raise NotFound(f"There is no backup at {file}; check its name.")
    if os.path.realpath(file) == os.path.realpath(database):
        raise InvalidInput("file", "is the database itself; name a backup of it.")
    if (log := Path(f"{file}-wal")).exists() and log.stat().st_size:
        raise Unavailable(
            f"{file} has a log beside it, so that it alone is not whole; make backups with `pillarbox backup`."
        )
    try:
        with _looking_into(file) as backup:
            require_intact(backup, file)
            _require_known(backup, file)
            waiting = tuple(_waiting(backup))
            since = _compare(file, database)
            lacks_key = _remembers_key(backup) and not any(
                key_file_of(Path(each)).exists() for each in (file, database)
            )
    except apsw.Error as error:
        raise Unavailable(f"{file} is no backup of Pillarbox that can be read ({type(error).__name__}).") from error
    unreadable = since is None and Path(database).is_file()
    return Plan(file, database, waiting, since, unreadable=unreadable, lacks_key=lacks_key)


def restore(plan: Plan) -> Restored:
    """Put the backup in the database's place, with what was said since about who may be written to and who may come in.

    Raises `Refused` while anybody uses the database.
    """
    if plan.file is None:
        raise InvalidInput("file", "is missing; name a backup.")
    place = Path(plan.database)
    unfinished = place.with_name(f".{place.name}.unfinished")
    try:
        _copy_privately(Path(plan.file), unfinished)
        with _alone_with(place) as old:
            taken_over = None if old is None else take_over(old, unfinished)
            sync(unfinished)
            kept, kept_key = _move_aside(place, key_file_of(Path(plan.file)))
            os.replace(unfinished, place)
            _put_key(key_file_of(Path(plan.file)), key_file_of(place))
            sync(place.parent)
    except OSError as error:
        raise Unavailable(f"{place} cannot be replaced: {error.strerror}.") from error
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{unfinished}{suffix}")
    return Restored(kept, kept_key, taken_over)


def look_at_restored(url: str, old: str | None) -> Plan:
    """What a PostgreSQL database that was restored will deliver, and what the old one knows better; changes neither."""
    from pillarbox.storage import restored

    return restored.look_at_restored(url, old)


def take_over_from(old: str, url: str) -> Restored:
    """Write into a restored PostgreSQL database what was said in the old one since."""
    from pillarbox.storage import restored

    return restored.take_over_from(old, url)


@contextmanager
def _looking_into(file: str) -> Iterator[apsw.Connection]:
    """A connection to a backup that writes neither to it nor beside it."""
    import apsw

    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with closing(apsw.Connection(_untouched(file), flags=flags)) as connection:
        yield connection


def _untouched(file: str) -> str:
    return f"{Path(file).resolve().as_uri()}?immutable=1&mode=ro"


def _require_known(backup: apsw.Connection, file: str) -> None:
    found, known = backup.execute(_queries.version.sqlite).get, migrations("sqlite")[-1].version
    if found > known:
        raise SchemaTooNew(f"{file} is at schema {found} and this Pillarbox knows {known}; install a newer one.")


def _remembers_key(backup: apsw.Connection) -> bool:
    import apsw

    with suppress(apsw.SQLError):
        return bool(backup.execute(_queries.remembers_key.sqlite).get)
    return False


def _waiting(backup: apsw.Connection) -> Iterator[Waiting]:
    import apsw

    for pipe, waiting in WAITING.items():
        # An older schema has fewer pipes.
        with suppress(apsw.SQLError):
            yield from (Waiting(pipe, *row) for row in backup.execute(waiting.sqlite))


def _compare(file: str, database: str) -> Since | None:
    import apsw

    from pillarbox.storage.log_damage import keeps_damaged_log

    if not Path(database).is_file():
        return None
    try:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
        with closing(apsw.Connection(database, flags=flags)) as current:
            keeps_damaged_log(current)
            current.execute("ATTACH ? AS backup", (_untouched(file),))
            return compare(current)
    except apsw.Error:
        # A database that is restored over is often one that cannot be read any more.
        return None


@contextmanager
def _alone_with(database: Path) -> Iterator[apsw.Connection | None]:
    """Hold a database that nobody else has open, its log brought home; a damaged one is only looked for in processes."""
    import apsw

    if not database.exists():
        yield None
        return
    connection = apsw.Connection(str(database))
    try:
        connection.set_busy_timeout(int(_BUSY_SECONDS * 1000))
        # Leaving WAL takes the whole file for itself, and does not succeed while anybody has it open.
        if connection.pragma("journal_mode", "delete") != "delete":
            raise Refused(_IN_USE.format(database))
        connection.execute("BEGIN EXCLUSIVE")
    except (apsw.BusyError, apsw.LockedError):
        connection.close()
        raise Refused(_IN_USE.format(database)) from None
    except apsw.Error:
        if _is_open_somewhere(database):
            connection.close()
            raise Refused(_IN_USE.format(database)) from None
    try:
        yield connection
    finally:
        connection.close()


def _is_open_somewhere(database: Path) -> bool:
    """Whether another process has the file open, as far as this one may see."""
    wanted = os.stat(database)
    for process in _PROCESSES.glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    if os.path.samestat(descriptor.stat(), wanted):
                        return True
    return False


def _move_aside(database: Path, new_key: Path) -> tuple[str | None, str | None]:
    """Keep the old database, its logs and its key under another name; a key without a database too, if it is another one."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    kept = database.with_name(f"{database.name}.before-{stamp}")
    number = 1
    while kept.exists() or key_file_of(kept).exists():
        number += 1
        kept = database.with_name(f"{database.name}.before-{stamp}-{number}")
    key, there = key_file_of(database), database.exists()
    replaced = new_key.exists() and key.exists() and key.read_bytes() != new_key.read_bytes()
    if replaced or (there and key.exists()):
        _copy_privately(key, key_file_of(kept))
    for suffix in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            os.rename(f"{database}{suffix}", f"{kept}{suffix}")
    return str(kept) if there else None, str(key_file_of(kept)) if replaced else None


def _put_key(key: Path, place: Path) -> None:
    """Put the backup's key in place, whole or not at all."""
    if not key.exists():
        return
    copy = place.with_name(f".{place.name}.unfinished")
    try:
        _copy_privately(key, copy)
        os.replace(copy, place)
    finally:
        with suppress(OSError):
            os.unlink(copy)


def _copy_privately(file: Path, place: Path) -> None:
    with suppress(FileNotFoundError):
        os.unlink(place)
    with open(place, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as copy, file.open("rb") as original:
        shutil.copyfileobj(original, copy)
        copy.flush()
        os.fsync(copy.fileno())
