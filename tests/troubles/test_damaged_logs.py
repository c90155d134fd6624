"""A write-ahead log that gives back other bytes than it was given is refused; one that a crash cut short is not."""

import json
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import apsw
import pytest

from pillarbox import Pillarbox
from pillarbox.errors import UnsafeDatabase
from pillarbox.storage import log_room
from pillarbox.storage.log_damage import connect_to_whole_log
from pillarbox.storage.sqlite_connection import connect
from pillarbox.storage.whereabouts import Whereabouts
from tests.troubles.logs import FRAME, HEADER, PAGE, add, ends, flip, found, frames, log_of, overwrite, rows_in, written

ROWS = 40
KILLED = """
import asyncio, os, signal, sys
from pillarbox import Pillarbox
async def main():
    async with Pillarbox.open(sys.argv[1]) as box:
        await box.sessions.open(session_id="s", target={"kind": "none"})
        for number in range(20):
            await box.inbound.enqueue(session_id="s", origin="test", content=f"{number} " + "x" * 9000)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@pytest.fixture
def original(tmp_path: Path) -> Iterator[Path]:
    connection = written(tmp_path / "busy.db", rows=ROWS)
    yield found(tmp_path / "busy.db", tmp_path / "original")
    connection.close()


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """What a process left that was killed right after its messages were acknowledged."""
    path = tmp_path / "pillarbox.db"
    done = subprocess.run([sys.executable, "-c", KILLED, f"sqlite:///{path}"], timeout=60, check=False)
    assert done.returncode == -9
    return path


def rows_of(path: Path) -> int:
    """How many rows are there for whoever opens the file, who must not be refused."""
    connection = connect_to_whole_log(str(path), busy_timeout=10)
    try:
        assert connection.pragma("integrity_check") == "ok"
        return rows_in(connection)
    finally:
        connection.close()


def require_refused(path: Path) -> str:
    """It is refused, by the name of its log, and left as it was."""
    before = path.read_bytes(), log_of(path).read_bytes()
    with pytest.raises(UnsafeDatabase) as refused:
        connect_to_whole_log(str(path), busy_timeout=10)
    assert str(refused.value).startswith(f"{log_of(path)} is damaged, so that messages acknowledged since")
    assert (path.read_bytes(), log_of(path).read_bytes()) == before
    return str(refused.value)


def run(*command: str, path: Path) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, "-m", "pillarbox", *command, "--database", f"sqlite:///{path}"]
    return subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False)


def test_a_bit_that_was_flipped_before_the_last_two_commits_is_found_wherever_it_is(
    original: Path, tmp_path: Path
) -> None:
    random, last = Random(6), ends(original)[-2].place
    for _ in range(60):
        copy = found(original, tmp_path / "copy")
        flip(log_of(copy), random.randrange(HEADER, last), random.randrange(8))
        require_refused(copy)


def test_a_bit_that_was_flipped_in_a_frame_s_header_is_found_whatever_it_says(original: Path, tmp_path: Path) -> None:
    for frame in (frames(original)[0], ends(original)[4], frames(original)[-40]):
        for place in range(frame.place, frame.place + FRAME):
            copy = found(original, tmp_path / "copy")
            flip(log_of(copy), place, place % 8)
            require_refused(copy)


def test_a_bit_that_was_flipped_in_the_log_s_header_hides_all_of_it_and_is_found(
    original: Path, tmp_path: Path
) -> None:
    for place in range(HEADER):
        copy = found(original, tmp_path / "copy")
        flip(log_of(copy), place, place % 8)
        require_refused(copy)


async def test_a_box_that_was_killed_opens_again_whole_and_not_at_all_once_its_log_is_damaged(
    killed: Path, tmp_path: Path
) -> None:
    damaged = found(killed, tmp_path / "damaged")
    flip(log_of(damaged), ends(damaged)[5].place + 2000, 3)
    with pytest.raises(UnsafeDatabase, match=r"found\.db-wal is damaged"):
        async with Pillarbox.open(f"sqlite:///{damaged}"):
            pytest.fail("it was opened")
    async with Pillarbox.open(f"sqlite:///{killed}") as box:
        assert (await box.inbound.status()).pending == 20


def test_doctor_and_serve_and_backup_name_the_log_and_leave_it_as_it_is(killed: Path, tmp_path: Path) -> None:
    flip(log_of(killed), ends(killed)[5].place + 2000, 3)
    before = log_of(killed).read_bytes()
    said = run("doctor", "--json", path=killed)
    assert said.returncode == 1
    (check,) = (each for each in json.loads(said.stdout)["checks"] if each["name"] == "database")
    assert check["detail"].startswith(f"{killed}-wal is damaged")
    for command in (["serve", "--port", "0"], ["backup", str(tmp_path / "copy.db")]):
        done = run(*command, path=killed)
        assert done.returncode == 1
        assert f"{killed}-wal is damaged" in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "copy.db").exists()
    assert log_of(killed).read_bytes() == before


def test_looking_at_what_restoring_would_do_leaves_a_damaged_log_as_it_is(killed: Path, tmp_path: Path) -> None:
    whole = found(killed, tmp_path / "whole")
    assert run("backup", str(tmp_path / "copy.db"), path=whole).returncode == 0
    flip(log_of(killed), ends(killed)[5].place + 2000, 3)
    before = log_of(killed).read_bytes()
    assert run("restore", str(tmp_path / "copy.db"), "--preview", path=killed).returncode == 0
    assert log_of(killed).read_bytes() == before


def test_whoever_goes_on_knowingly_as_told_keeps_what_lies_before_the_damage(original: Path) -> None:
    flip(log_of(original), ends(original)[20].place + 2000, 3)
    (told,) = re.findall(r"go on [^`]*`([^`]+)`", require_refused(original))
    subprocess.run(shlex.split(told), timeout=60, check=True, stdin=subprocess.DEVNULL)
    # The first commit made the table.
    assert rows_of(original) == 20 - 1


def test_what_was_written_behind_the_damage_by_who_does_not_look_hides_none_of_it(original: Path) -> None:
    flip(log_of(original), ends(original)[5].place + 2000, 3)
    receiver = apsw.Connection(str(original))
    receiver.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    add(receiver, 100)
    receiver.close()
    require_refused(original)


def test_a_log_that_was_cut_at_any_length_ends_with_its_last_whole_commit(original: Path, tmp_path: Path) -> None:
    random, size, committed = Random(7), log_of(original).stat().st_size, ends(original)
    lengths = [random.randrange(size) for _ in range(60)] + [end.end for end in committed[-20:]]
    for length in lengths:
        copy = found(original, tmp_path / "copy")
        with log_of(copy).open("r+b") as log:
            log.truncate(length)
        whole = sum(end.end <= length for end in committed)
        if whole:
            assert rows_of(copy) == whole - 1


def test_garbage_in_the_last_transaction_is_a_crash_and_loses_nothing_before_it(original: Path, tmp_path: Path) -> None:
    random = Random(8)
    busy = connect(str(original), busy_timeout=10)
    add(busy, 200_000)
    torn = found(original, tmp_path / "torn")
    busy.close()
    before, last = ends(torn)[-2:]
    for _ in range(60):
        copy = found(torn, tmp_path / "copy")
        place = random.randrange(before.end, last.end)
        overwrite(log_of(copy), place, random.randbytes(random.randrange(1, last.end - place + 1)))
        assert rows_of(copy) >= ROWS


def test_sectors_of_the_last_transaction_that_were_not_written_are_a_crash(original: Path, tmp_path: Path) -> None:
    """They hold what was there before: the log's generation before this one, of which every frame ended a transaction."""
    random = Random(9)
    busy = connect(str(original), busy_timeout=10)
    busy.wal_checkpoint()
    for number in range(150):
        busy.execute("UPDATE t SET said = ? WHERE n = 1", (str(number),))
    busy.wal_checkpoint()
    old = log_of(original).read_bytes()
    for length in (100, 400_000):
        add(busy, length)
    torn = found(original, tmp_path / "torn")
    busy.close()
    before, last = ends(torn)
    for _ in range(60):
        copy = found(torn, tmp_path / "copy")
        mixed = bytearray(log_of(torn).read_bytes())
        for sector in range(before.end - before.end % 512, last.end, 512):
            start, end = max(before.end, sector), min(last.end, sector + 512)
            if random.random() < 0.5:
                mixed[start:end] = old[start:end]
        log_of(copy).write_bytes(mixed)
        assert rows_of(copy) == ROWS + 1


