"""The one thread that writes to an SQLite file.

Whatever is queued when it turns around shares one transaction and one fsync. Each caller has a savepoint, so that one bad row
fails alone; callers hear of success only after COMMIT.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from time import monotonic
from typing import Any, Generic, TypeVar

import apsw

from pillarbox.errors import DatabaseFull, Unavailable
from pillarbox.storage.database import News, Work
from pillarbox.storage.driver import drive
from pillarbox.storage.log_room import lay_out
from pillarbox.storage.owner import Owner
from pillarbox.storage.queries import load_queries
from pillarbox.storage.reserve import Reserve
from pillarbox.storage.sqlite_connection import execute, execute_one, is_full, is_refused, translated
from pillarbox.storage.standing import Stand
from pillarbox.storage.whereabouts import Whereabouts

T = TypeVar("T")

_queries = load_queries("pillarbox.storage", "waiting.sql")

_MOST_TOGETHER = 256
# How often another process's commits are looked for, and how often while one is on its way.
_GLANCE_SECONDS = 0.02
_QUICK_GLANCE_SECONDS = 0.001
# News that come closer together than this are waited for together.
_CROWDED_SECONDS = 0.005
_TIDY_MILLISECONDS = 100


@dataclass(slots=True, eq=False)
class _Job(Generic[T]):
    work: Work[T]
    future: Any
    loop: asyncio.AbstractEventLoop | None
    new: bool = False
    result: T | None = None
    error: BaseException | None = None

    def announce(self) -> None:
        if self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class _Sign(Enum):
    """What is queued that is no work: to look for others' commits, to lay out the log once there is time, or to stop."""

    LOOK = auto()
    LAY_OUT = auto()
    END = auto()


class _TransactionGone(Exception):
    """SQLite rolled the whole transaction back by itself."""


