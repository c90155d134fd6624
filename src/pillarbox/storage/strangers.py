"""SQLite files of other programs: noticed without changing a byte of them."""

from __future__ import annotations

import os
from urllib.parse import quote

from pillarbox.errors import InvalidInput

# Whoever opens a file for the first time makes one of these before anything else.
_OURS = {"boot_clock", "schema_migration"}


def require_no_stranger(path: str) -> None:
    """Refuse a file that holds tables and none of ours; whatever else is wrong with it, opening it says better."""
    if path == ":memory:" or not _holds_something(path):
        return
    tables = _tables(path)
    if tables and not tables & _OURS:
        raise InvalidInput(
            "database",
            f"{path} belongs to another program: it has tables, and none of Pillarbox's; "
            "name another file with --database or PILLARBOX_DATABASE.",
        )


def _holds_something(path: str) -> bool:
    try:
        return os.path.isfile(path) and os.stat(path).st_size > 0
    except OSError:
        return False


def _tables(path: str) -> set[str]:
    import apsw

    # Where there is no log, the file is all there is, and no lock or index of a log need be made to read it.
    how = "mode=ro" if os.path.exists(f"{path}-wal") else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        connection = apsw.Connection(f"file:{quote(os.path.abspath(path))}?{how}", flags=flags)
        try:
            names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            return {name for (name,) in names if not name.startswith("sqlite_")}
        finally:
            connection.close()
    except (apsw.Error, UnicodeDecodeError):
        return set()
