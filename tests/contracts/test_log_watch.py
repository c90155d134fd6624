"""On Linux a commit of another process is heard of, not only found by looking every now and then."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from pillarbox.storage.log_watch import LogWatch
from tests.threads import called

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Only Linux has inotify.")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(tmp_path / "a.db"))
    connection.pragma("journal_mode", "wal")
    connection.execute("CREATE TABLE notes (id)")
    yield connection
    connection.close()


def test_each_commit_is_heard(connection: apsw.Connection, tmp_path: Path) -> None:
    heard = threading.Semaphore(0)
    watch = LogWatch(str(tmp_path / "a.db"), heard.release)
    try:
        for number in range(3):
            connection.execute("INSERT INTO notes VALUES (?)", (number,))
            assert heard.acquire(timeout=10)
            while heard.acquire(timeout=0.1):
                """Several writes may make one commit."""
    finally:
        watch.close()


def test_other_files_of_the_folder_are_not_heard(tmp_path: Path) -> None:
    heard: list[int] = []
    written, log = threading.Event(), tmp_path / "a.db-wal"

    def note() -> None:
        heard.append(log.stat().st_size)
        written.set()

    log.touch()
    watch = LogWatch(str(tmp_path / "a.db"), note)
    try:
        for other in ("b.db-wal", "a.db-wal.copy", "a.db"):
            (tmp_path / other).write_bytes(b"x")
        # Not by write_bytes, which empties a file first: that is heard too.
        with log.open("ab") as end:
            end.write(b"x")
        assert written.wait(10)
    finally:
        watch.close()
    assert heard[0] == 1


def test_closing_leaves_no_thread_and_no_descriptor_behind(connection: apsw.Connection, tmp_path: Path) -> None:
    before = called("pillarbox-hear")
    watch = LogWatch(str(tmp_path / "a.db"), lambda: None)
    (thread,) = called("pillarbox-hear") - before
    pipe = os.readlink(f"/proc/self/fd/{watch._wakes}")
    assert len(descriptors(pipe, tmp_path)) == 3
    watch.close()
    watch.close()
    thread.join(10)
    assert not thread.is_alive()
    assert descriptors(pipe, tmp_path) == set()


def descriptors(pipe: str, folder: Path) -> set[str]:
    """Those of this pipe, and those that tell of what happens in this folder; other threads open and close their own."""
    mine = set()
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            told = Path(f"/proc/self/fdinfo/{number}").read_text()
            if os.readlink(f"/proc/self/fd/{number}") == pipe or f" ino:{folder.stat().st_ino:x} " in told:
                mine.add(number)
    return mine
