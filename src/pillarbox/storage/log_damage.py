"""Damage in a write-ahead log, which SQLite takes for the log's end: the transactions behind it would be gone without a word.

A commit is on disk before the next transaction's first frame is written. So a commit that another frame goes on from was synced,
and where SQLite stops before one, that was no power cut. A log's layout is described at sqlite.org/fileformat.html#walformat.
"""

from __future__ import annotations

import os
import shlex
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import NoReturn

import apsw

from pillarbox.errors import UnsafeDatabase
from pillarbox.storage.sqlite_connection import MEMORY, connect

_HEADER = struct.Struct(">4I8s2I")
_FRAME = struct.Struct(">2I8s2I")
_MAGIC = 0x377F0682
# What a disk writes whole or not at all.
_SECTOR = 512
_NO_SALTS = bytes(8)

_Sum = tuple[int, int]


def connect_to_whole_log(path: str, *, busy_timeout: float) -> apsw.Connection:
    """A connection as by `connect`, or `UnsafeDatabase` where the log is damaged; the files stay as they are then."""
    connection = connect(path, busy_timeout=busy_timeout)
    if path != MEMORY and keeps_damaged_log(connection):
        _refuse(connection)
    return connection


def keeps_damaged_log(connection: apsw.Connection) -> bool:
    """Whether the log is damaged; then this connection does not bring it home when it is closed, which would delete it."""
    try:
        damaged = _is_damaged(connection)
    except (apsw.Error, OSError):
        # Whatever is wrong besides, whoever uses the connection says better.
        return False
    if damaged:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return damaged


def _refuse(connection: apsw.Connection) -> NoReturn:
    file, log = connection.filename, connection.filename_wal
    connection.close()
    bring_home = shlex.join([sys.executable, "-m", "apsw", file, "PRAGMA wal_checkpoint(TRUNCATE)"])
    raise UnsafeDatabase(
        f"{log} is damaged, so that messages acknowledged since the last checkpoint may be lost; stop whatever uses {file}, "
        "copy it and the files beside it away, and restore a backup with `pillarbox restore FILE`, "
        f"or go on without what lies behind the damage: `{bring_home}`."
    )


def _is_damaged(connection: apsw.Connection) -> bool:
    # Whoever is the first to read has SQLite look for the log's end.
    connection.pragma("schema_version")
    page_size = int(connection.pragma("page_size"))
    committed = _committed(connection)
    # The log's own file may be opened and closed: SQLite's locks are on the others.
    file = os.open(connection.filename_wal, os.O_RDONLY | os.O_CLOEXEC)
    try:
        header = os.pread(file, _HEADER.size, 0)
        damaged = any(_lacks_commits(log, committed) for log in _readings(file, header, page_size))
        still = os.pread(file, _HEADER.size, 0) == header
    finally:
        os.close(file)
    # Others may have committed, or begun the log anew, while it was looked at.
    return damaged and still and _committed(connection) == committed


def _committed(connection: apsw.Connection) -> int:
    """The last frame that counts for SQLite."""
    _, frames, _ = connection.execute("PRAGMA wal_checkpoint(noop)").get
    return int(frames)


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame's header; `pages` is not zero where it ends a transaction."""

    number: int
    page: int
    pages: int
    salts: bytes
    sum: _Sum


@dataclass(frozen=True, slots=True)
class _Log:
    """A log's file and how to read it; without salts where its header is damaged, and SQLite reads nothing of it."""

    file: int
    page_size: int
    order: str
    begin: _Sum
    salts: bytes | None

    def frame(self, number: int) -> _Frame | None:
        if number == 0:
            return _Frame(0, 0, 0, self.salts or _NO_SALTS, self.begin)
        head = os.pread(self.file, _FRAME.size, self.place(number))
        if len(head) < _FRAME.size:
            return None
        page, pages, salts, *sum_ = _FRAME.unpack(head)
        return _Frame(number, page, pages, salts, (sum_[0], sum_[1]))

    def place(self, number: int) -> int:
        return _HEADER.size + (number - 1) * (_FRAME.size + self.page_size)

    def ours(self, first: int) -> Iterator[int]:
        """The frames from there on that were written since the log was begun; most of it is often room, or older."""
        salts, place, step = self.salts, self.place(first) + 8, self.place(2) - self.place(1)
        for number in count(first):
            found = os.pread(self.file, 8, place)
            if len(found) < 8:
                return
            if found == salts or (salts is None and found != _NO_SALTS):
                yield number
            place += step

    def goes_on(self, frame: _Frame) -> bool:
        """Whether its checksum is made of the one before it and of what it says itself."""
        before = self.frame(frame.number - 1)
        content = os.pread(self.file, _FRAME.size + self.page_size, self.place(frame.number))
        if before is None or len(content) < _FRAME.size + self.page_size:
            return False
        return _sum(self.order, content[_FRAME.size :], _sum(self.order, content[:8], before.sum)) == frame.sum


def _readings(file: int, header: bytes, page_size: int) -> Iterator[_Log]:
    """How the frames are to be read; a damaged header leaves open in which order the bytes of their numbers are summed up."""
    if len(header) < _HEADER.size:
        return
    magic, _, size, _, salts, *sum_ = _HEADER.unpack(header)
    order = ">" if magic & 1 else "<"
    begin = (sum_[0], sum_[1])
    if magic | 1 == _MAGIC | 1 and _sum(order, header[:24], (0, 0)) == begin:
        yield _Log(file, size, order, begin, salts)
    else:
        yield from (_Log(file, page_size, each, (0, 0), None) for each in "<>")


def _sum(order: str, content: bytes, begin: _Sum) -> _Sum:
    """SQLite's checksum of some content, going on from another."""
    one, two = begin
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two


def _lacks_commits(log: _Log, committed: int) -> bool:
    """Whether a commit behind the last that counts was synced, and something before it does not let SQLite get there."""
    if log.salts is None and committed:
        # Somebody read it while it was whole, and can still bring it home.
        return False
    pairs = ((log.frame(number - 1), log.frame(number)) for number in log.ours(committed + 2))
    return any(end and after and _was_synced(log, end, after) for end, after in pairs) and _stops_behind(log, committed)


def _was_synced(log: _Log, end: _Frame, after: _Frame) -> bool:
    """Whether a frame ends a transaction, and the other was written after it."""
    # Half of a header that lies in two sectors may be what was there before: then only the checksum tells.
    in_one_sector = log.place(end.number) % _SECTOR <= _SECTOR - _FRAME.size
    return end.pages > 0 and ((end.salts == after.salts and in_one_sector) or log.goes_on(end)) and log.goes_on(after)


def _stops_behind(log: _Log, committed: int) -> bool:
    """Whether SQLite would find no further commit: if it would, the log was about to be begun anew, and all of it is home."""
    if log.salts is None:
        return True
    for number in count(committed + 1):
        frame = log.frame(number)
        if frame is None or frame.salts != log.salts or not frame.page or not log.goes_on(frame):
            return True
        if frame.pages:
            return False
    return True
