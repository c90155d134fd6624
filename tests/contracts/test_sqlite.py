"""What only SQLite can do to us: old libraries, full disks, read-only files, other processes on the same file."""

import asyncio
import os
import pwd
import queue
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from pillarbox import Pillarbox
from pillarbox.engine import Lease, Room
from pillarbox.errors import DatabaseBusy, DatabaseFull, Unavailable, UnsafeDatabase
from pillarbox.storage import News, Step
from pillarbox.storage.sqlite import SqliteDatabase
from pillarbox.storage.sqlite_connection import connect, require_safe_library
from tests.contracts import notes
from tests.contracts.notes import add, ids, with_notes


@pytest.mark.parametrize("version", ["3.51.2", "3.50.10", "3.7.17", "2.8.17"])
def test_a_library_that_can_corrupt_a_shared_file_is_refused(version: str) -> None:
    with pytest.raises(UnsafeDatabase, match=rf"SQLite {version} can corrupt"):
        require_safe_library(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.51.10", "3.52.0", "3.100.0", "4.0.0"])
def test_a_library_without_that_fault_is_taken(version: str) -> None:
    require_safe_library(version)


def test_a_connection_commits_to_disk(tmp_path: Path) -> None:
    connection = connect(str(tmp_path / "new.db"), busy_timeout=1.5)
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 2
    assert connection.pragma("busy_timeout") == 1500


async def test_two_processes_write_one_file_and_no_caller_notices(sqlite_url: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from functools import partial\n"
        "from tests.contracts.notes import add, opened\n"
        "async def main(url, first):\n"
        "    async with opened(url) as database:\n"
        "        for start in range(first, first + 400, 10):\n"
        "            await asyncio.gather(*(database.write(partial(add, n)) for n in range(start, start + 10)))\n"
        "asyncio.run(main(sys.argv[1], int(sys.argv[2])))\n"
    )
    async with with_notes(sqlite_url) as database:
        processes = [notes.start(program, sqlite_url, str(first)) for first in (0, 1000)]
        for number in range(2000, 2200):
            await database.write(lambda number=number: add(number))  # type: ignore[misc]
        errors = [(await asyncio.to_thread(process.communicate))[1] for process in processes]
        assert errors == [b"", b""]
        assert await ids(database) == [*range(400), *range(1000, 1400), *range(2000, 2200)]


async def test_a_full_disk_fails_who_needs_room_and_is_over_when_there_is_some(sqlite_url: str) -> None:
    def most_pages(count: int) -> Step[None]:
        yield notes.query(f"PRAGMA max_page_count = {count}")()

    async with with_notes(sqlite_url) as database:
        await database.write(lambda: add(1, "small"))
        await database.write(lambda: most_pages(1))
        answers = await asyncio.gather(
            database.write(lambda: add(2, "small")),
            database.write(lambda: add(3, "x" * 1_000_000)),
            database.write(lambda: add(4, "small")),
            return_exceptions=True,
        )
        assert answers[0] == 2
        assert isinstance(answers[1], DatabaseFull)
        assert answers[2] == 4
        await database.write(lambda: most_pages(1_000_000))
        assert await database.write(lambda: add(3, "x" * 1_000_000)) == 3
        assert await ids(database) == [1, 2, 3, 4]


async def test_a_write_lock_that_another_process_keeps_is_said_in_time(sqlite_url: str) -> None:
    path = sqlite_url.removeprefix("sqlite:///")
    async with with_notes(sqlite_url):
        database = SqliteDatabase(path, busy_timeout=0.2)
        blocker = apsw.Connection(path)
        blocker.execute("BEGIN IMMEDIATE")
        answers = await asyncio.wait_for(
            asyncio.gather(database.write(lambda: add(1)), database.write(lambda: add(2)), return_exceptions=True),
            10,
        )
        assert [type(answer) for answer in answers] == [DatabaseBusy, DatabaseBusy]
        assert await database.read(notes.everything) == []
        blocker.execute("ROLLBACK")
        assert await database.write(lambda: add(1)) == 1
        await database.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not write")
def test_a_file_that_cannot_be_written_says_whose_fault_it_is(scratch: Path) -> None:
    path = scratch / "read-only.db"
    connect(str(path), busy_timeout=1).close()
    path.chmod(0o444)
    program = (
        "import os, sys\n"
        "from pillarbox.errors import Unavailable\n"
        "from pillarbox.storage.sqlite import SqliteDatabase\n"
        "os.setuid(int(sys.argv[2]))\n"
        "try:\n"
        "    SqliteDatabase(sys.argv[1])\n"
        "except Unavailable as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", program, str(path), str(pwd.getpwnam("nobody").pw_uid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert "cannot be written; this user has no permission: check the owner and mode" in done.stdout


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"missing/new\.db; check that its folder exists"):
        SqliteDatabase(str(tmp_path / "missing" / "new.db"))


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, " * 1000)
    with pytest.raises(Unavailable, match=r"letter\.txt: it is not an SQLite file"):
        SqliteDatabase(str(path))


async def test_the_processes_of_one_boot_share_a_timeline(sqlite_url: str) -> None:
    async with notes.opened(sqlite_url) as one, notes.opened(sqlite_url) as two:
        difference = abs((one.clock.now() - two.clock.now()).total_seconds())
    assert difference < 0.05


@asynccontextmanager
async def hearing(url: str) -> AsyncIterator[Callable[..., Awaitable[None]]]:
    """Waits until another process that listens is told of just these pipes."""
    async with Pillarbox.open(url) as listener:
        heard: queue.Queue[News] = queue.Queue()
        listener.database.watch(heard.put)

        async def told_of(*pipes: str) -> None:
            while (await asyncio.to_thread(heard.get, timeout=10)).work != frozenset(pipes):
                pass

        yield told_of


async def test_others_hear_which_pipes_have_work(sqlite_url: str) -> None:
    async with Pillarbox.open(sqlite_url) as writer, hearing(sqlite_url) as told_of:
        await writer.sessions.open(session_id="s", target={"kind": "none"})
        await told_of()
        await writer.hooks.post("s", "agent_stop")
        await told_of("hooks")
        await writer.inbound.enqueue(session_id="s", origin="api", content="hello")
        await told_of("hooks", "inbound")


async def test_others_hear_of_a_pipe_whose_work_is_all_held_for_it_may_have_to_be_taken_over(sqlite_url: str) -> None:
    async with Pillarbox.open(sqlite_url) as writer, hearing(sqlite_url) as told_of:
        await writer.sessions.open(session_id="s", target={"kind": "none"})
        await writer.hooks.post("s", "agent_stop")
        lease = Lease("writer", timedelta(minutes=1))
        now = writer.database.clock.now()
        assert len(await writer.hooks.lane.claim(lease, room=Room(1, 1), now=now)) == 1
        await writer.inbound.enqueue(session_id="s", origin="api", content="hello")
        await told_of("hooks", "inbound")
