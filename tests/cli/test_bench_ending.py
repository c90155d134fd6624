"""However `pillarbox bench` ends, nothing of it stays: at once when it is told to end, with the next one when it was killed."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from pillarbox.storage.scratch import leftover_folders, scratch_file, scratch_schema
from tests.cli.conftest import Ask
from tests.cli.test_bench import names_in

SECONDS = 30.0
SCRATCH = (".pillarbox_bench_", "pillarbox_bench_")


def scratch_in(url: str) -> set[str]:
    return {name for name in names_in(url) if name.startswith(SCRATCH)}


@contextmanager
def benching(url: str, *left: str) -> Iterator[subprocess.Popen[bytes]]:
    """A bench that would take minutes, in a place of its own, once what others have left is gone."""
    command = [sys.executable, "-m", "pillarbox", "bench", "--seconds", "600", "--database", url]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline, waiting = time.monotonic() + SECONDS, threading.Event()
            while len(scratch_in(url) - {*left}) != 1 or {*left} & scratch_in(url):
                assert time.monotonic() < deadline
                assert process.poll() is None
                waiting.wait(0.05)
            yield process
        finally:
            process.kill()


def test_what_a_killed_one_left_is_named_by_doctor_and_removed_by_the_next_which_ends_in_order(
    ask: Ask, database_url: str
) -> None:
    ask("status")
    before = names_in(database_url)
    with benching(database_url) as killed:
        killed.kill()
        assert killed.wait(SECONDS) == -signal.SIGKILL
    (left,) = scratch_in(database_url)
    found = [each for each in ask("doctor")["checks"] if each["name"] == "leftovers"]
    assert len(found) == 1
    assert left in found[0]["detail"]
    with benching(database_url, left) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 128 + signal.SIGTERM
    assert names_in(database_url) == before


def test_a_terminal_that_is_closed_ends_it_in_order_too(sqlite_url: str) -> None:
    with benching(sqlite_url) as process:
        process.send_signal(signal.SIGHUP)
        assert process.wait(SECONDS) == 128 + signal.SIGHUP
    assert scratch_in(sqlite_url) == set()


def test_a_place_that_somebody_works_in_is_nobodys_leftover(database_url: str) -> None:
    def scratch() -> AbstractContextManager[str]:
        file = database_url.removeprefix("sqlite:///")
        return scratch_file(file) if file != database_url else scratch_schema(database_url)

    with scratch():
        mine = scratch_in(database_url)
        with scratch():
            assert mine < scratch_in(database_url)
        assert scratch_in(database_url) == mine
    assert scratch_in(database_url) == set()


def test_only_folders_that_are_surely_ours_and_old_are_leftovers(tmp_path: Path) -> None:
    def folder(name: str, *files: str, age: float = 7200.0) -> Path:
        place = tmp_path / f".pillarbox_bench_{name}"
        place.mkdir()
        for file in files:
            (place / file).touch()
        for path in (*place.iterdir(), place):
            os.utime(path, (time.time() - age, time.time() - age))
        return place

    old = folder("old_one1", "bench.db", "bench.db-wal")
    folder("young_01", "bench.db", age=60.0)
    folder("precious", "bench.db", "thesis.txt")
    folder("longername", "bench.db")
    (tmp_path / ".pillarbox_bench_linked01").symlink_to(old, target_is_directory=True)
    (tmp_path / ".pillarbox_bench_file0001").touch()
    assert leftover_folders(str(tmp_path / "box.db")) == [str(old)]
    with scratch_file(str(tmp_path / "box.db")):
        assert not old.exists()
        assert (tmp_path / ".pillarbox_bench_precious" / "thesis.txt").exists()


def test_only_schemas_that_are_surely_ours_are_removed(postgres_url: str) -> None:
    theirs = {
        "pillarbox_bench_",
        "pillarbox_bench_results",
        "pillarbox_bench_0a0b0c0d",
        "xpillarbox_bench_00000001_0a0b0c0d",
    }
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for name in (*theirs, "pillarbox_bench_00000001_0a0b0c0d"):
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    with scratch_schema(postgres_url):
        pass
    assert {name for name in names_in(postgres_url) if "pillarbox_bench" in name} == theirs


@pytest.mark.empty_database
def test_a_schema_of_another_user_is_left_to_them(postgres_url: str) -> None:
    name = "pillarbox_bench_00000001_0a0b0c0e"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS bench_other")
        connection.execute("CREATE ROLE bench_other")
        connection.execute(sql.SQL("CREATE SCHEMA {} AUTHORIZATION bench_other").format(sql.Identifier(name)))
    with scratch_schema(postgres_url):
        pass
    assert name in names_in(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(name)))
        connection.execute("DROP ROLE bench_other")
