"""A copy of an SQLite database that is in use: one state of it, whole, on disk before it has its name."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pillarbox.errors import InvalidInput, NotFound, Unavailable
from pillarbox.storage.strangers import require_no_stranger

if TYPE_CHECKING:
    import apsw

Progress = Callable[[int, int], None]

_PAGES_AT_ONCE = 256
_BUSY_SECONDS = 10.0
_DAMAGED = "nothing was copied: run `pillarbox doctor`, and restore an earlier backup with `pillarbox restore FILE`"


@dataclass(frozen=True, slots=True)
class Backup:
    """What was made: the copy, its size, and the copy of the key file where there is one."""

    file: str
    bytes: int
    key_file: str | None


def back_up(database: str, target: str, progress: Progress = lambda done, total: None) -> Backup:
    """Copy a database while others write to it; `progress` hears how many of how many pages are copied."""
    place = Path(target)
    if not Path(database).is_file():
        raise NotFound(f"There is no database at {database}; check --database.")
    require_no_stranger(database)
    require_free(place)
    with unfinished(place) as copy:
        _copy_pages(database, copy, progress)
        sync(copy)
        os.link(copy, place)
    key = _copy_key(key_file_of(Path(database)), key_file_of(place))
    sync(place.parent)
    return Backup(str(place), place.stat().st_size, key)


def dump(url: str, target: str) -> Backup:
    """Have a PostgreSQL database dumped while others write to it."""
    from pillarbox.storage import dump

    return dump.dump(url, target)


def require_free(place: Path) -> None:
    """Refuse to write over anything, or where there is no folder."""
    for file in (place, key_file_of(place)):
        if file.exists():
            raise InvalidInput("file", f"{file} exists already; name another one or move it away.")
    if not place.parent.is_dir():
        raise InvalidInput("file", f"the folder {place.parent} does not exist; make it first.")


def key_file_of(database: Path) -> Path:
    """Where the key is that seals what a database file holds."""
    return database.with_name(f"{database.name}.key")


def require_intact(connection: apsw.Connection, name: str, mend: str = "use another backup") -> None:
    """Refuse a file in which anything is out of place, and say how to go on."""
    import apsw

    try:
        found = str(connection.execute("PRAGMA integrity_check(1)").get)
    except apsw.Error as error:
        found = type(error).__name__
    if found != "ok":
        raise Unavailable(f"{name} is damaged ({in_one_line(found)}); {mend}.")


def in_one_line(found: str) -> str:
    """What SQLite found out of place, without its heading and line breaks."""
    return " ".join(found.replace("*** in database main ***", "").split())


def _copy_pages(database: str, copy: Path, progress: Progress) -> None:
    import apsw

    from pillarbox.storage.log_damage import connect_to_whole_log
    from pillarbox.storage.sqlite_connection import translated

    try:
        source, made = connect_to_whole_log(database, busy_timeout=_BUSY_SECONDS), apsw.Connection(str(copy))
        try:
            # A transaction that stays open keeps one state of the file; without it every commit would start the copy anew.
            source.execute("BEGIN; SELECT count(*) FROM sqlite_schema")
            with made.backup("main", source, "main") as copying:
                while not copying.done:
                    copying.step(_PAGES_AT_ONCE)
                    progress(copying.page_count - copying.remaining, copying.page_count)
            require_intact(made, str(database), _DAMAGED)
        finally:
            made.close()
            source.close()
    except apsw.Error as error:
        raise translated(error, database) from error


@contextmanager
def unfinished(place: Path) -> Iterator[Path]:
    """A private file beside the place, gone at the end, its logs too."""
    copy = place.with_name(f".{place.name}.{secrets.token_hex(4)}.unfinished")
    try:
        os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield copy
    except OSError as error:
        raise Unavailable(f"{place} cannot be written: {error.strerror}.") from error
    finally:
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{copy}{suffix}")


def _copy_key(key: Path, place: Path) -> str | None:
    if not key.exists():
        return None
    try:
        with unfinished(place) as copy:
            shutil.copyfile(key, copy)
            sync(copy)
            os.link(copy, place)
    except OSError as error:
        raise Unavailable(f"The key file {key} cannot be copied: {error.strerror}; copy it yourself.") from error
    return str(place)


def sync(path: Path) -> None:
    """Bring a file or a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
