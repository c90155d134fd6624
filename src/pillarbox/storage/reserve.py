"""Room on the disk that new work may not use up, so that what was begun can still be marked as done."""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import suppress

from pillarbox.errors import DatabaseFull

_PLENTY = 1024 * 1024 * 1024
_LOOK_SECONDS = 1.0
_LARGEST_SHARE = 8
_OUT_OF_ROOM = (errno.ENOSPC, errno.EDQUOT)
_PIECE = bytes(1024 * 1024)


class Reserve:
    """Watches the disk of one database file.

    While the disk has plenty nothing is done. When it runs short a file as large as the reserve is laid beside the database, half
    as much again must be free, and the write-ahead log is kept below half of it; otherwise no new work is taken. A mark that
    meets a full disk has that file deleted and takes its room: half of it for itself, half to bring the log home. The reserve
    is never more than an eighth of the disk; 0 turns it off.
    """

    def __init__(self, path: str, size: int) -> None:
        self._folder = os.path.dirname(os.path.abspath(path))
        self._log = f"{path}-wal"
        self._file = f"{path}-reserve"
        self._size = size
        self._plenty_until = 0.0
        self._longest_log: float = float("inf")
        self._guard = threading.Lock()

    def allows_new_work(self, spare: int = 0) -> bool:
        """Whether new work may be written now, given what is spare inside the file; lays the reserve aside if need be."""
        if not self._size or time.monotonic() < self._plenty_until:
            return True
        with self._guard:
            return self._look(spare)

    def require(self, spare: int = 0) -> None:
        """Raise `DatabaseFull` where new work must not be written."""
        if not self.allows_new_work(spare):
            raise DatabaseFull(
                "The disk is nearly full, and what is left of it is kept for finishing what was begun; make room and try again."
            )

    def wants_short_log(self) -> bool:
        """Whether the disk is short of room and the log longer than the reserve could bring home."""
        return self._longest_log != float("inf") and _size_of(self._log) > self._longest_log

    def release(self) -> bool:
        """Give up the reserve for marks; False where none was left."""
        with self._guard, suppress(OSError):
            os.unlink(self._file)
            return True
        return False

    def _look(self, spare: int) -> bool:
        try:
            disk = os.statvfs(self._folder)
        except OSError:
            # Whatever is wrong with the folder, the write itself will say it better.
            return True
        free, held = disk.f_bavail * disk.f_frsize, _size_of(self._file)
        if free >= _PLENTY:
            self._plenty_until, self._longest_log = time.monotonic() + _LOOK_SECONDS, float("inf")
            if held:
                with suppress(OSError):
                    os.unlink(self._file)
            return True
        size = min(self._size, disk.f_blocks * disk.f_frsize // _LARGEST_SHARE)
        self._longest_log = size // 2
        if self.wants_short_log() or free + held + spare < size + size // 2:
            return False
        return held >= size or self._lay_aside(size)

    def _lay_aside(self, size: int) -> bool:
        try:
            with open(self._file, "wb", opener=_privately) as file:
                for start in range(0, size, len(_PIECE)):
                    file.write(_PIECE[: size - start])
        except OSError as error:
            with suppress(OSError):
                os.unlink(self._file)
            return error.errno not in _OUT_OF_ROOM
        return True


def _privately(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _size_of(file: str) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0
