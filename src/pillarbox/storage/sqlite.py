"""SQLite: one writer thread, group commit, a savepoint for each caller, and readers beside it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import apsw

from pillarbox.clock import Clock
from pillarbox.errors import Unavailable
from pillarbox.storage.boot import boot_clock
from pillarbox.storage.database import News, Work
from pillarbox.storage.doorbell import Doorbell
from pillarbox.storage.ear import Ear
from pillarbox.storage.log_damage import connect_to_whole_log
from pillarbox.storage.log_watch import LogWatch
from pillarbox.storage.owner import Owner
from pillarbox.storage.reserve import Reserve
from pillarbox.storage.sqlite_connection import MEMORY, connect, read_snapshot, require_safe_library
from pillarbox.storage.standing import Standing
from pillarbox.storage.whereabouts import Whereabouts
from pillarbox.storage.writer import Writer

T = TypeVar("T")

_READERS = 2


class SqliteDatabase:
    """One SQLite file, shared with any number of other processes; or a private one in memory."""

    dialect = "sqlite"
    many_writers = False
    clock: Clock

    def __init__(self, path: str, *, busy_timeout: float = 10.0, reserve_bytes: int = 0) -> None:
        require_safe_library()
        # Some connections are made later, when the process may work in another folder.
        self.path = path = path if path == MEMORY else os.path.abspath(path)
        self._busy_timeout = busy_timeout
        self._closed = False
        self._owner = Owner()
        self._rung: list[Callable[[News], None]] = []
        self._log_watch: LogWatch | None = None
        self._doorbell: Doorbell | None = None
        self._rested = False
        self.reserve = Reserve(path, 0 if path == MEMORY else reserve_bytes)
        self._writer = Writer(
            partial(connect_to_whole_log, path, busy_timeout=busy_timeout),
            reserve=self.reserve,
            watch=self._changed_elsewhere,
            ring=self._ring_others,
        )
        self._doorbell = None if path == MEMORY else Doorbell.of(path)
        self._ear: Ear | None = None
        if self._doorbell is not None:
            self._ear = Ear(path, self._doorbell, self._writer.stand, self._writer.look_out)
        self._whereabouts = None if path == MEMORY else Whereabouts(path)
        self._local = threading.local()
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="pillarbox-read")
        self.clock = boot_clock(self)

    @property
    def waiting(self) -> int:
        return self._writer.waiting

    async def write(self, work: Work[T]) -> T:
        return await self._writer.submit(work, asyncio.get_running_loop())

    async def write_new(self, work: Work[T], *, pipe: str | None = None) -> T:
        if self._whereabouts is not None:
            self._whereabouts.require()
        return await self._writer.submit_new(work, asyncio.get_running_loop())

    def write_blocking(self, work: Work[T]) -> T:
        return self._writer.submit_blocking(work)

    async def read(self, work: Work[T]) -> T:
        if self.path == MEMORY:
            return await self.write(work)
        self._owner.require()
        if self._closed:
            raise Unavailable("The database is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._readers, self.read_blocking, work)

    def read_blocking(self, work: Work[T]) -> T:
        if self.path == MEMORY:
            return self.write_blocking(work)
        return read_snapshot(self._reader(), work)

    def ring(self, pipe: str = "") -> None:
        """Nothing to do: who brings something new rings, and of all else other processes see the file's data version change."""

    def watch(self, rung: Callable[[News], None]) -> None:
        self._rung.append(rung)
        if self._log_watch is None and self.path != MEMORY:
            self._log_watch = LogWatch(self.path, self._writer.look_out)

    def stand_by(
        self, pipe: str, work: Work[T], *, ready: Callable[[], None], look: Work[T | None] | None = None
    ) -> Standing[T] | None:
        if self._log_watch is None:
            return None
        if not self._rested:
            self._rested = True
            self._writer.lay_out()
        if self._ear is not None:
            self._ear.listen()
        return self._writer.stand.put(pipe, Standing(work, ready=ready, look=look))

    async def tend(self) -> None:
        """Nothing needs tending between commits."""

    async def close(self) -> None:
        self._closed = True
        if self._log_watch is not None:
            self._log_watch.close()
        await asyncio.to_thread(self._writer.close)
        if self._ear is not None:
            self._ear.close()
        await asyncio.to_thread(self._readers.shutdown)

    def _reader(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self.path, busy_timeout=self._busy_timeout)
            connection.pragma("query_only", 1)
        return connection

    def _ring_others(self) -> None:
        if self._doorbell is not None:
            self._doorbell.ring()

    def _changed_elsewhere(self, news: News) -> None:
        for rung in self._rung:
            rung(news)