def test_what_two_crashes_left_of_one_transaction_each_is_not_taken_for_damage(original: Path, tmp_path: Path) -> None:
    for long in (300_000, 200_000):
        busy = connect(str(original), busy_timeout=10)
        busy.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        add(busy, long)
        busy.close()
        overwrite(log_of(original), ends(original)[ROWS].end, bytes(PAGE))
        assert rows_of(found(original, tmp_path / "copy")) == ROWS
    busy = connect(str(original), busy_timeout=10)
    busy.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    add(busy, 100)
    busy.close()
    assert rows_of(original) == ROWS + 1


def test_frames_of_an_older_generation_and_room_are_no_part_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "busy.db"
    connection = written(path, rows=ROWS)
    while log_room.lay_out(connection, str(path), Whereabouts(str(path))):
        """As the thread that writes does whenever it has nothing else to do."""
    assert rows_of(found(path, tmp_path / "room")) == ROWS
    connection.wal_checkpoint()
    for number in range(10):
        add(connection, 100)
        assert rows_of(found(path, tmp_path / "copy")) == ROWS + number + 1
    assert len(ends(path)) == 10
    damaged = found(path, tmp_path / "damaged")
    flip(log_of(damaged), ends(path)[2].place + 500, 3)
    require_refused(damaged)
    connection.close()


@pytest.mark.parametrize("mode", ["PASSIVE", "RESTART", "TRUNCATE"])
def test_a_log_that_others_write_to_and_begin_anew_is_not_judged(tmp_path: Path, mode: str) -> None:
    path, over = tmp_path / "busy.db", threading.Event()
    kept = written(path, rows=ROWS)
    written_by_others: list[int] = []

    def write() -> None:
        other, random = connect(str(path), busy_timeout=10), Random(10)
        while not over.is_set():
            add(other, random.randrange(20_000))
            written_by_others.append(1)
            if random.random() < 0.2:
                other.wal_checkpoint(mode=getattr(apsw, f"SQLITE_CHECKPOINT_{mode}"))
        other.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(200):
            connect_to_whole_log(str(path), busy_timeout=10).close()
    finally:
        over.set()
        writer.join()
    assert written_by_others
    assert rows_of(path) == ROWS + len(written_by_others)
    kept.close()


def test_a_log_that_was_brought_home_by_a_writer_that_died_before_it_began_anew_is_whole(original: Path) -> None:
    """For SQLite there is nothing in it, because the writer had said so to others, and all of it is still to be read."""
    busy = connect(str(original), busy_timeout=10)
    before = log_of(original).read_bytes()
    busy.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    overwrite(log_of(original), 0, before)
    assert rows_of(original) == ROWS
    busy.close()
