"""Room in the write-ahead log, laid out before it is needed: a sync is quicker where the file need not become longer.

A log that has been in use for a while is as long as it gets, and is written again from its beginning; a new one is not.
"""

from __future__ import annotations

import os
from contextlib import suppress

import apsw

from pillarbox.storage.whereabouts import Whereabouts

ROOM = 16 * 1024 * 1024
_PIECE = bytes(256 * 1024)
# Where the disk has less than this to spare, room is worth more elsewhere.
_PLENTY = 64 * ROOM


def lay_out(connection: apsw.Connection, path: str, opened: Whereabouts) -> bool:
    """Lengthen the log by some zeros, which SQLite takes for nothing that was committed; whether it is still short.

    Not by all at once: nobody should wait long for the lock, nor a process that is stopped just then be likely to have it.
    """
    log = f"{path}-wal"
    # Whatever is wrong, the thread that writes must go on.
    with suppress(Exception):
        if _is_short(log):
            _lengthen(connection, log, opened)
            if _is_short(log):
                return True
            # Without the lock, for it takes its time.
            with open(log, "rb") as file:
                os.fsync(file.fileno())
    return False


def _is_short(log: str) -> bool:
    disk = os.statvfs(os.path.dirname(os.path.abspath(log)))
    return disk.f_bavail * disk.f_frsize >= _PLENTY and os.stat(log).st_size < ROOM


def _lengthen(connection: apsw.Connection, log: str, opened: Whereabouts) -> None:
    """Behind its end, and while nobody else can write to it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # The log's own file may be opened and closed: SQLite's locks are on the others.
        with open(log, "r+b", buffering=0) as file:
            # What lies there by now may be another's, of which this lock says nothing.
            opened.require()
            end = file.seek(0, os.SEEK_END)
            try:
                file.write(_PIECE[: max(0, ROOM - end)])
            except OSError:
                file.truncate(end)
                raise
    finally:
        connection.execute("ROLLBACK")
