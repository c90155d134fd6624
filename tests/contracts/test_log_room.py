"""Room in the write-ahead log is laid out behind all that it holds, and takes nothing away from anybody."""

import asyncio
import shutil
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from pillarbox import Pillarbox
from pillarbox.engine import Lease, Room
from pillarbox.storage import log_room
from pillarbox.storage.log_room import ROOM
from pillarbox.storage.sqlite_connection import connect
from pillarbox.storage.whereabouts import Whereabouts

LEASE = Lease("me", timedelta(minutes=1))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "box.db")


@pytest.fixture
def connection(path: str) -> Iterator[apsw.Connection]:
    opened = connect(path, busy_timeout=10)
    opened.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, said TEXT)")
    yield opened
    opened.close()


def lay_out(connection: apsw.Connection, path: str) -> None:
    while log_room.lay_out(connection, path, Whereabouts(path)):
        """As the thread that writes does whenever it has nothing else to do."""


def log_size(path: str) -> int:
    return Path(f"{path}-wal").stat().st_size


def numbers(connection: apsw.Connection) -> list[int]:
    return [n for (n,) in connection.execute("SELECT n FROM t ORDER BY n")]


def after_a_crash(path: str, folder: Path) -> apsw.Connection:
    """What somebody finds who comes when nobody has closed anything: the file and its log, without the log's index."""
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", folder / f"found.db{suffix}")
    found = connect(str(folder / "found.db"), busy_timeout=10)
    assert found.pragma("integrity_check") == "ok"
    return found


def test_what_was_committed_before_and_after_is_there_after_a_crash(
    connection: apsw.Connection, path: str, tmp_path: Path
) -> None:
    connection.execute("INSERT INTO t VALUES (1, 'before')")
    lay_out(connection, path)
    assert log_size(path) == ROOM
    connection.execute("INSERT INTO t VALUES (2, 'after')")
    assert log_size(path) == ROOM
    assert numbers(after_a_crash(path, tmp_path / "crash")) == [1, 2]


def test_a_log_that_nothing_was_written_to_can_be_laid_out(
    connection: apsw.Connection, path: str, tmp_path: Path
) -> None:
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    assert log_size(path) == 0
    lay_out(connection, path)
    assert log_size(path) == ROOM
    assert numbers(after_a_crash(path, tmp_path / "empty")) == []
    connection.execute("INSERT INTO t VALUES (1, 'x')")
    assert numbers(after_a_crash(path, tmp_path / "one")) == [1]


async def test_whatever_goes_wrong_with_it_the_thread_that_writes_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Pillarbox.open(f"sqlite:///{tmp_path}/box.db") as box:
        await box.sessions.open(session_id="s", target={"kind": "none"})
        monkeypatch.setattr(log_room, "os", None)
        standby = box.hooks.lane.stand_by(LEASE, room=Room(4, 4), ready=lambda: None)
        assert standby
        async with asyncio.timeout(30):
            await box.hooks.post("s", "agent_stop")
            assert (await box.hooks.post("s", "agent_stop")).id == 2


def test_a_log_that_is_long_enough_stays_as_it_is(connection: apsw.Connection, path: str) -> None:
    with connection:
        for n in range(200):
            connection.execute("INSERT INTO t VALUES (?, ?)", (n, "x" * 100_000))
    size = log_size(path)
    assert size > ROOM
    lay_out(connection, path)
    assert log_size(path) == size


def test_a_disk_with_little_to_spare_keeps_it(
    connection: apsw.Connection, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_room, "_PLENTY", 2**62)
    size = log_size(path)
    lay_out(connection, path)
    assert log_size(path) == size


def test_whoever_writes_meanwhile_waits_and_loses_nothing(
    connection: apsw.Connection, path: str, tmp_path: Path
) -> None:
    written: list[int] = []
    over = threading.Event()

    def write() -> None:
        other = connect(path, busy_timeout=10)
        while not over.is_set():
            other.execute("INSERT INTO t VALUES (?, 'x')", (len(written),))
            written.append(len(written))
        other.close()

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(20):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        lay_out(connection, path)
    over.set()
    writer.join()
    assert written
    assert numbers(after_a_crash(path, tmp_path / "crash")) == written


def test_where_somebody_else_writes_for_too_long_it_is_left_out(path: str, connection: apsw.Connection) -> None:
    impatient = connect(path, busy_timeout=0)
    connection.execute("BEGIN IMMEDIATE")
    size = log_size(path)
    lay_out(impatient, path)
    assert log_size(path) == size
    assert not impatient.in_transaction
    connection.execute("ROLLBACK")
    impatient.close()


def test_a_file_that_took_the_place_of_ours_is_left_alone(connection: apsw.Connection, path: str) -> None:
    opened = Whereabouts(path)
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").rename(f"{path}-moved{suffix}")
    with_another = connect(path, busy_timeout=10)
    with_another.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, said TEXT)")
    size = log_size(path)
    log_room.lay_out(connection, path, opened)
    assert log_size(path) == size
    assert not connection.in_transaction
    with_another.close()


def test_it_is_laid_out_in_short_pieces(connection: apsw.Connection, path: str) -> None:
    size = log_size(path)
    assert log_room.lay_out(connection, path, Whereabouts(path))
    assert size < log_size(path) <= size + ROOM // 50
    assert not connection.in_transaction