class Writer:
    """Takes works from any thread and commits them in groups."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        *,
        reserve: Reserve,
        watch: Callable[[News], None],
        ring: Callable[[], None],
    ) -> None:
        self._connection = connect()
        self._reserve = reserve
        self._watch = watch
        self._ring = ring
        self._version = self._data_version()
        self._opened = Whereabouts(self._connection.filename) if self._connection.filename else None
        self._short_log = False
        self.stand = Stand()
        self._alerted = 0.0
        self._writing = False
        self._noticed = 0.0
        self._crowded = False
        self._broken: Unavailable | None = None
        self._jobs: queue.SimpleQueue[_Job[Any] | _Sign] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        self._owner = Owner()
        self._thread = threading.Thread(target=self._run, name="pillarbox-write", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return self._jobs.qsize()

    async def submit(self, work: Work[T], loop: asyncio.AbstractEventLoop) -> T:
        future: asyncio.Future[T] = loop.create_future()
        self._put(_Job(work, future, loop))
        return await future

    async def submit_new(self, work: Work[T], loop: asyncio.AbstractEventLoop) -> T:
        """The same for new work, which is refused while the disk is nearly full."""
        future: asyncio.Future[T] = loop.create_future()
        self._put(_Job(work, future, loop, new=True))
        return await future

    def submit_blocking(self, work: Work[T]) -> T:
        future: Future[T] = Future()
        self._put(_Job(work, future, None))
        return future.result()

    def look_out(self) -> None:
        """Somebody has begun to write: look for their commit, which comes when it is on disk."""
        # While we write nobody else does: what was heard is ourselves, and afterwards we look anyway.
        if not self._writing:
            self._alerted = monotonic()
            self._jobs.put(_Sign.LOOK)

    def lay_out(self) -> None:
        """Prepare for a long life."""
        self._jobs.put(_Sign.LAY_OUT)

    def close(self) -> None:
        """Commit what was queued before, then stop."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._jobs.put(_Sign.END)
        self._thread.join()

    def _put(self, job: _Job[Any]) -> None:
        self._owner.require()
        # Under a lock, so that no job can be queued behind the end, where nobody would ever answer it.
        with self._gate:
            if self._closed:
                raise Unavailable("The database is closed.")
            self._jobs.put(job)

    def _run(self) -> None:
        open_ = True
        while open_:
            jobs, open_ = self._gather()
            if jobs:
                self._commit(jobs)
                _announce(jobs)
            elif self._short_log and self._opened:
                self._short_log = lay_out(self._connection, self._connection.filename, self._opened)
            self._notice_others()
        self._connection.close()

    def _gather(self) -> tuple[list[_Job[Any]], bool]:
        jobs: list[_Job[Any]] = []
        try:
            job = self._jobs.get(timeout=self._patience())
            while job is not _Sign.END:
                if isinstance(job, _Job):
                    jobs.append(job)
                elif job is _Sign.LAY_OUT:
                    self._short_log = True
                if len(jobs) == _MOST_TOGETHER:
                    return jobs, True
                job = self._jobs.get_nowait()
        except queue.Empty:
            return jobs, True
        return jobs, False

    def _patience(self) -> float:
        """Short at first when somebody has begun to write, unless news come one upon another: there may be hundreds more."""
        now = monotonic()
        if self._crowded and now - self._noticed < _GLANCE_SECONDS:
            return _GLANCE_SECONDS
        return min(_GLANCE_SECONDS, max(_QUICK_GLANCE_SECONDS, (now - self._alerted) / 4))

    def _commit(self, jobs: list[_Job[Any]]) -> None:
        admitted = self._admitted(jobs)
        if admitted:
            self._commit_together(admitted)
        marks = [job for job in admitted if not job.new and isinstance(job.error, DatabaseFull)]
        if marks and (self._reserve.release() or self._tidy()):
            self._commit_together(marks)
        if self._reserve.wants_short_log():
            self._tidy()

    def _admitted(self, jobs: list[_Job[Any]]) -> list[_Job[Any]]:
        """All of them, or without the new work that there is no room for."""
        if not any(job.new for job in jobs) or self._reserve.allows_new_work():
            return jobs
        if self._reserve.wants_short_log():
            self._tidy()
        try:
            self._reserve.require(self._spare())
        except DatabaseFull as error:
            for job in jobs:
                if job.new:
                    job.error = error
            return [job for job in jobs if not job.new]
        return jobs

    def _spare(self) -> int:
        """The bytes of pages that were given up, by pruning for instance, and can be filled again."""
        try:
            return int(self._connection.pragma("freelist_count")) * int(self._connection.pragma("page_size"))
        except apsw.Error:
            return 0

    def _tidy(self) -> bool:
        """Bring the write-ahead log home and shorten it; False where somebody reads from it or there is no room for that."""
        patience = int(self._connection.pragma("busy_timeout"))
        try:
            self._connection.set_busy_timeout(_TIDY_MILLISECONDS)
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.Error:
            return False
        finally:
            self._connection.set_busy_timeout(patience)
        return True

    def _commit_together(self, jobs: list[_Job[Any]]) -> None:
        if self._broken is not None:
            for job in jobs:
                job.error = self._broken
            return
        self._writing = True
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._run_all(jobs)
            self._connection.execute("COMMIT")
            if any(job.new and job.error is None for job in jobs):
                self._ring()
        except (apsw.Error, _TransactionGone) as error:
            if self._connection.in_transaction:
                with suppress(apsw.Error):
                    self._connection.execute("ROLLBACK")
            self._after_failure(jobs, error)
        finally:
            self._writing = False

    def _run_all(self, jobs: Sequence[_Job[Any]]) -> None:
        """Each in a savepoint, except the only one, which has the whole transaction to itself."""
        if len(jobs) > 1:
            for job in jobs:
                self._run_in_savepoint(job)
            return
        (job,) = jobs
        try:
            job.result, job.error = drive(job.work, partial(execute, self._connection)), None
        except BaseException as error:
            job.error = translated(error, self._connection.filename) if isinstance(error, apsw.Error) else error
            raise _TransactionGone from error

    def _run_in_savepoint(self, job: _Job[Any]) -> None:
        connection = self._connection
        connection.execute("SAVEPOINT job")
        try:
            job.result, job.error = drive(job.work, partial(execute, connection)), None
        except BaseException as error:
            # Whatever a work raises is its caller's; this thread must outlive it.
            job.error = translated(error, self._connection.filename) if isinstance(error, apsw.Error) else error
            if not connection.in_transaction:
                raise _TransactionGone from error
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")

    def _after_failure(self, jobs: list[_Job[Any]], error: Exception) -> None:
        if isinstance(error, apsw.IOError) and not is_full(error) and not is_refused(error):
            # A failed fsync may have lost pages that later ones would build on: only a restart reads what is truly there.
            self._broken = Unavailable("The disk answered with an I/O error; check it and restart.")
        if len(jobs) > 1 and self._broken is None and not isinstance(error, apsw.BusyError):
            for job in jobs:
                self._commit_together([job])
            return
        for job in jobs:
            if isinstance(error, apsw.Error):
                job.error = translated(error, self._connection.filename)

    def _notice_others(self) -> None:
        """The data version as this connection sees it moves only when another one has committed."""
        version = self._data_version()
        if version != self._version:
            self._version = version
            now = monotonic()
            self._crowded, self._noticed = now - self._noticed < _CROWDED_SECONDS, now
            waiting = self._waiting()
            served = self._serve(waiting or ())
            # A listener that went away, its event loop closed, must not end the writing.
            with suppress(Exception):
                self._watch(News(waiting and waiting - served))

    def _serve(self, pipes: Iterable[str]) -> frozenset[str]:
        """Run what stands by for these pipes; for which of them something did."""
        jobs: dict[str, _Job[Any]] = {}
        for pipe in pipes:
            standing = self.stand.take(pipe)
            if standing is not None and standing.begin():
                jobs[pipe] = _Job(standing.work, standing.future, standing.loop)
        if jobs:
            self._commit(list(jobs.values()))
            _announce(list(jobs.values()))
        return frozenset(jobs)

    def _waiting(self) -> frozenset[str] | None:
        """The pipes that have work; looking here is cheaper than to let each look for itself."""
        try:
            return frozenset(pipe for (pipe,) in execute_one(self._connection, _queries.pipes()))
        except apsw.Error:
            return None

    def _data_version(self) -> int:
        try:
            return int(self._connection.execute("PRAGMA data_version").get)
        except apsw.Error:
            return -1


def _announce(jobs: list[_Job[Any]]) -> None:
    """Wake each caller's event loop once, not once for each caller."""
    waiting: dict[asyncio.AbstractEventLoop, list[_Job[Any]]] = defaultdict(list)
    for job in jobs:
        if job.loop is None:
            job.announce()
        else:
            waiting[job.loop].append(job)
    for loop, theirs in waiting.items():
        # A loop that was closed meanwhile has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_announce_all, theirs)


def _announce_all(jobs: list[_Job[Any]]) -> None:
    for job in jobs:
        job.announce()
